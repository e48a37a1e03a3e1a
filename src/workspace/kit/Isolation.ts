/**
 * Decides what a workspace hides and what it shows read-only, and says so in words.
 * Promise: everything named as protected is absent or read-only inside; what stays reachable is listed, not glossed over.
 * Isolation is against accidents and careless agents, not against a hostile kernel-level attacker. Rules: W17.
 */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { fromInput, isBelow, show, toBytes, type TreePath } from "../../base/PathBytes.ts"
import type { Isolation, OpenOptions } from "../WorkspaceProvider.ts"
import type { SeenNetwork } from "./Holder.ts"
import { type Flagged, type MountPlan, ours, privateHome, reachPlace, waitingPlace } from "./MountTable.ts"
import { privateDevices } from "./PrivateDevices.ts"
import type { Reached } from "./StorePort.ts"
import { mountedAt, writableMounts } from "./WritableMounts.ts"

/** Below the home directory: what holds credentials. */
const credentials = [
  ".ssh",
  ".aws",
  ".azure",
  ".npmrc",
  ".yarnrc.yml",
  ".pypirc",
  ".netrc",
  ".git-credentials",
  ".config/gh",
  ".config/git/credentials",
  ".config/gcloud",
  ".cargo/credentials.toml",
  ".docker",
  ".gnupg",
  ".kube",
  ".password-store"
]

/** Sockets that hand out rights over the machine or the session. `/run/user/UID` holds D-Bus, keyring and agents. */
const sockets = [
  "/run/docker.sock",
  "/var/run/docker.sock",
  "/run/podman",
  "/run/containerd",
  "/run/dbus",
  "/run/snapd.socket",
  "/run/libvirt"
]

/** What the file `core_pattern` and its like change is the whole machine; root may write them, whatever its capabilities. */
const kernelControls = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"]

export interface IsolationInput {
  readonly workspacePath: TreePath
  /** STORE: holds the authority file, the object store and every other workspace. */
  readonly store: TreePath
  readonly origin: TreePath | null
  readonly hide: readonly string[]
  readonly readOnlyPaths: readonly string[]
  readonly reach: readonly Reached[]
  readonly uid: number
  /** A directory of the store in which the private `/dev` may be made. */
  readonly deviceParent: string
  /** Of the namespace in which the plan will be carried out: what is mounted elsewhere may change under the plan. */
  readonly mountinfo: string
}

export type Protection = Pick<
  MountPlan,
  | "maskDirectories"
  | "maskFiles"
  | "devices"
  | "nodeFlags"
  | "readOnlyMounts"
  | "readOnlyBinds"
  | "keepFromTmp"
  | "reach"
  | "privateTmp"
>

export interface Protected {
  readonly plan: Protection
  readonly isolation: Isolation
}

export const withoutProtection: Protection = {
  maskDirectories: [],
  maskFiles: [],
  devices: null,
  nodeFlags: [],
  readOnlyMounts: [],
  readOnlyBinds: [],
  keepFromTmp: [],
  reach: [],
  privateTmp: false
}

const realPath = (at: string): TreePath | undefined => {
  try {
    return fs.realpathSync(toBytes(fromInput(at)), { encoding: "latin1" })
  } catch {
    // Nothing there, or nothing this user can reach: then nothing inside can either.
    return undefined
  }
}

const isDirectory = (at: TreePath): boolean => fs.statSync(toBytes(at)).isDirectory()

interface MountPoint extends Flagged {
  readonly type: string
  readonly readOnly: boolean
}

/** Flags that a user namespace may not clear; mount(8) names them as mountinfo does. */
const kept = new Set(["nosuid", "nodev", "noexec", "noatime", "nodiratime", "relatime"])

/** mountinfo, see proc_pid_mountinfo(5). A later line on one point covers the earlier one. */
export const parseMounts = (text: string): ReadonlyMap<TreePath, MountPoint> => {
  const mounts = new Map<TreePath, MountPoint>()
  for (const line of text.split("\n")) {
    const fields = line.split(" ")
    const dash = fields.indexOf("-")
    if (fields.length < 6 || dash < 0) continue
    const at = fields[4]!.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
    const options = fields[5]!.split(",")
    mounts.delete(at)
    mounts.set(at, {
      at,
      flags: options.filter((option) => kept.has(option)),
      type: fields[dash + 1]!,
      readOnly: options.includes("ro")
    })
  }
  return mounts
}

const mountOf = (mounts: ReadonlyMap<TreePath, MountPoint>, at: TreePath): MountPoint | undefined => {
  let best: MountPoint | undefined
  for (const mount of mounts.values()) {
    if ((mount.at === at || isBelow(at, mount.at)) && (best === undefined || mount.at.length >= best.at.length))
      best = mount
  }
  return best
}

const reachableBy = (at: TreePath): boolean => {
  try {
    fs.statSync(toBytes(at))
    return true
  } catch {
    return false
  }
}

/** This user may not get there, so nothing inside may: there are no more rights inside than outside. */
const isDenied = (at: TreePath): boolean => {
  try {
    fs.statSync(toBytes(at))
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EACCES"
  }
}

/** What to mount, and how to describe it. */
export const planIsolation = (input: IsolationInput): Protected => {
  const mounts = parseMounts(input.mountinfo)
  const flagged = (at: TreePath): Flagged => ({ at, flags: mountOf(mounts, at)?.flags ?? [] })
  const devices = privateDevices(input.deviceParent)
  const shown: string[] = ["private /tmp and System V IPC", "private /dev: no disk, no node of the machine"]
  const reachable: string[] = [
    "files of this user outside the masks (read-only)",
    // To connect is no write to the file system that the socket's name lies on.
    "UNIX sockets with a path outside the masks (whoever listens there answers)"
  ]
  const directories = new Set<TreePath>()
  const files = new Set<TreePath>()
  const mask = (at: string, name: string, asked = false): void => {
    const real = realPath(at)
    if (real === undefined && asked)
      reachable.push(`${name}: was not there when the workspace was opened, so it is not hidden`)
    if (real === undefined || real === "/") return
    if (real === input.workspacePath || isBelow(real, input.workspacePath)) {
      if (real !== input.workspacePath) reachable.push(`${name}: the workspace's own copy of it`)
      return
    }
    ;(isDirectory(real) ? directories : files).add(real)
    shown.push(name)
  }

  mask(Buffer.from(input.store, "latin1").toString("utf8"), "store, with the authority file and every other workspace")
  if (input.origin === input.workspacePath) shown.push("origin (covered by the workspace)")
  else if (input.origin !== null) mask(Buffer.from(input.origin, "latin1").toString("utf8"), "origin")
  for (const at of input.hide) mask(at, at, true)
  const home = os.homedir()
  for (const name of credentials) mask(path.join(home, name), `~/${name}`)
  for (const at of sockets) mask(at, at)
  mask(`/run/user/${input.uid}`, "session bus and agents")
  const agent = process.env["SSH_AUTH_SOCK"]
  if (agent !== undefined && agent !== "") mask(agent, "ssh agent")

  // What lies below a masked directory is not there to be mounted over; what commands reach there is bound over the mask.
  for (const kind of [directories, files]) {
    for (const at of kind) {
      if (![...directories].some((masked) => isBelow(at, masked))) continue
      kind.delete(at)
      if (input.reach.some(({ path: open }) => at === open || isBelow(at, open)))
        reachable.push(`${show(at).path}: below what commands reach`)
    }
  }

  const readOnlyMounts: Flagged[] = []
  for (const mount of mounts.values()) {
    if (mount.readOnly || mount.type === "proc") continue
    if (mount.at === "/dev" || isBelow(mount.at, "/dev")) continue
    if (isBelow(mount.at, "/proc") || mount.at === "/tmp" || isBelow(mount.at, "/tmp")) continue
    if ([...directories].some((masked) => mount.at === masked || isBelow(mount.at, masked))) continue
    if (mount.at !== "/" && !reachableBy(mount.at)) continue
    readOnlyMounts.push({ at: mount.at, flags: mount.flags })
  }
  shown.push("every file system outside the workspace (read-only, the SDK's own code included)")

  const readOnlyBinds: Flagged[] = []
  if (input.uid === 0) {
    for (const at of kernelControls)
      if (fs.existsSync(at)) readOnlyBinds.push({ at, flags: ["nosuid", "nodev", "noexec"] })
    shown.push("kernel controls below /proc")
  }
  const keepFromTmp = input.readOnlyPaths.flatMap((at) => {
    const real = realPath(at)
    if (real !== undefined && (real === input.workspacePath || isBelow(real, input.workspacePath)))
      reachable.push(`${at}: in the workspace, where it can be written`)
    return real !== undefined && isBelow(real, "/tmp") && isDirectory(real) ? [flagged(real)] : []
  })

  // Parents first: a place below another one is bound over it.
  const reach = input.reach
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
    .map(({ path: at, access }) => ({ ...flagged(at), access }))
  for (const { at, access } of reach)
    reachable.push(`${show(at).path} (${access === "write" ? "writable" : "read-only"})`)

  return {
    plan: {
      maskDirectories: [...directories],
      maskFiles: [...files],
      nodeFlags: mountOf(mounts, "/dev")?.flags ?? [],
      devices: { directory: flagged(fromInput(devices.directory)), nodes: devices.nodes },
      readOnlyMounts,
      readOnlyBinds,
      keepFromTmp,
      reach,
      privateTmp: true
    },
    isolation: { level: "enforced", protected: shown, reachable, network: "host" }
  }
}

const withNetwork = (isolation: Isolation, { kind, loopback, vsock }: SeenNetwork): Isolation => {
  const beside = vsock ? ["vsock: whatever listens at the hypervisor or beside it"] : []
  const reachable = [...beside, ...isolation.reachable]
  if (kind === "host") return { ...isolation, reachable: ["network and abstract sockets", ...reachable] }
  const own = loopback ? "nothing but a loopback of its own" : "not even a loopback"
  return {
    ...isolation,
    network: kind,
    protected: [...isolation.protected, `network and abstract sockets (${own})`],
    reachable
  }
}

/** What the options ask for. */
export const wantedIsolation = ({
  isolation
}: OpenOptions): { readonly isolated: boolean; readonly network: "host" | "none" } => ({
  isolated: isolation !== "off",
  network: typeof isolation === "object" ? (isolation.network ?? "host") : "host"
})

/** What may be written inside: nothing else, or the isolation is not what it says. */
const meantToBeWritable = (plan: MountPlan): ((at: TreePath, type: string) => boolean) => {
  const masks = new Set([...plan.maskDirectories, ...(plan.makeBelow === null ? [] : [plan.makeBelow])])
  const own = new Set<TreePath>([
    plan.workspacePath,
    "/tmp",
    privateHome,
    waitingPlace,
    "/dev/shm",
    "/dev/pts",
    "/proc",
    ...plan.reach.flatMap(({ at, access }, index) => (access === "write" ? [at, reachPlace(index)] : []))
  ])
  // A mask above the workspace is a small tmpfs of ours.
  return (at, type) => own.has(at) || (masks.has(at) && type === "tmpfs")
}

/**
 * The isolation as the kernel shows it: `mountinfo` is that of the first process inside. A writable mount beyond those meant,
 * or a mask that is not there, lowers the level to `advisory` and is named.
 */
export const readBack = (
  mounts: Isolation,
  plan: MountPlan,
  mountinfo: string,
  network: SeenNetwork = { kind: "host", loopback: true, vsock: false }
): Isolation => {
  if (mounts.level === "none") return mounts
  const planned = withNetwork(mounts, network)
  const meant = meantToBeWritable(plan)
  const writable = writableMounts(mountinfo).filter(({ at, type }) => !meant(at, type) && !isDenied(at))
  const covered = (path: TreePath): boolean =>
    path === plan.workspacePath || isBelow(path, plan.workspacePath) || isBelow(path, "/tmp")
  const bare = [...plan.maskDirectories, ...(plan.devices === null ? [] : ["/dev/shm", "/dev/pts"])].filter(
    (path) => !covered(path) && mountedAt(mountinfo, path) !== ours
  )
  const more = [
    ...writable.map(({ at }) => `${show(at).path} (writable)`),
    ...bare.map((at) => `${show(at).path} (its mask is not there)`)
  ]
  if (more.length === 0) return planned
  return { ...planned, level: "advisory", reachable: [...planned.reachable, ...more] }
}

export const notIsolated: Isolation = {
  level: "none",
  network: "host",
  protected: [],
  reachable: ["everything that this user can reach: isolation was switched off or is not possible here"]
}
