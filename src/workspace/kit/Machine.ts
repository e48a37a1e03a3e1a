/**
 * What this machine offers to the projections: the util-linux tools, user namespaces, an overlay on the store's file system.
 * Promise: found by trying, before any work; each missing piece is named with its remedy. Rules: W2.
 */
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { currentIdentity } from "../../base/ProcessIdentity.ts"
import type { Probe, Projection, ProjectionProbe } from "../WorkspaceProvider.ts"
import { servedOptions, servedType } from "./ServedMount.ts"

type Missing = { readonly what: string; readonly remedy: string }

export interface Tools {
  readonly setpriv: string
  readonly unshare: string
  readonly nsenter: string
  readonly mount: string
  readonly sh: string
  readonly env: string
  readonly cat: string
  /** Absent where there is none: what it would do is done otherwise, or not at all. */
  readonly perl?: string
}

const packageOf = {
  setpriv: "util-linux",
  unshare: "util-linux",
  nsenter: "util-linux",
  mount: "mount (util-linux)"
} as const
const standardPlaces = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"]

const isExecutable = (file: string): boolean => {
  try {
    fs.accessSync(file, fs.constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    return false
  }
}

/** The system's own first: one below /tmp or HOME would not be there once those are private. */
const find = (name: string): string | undefined =>
  [...standardPlaces, ...(process.env["PATH"] ?? "").split(":")]
    .filter((directory) => directory.startsWith("/"))
    .map((directory) => path.join(directory, name))
    .find(isExecutable)

/** What the resident shell is written in; part of every Debian. */
export const findPerl = (): string | undefined => find("perl")

/** The tools by absolute path, so that a later change of PATH changes nothing. */
export const findTools = (): { readonly tools: Tools | undefined; readonly missing: readonly Missing[] } => {
  const found: Record<string, string> = {}
  const missing: Missing[] = []
  for (const name of ["setpriv", "unshare", "nsenter", "mount", "sh", "env", "cat"] as const) {
    const at = find(name)
    if (at !== undefined) found[name] = at
    else {
      const owner = name in packageOf ? packageOf[name as keyof typeof packageOf] : "coreutils"
      missing.push({ what: `the program ${name}`, remedy: `Install the package ${owner} and put ${name} on PATH.` })
    }
  }
  const perl = findPerl()
  const tools = { ...found, ...(perl === undefined ? {} : { perl }) } as unknown as Tools
  return { tools: missing.length === 0 ? tools : undefined, missing }
}

/**
 * The name of a directory in `work/` that nothing else speaks for yet: it names its maker, so that what a killed process left can be
 * told from what is being made (`sweepWork`). `id` tells those of one process apart.
 */
export const freshName = (id: string): string =>
  `.fresh-${Buffer.from(JSON.stringify(currentIdentity())).toString("base64url")}.${id.slice(-12)}`

export const kernelRelease = (): string => os.release()

export const bootId = (): string | null => {
  try {
    return fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
  } catch {
    return null
  }
}

/** By the fields of its stat line from the state on: a zombie has no work left to do. One whose first thread alone has ended goes on. */
export const hasEnded = (fields: readonly string[]): boolean =>
  (fields[0] === "Z" || fields[0] === "X") && Number(fields[17]) <= 1

/**
 * Start time of a process in clock ticks since boot: field 22 of its stat line (proc_pid_stat(5)). Null when it has ended, also one that
 * nobody has reaped: the first process of many containers never does.
 */
export const startTimeOf = (pid: number): string | null => {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "latin1")
    // The command name stands in parentheses and may itself hold blanks and parentheses.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
    return hasEnded(fields) ? null : (fields[19] ?? null)
  } catch {
    return null
  }
}

const run = (
  argv: readonly [string, ...string[]]
): Promise<{ readonly code: number | null; readonly stderr: string }> =>
  new Promise((resolve) => {
    const child = spawn(argv[0], argv.slice(1), { stdio: ["ignore", "ignore", "pipe"], env: { LC_ALL: "C" } })
    let stderr = ""
    child.stderr.setEncoding("latin1").on("data", (text: string) => (stderr += text))
    child.once("error", (error) => resolve({ code: null, stderr: error.message }))
    child.once("close", (code) => resolve({ code, stderr }))
  })

/** What a tool said of itself; mount(8) puts advice on lines of their own after it. */
const complaint = (text: string): string => {
  const lines = text.trim().split("\n")
  return (lines.find((line) => /^(mount|unshare): /.test(line)) ?? lines.at(-1) ?? "").replace(/ ?\/\S+/g, " …")
}

const namespaced = (tools: Tools): readonly [string, ...string[]] => [
  tools.unshare,
  "--user",
  "--map-root-user",
  "--mount",
  "--ipc",
  "--pid",
  "--fork",
  "--kill-child"
]

/** What may forbid user namespaces, by the setting that says so; the first one that does is named. */
const forbidding: readonly { readonly file: string; readonly forbids: string; readonly remedy: string }[] = [
  {
    file: "/proc/sys/user/max_user_namespaces",
    forbids: "0",
    remedy: "Allow them: sysctl user.max_user_namespaces above 0, for example 15000."
  },
  {
    file: "/proc/sys/kernel/unprivileged_userns_clone",
    forbids: "0",
    remedy: "Allow them to ordinary users: sysctl kernel.unprivileged_userns_clone=1."
  },
  {
    file: "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    forbids: "1",
    remedy:
      "AppArmor restricts them: load a profile with `userns,` for the Node program, or sysctl kernel.apparmor_restrict_unprivileged_userns=0."
  }
]

const isContainer = (): boolean => ["/.dockerenv", "/run/.containerenv"].some((file) => fs.existsSync(file))

/** What to do about user namespaces that were refused; `read` gives a setting, undefined where there is none. */
export const remedyForNamespaces = (
  read: (file: string) => string | undefined,
  inContainer: boolean = isContainer()
): string => {
  const known = forbidding.find(({ file, forbids }) => read(file)?.trim() === forbids)
  if (known !== undefined) return known.remedy
  return inContainer
    ? "This is a container that refuses unshare(2) or mount(2): run it with a seccomp profile that allows them (Docker: --security-opt seccomp=unconfined, --security-opt apparmor=unconfined)."
    : "Allow them: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, and an AppArmor or SELinux policy that permits them."
}

const setting = (file: string): string | undefined => {
  try {
    return fs.readFileSync(file, "utf8")
  } catch {
    return undefined
  }
}

const tryNamespaces = async (tools: Tools): Promise<readonly Missing[]> => {
  const namespaces = namespaced(tools)
  const bare = await run([...namespaces, "true"])
  if (bare.code !== 0) {
    return [
      {
        what: `unprivileged user namespaces (${complaint(bare.stderr)})`,
        remedy: remedyForNamespaces(setting)
      }
    ]
  }
  const proc = await run([...namespaces, "--mount-proc", "true"])
  if (proc.code !== 0) {
    return [
      {
        what: `a private /proc (${complaint(proc.stderr)})`,
        remedy: "Run outside a container that masks parts of /proc, or with its /proc unmasked."
      }
    ]
  }
  return []
}

/** What an overlay lacks, and what one over a layer that is served lacks. */
interface OverlayLacks {
  readonly overlay: readonly Missing[]
  readonly served: readonly Missing[]
}

/** An overlay at `at`; then, in a shell of its own because a failed `exec` ends it, a file system that this namespace serves. */
const overlayScript = `cd "$1" && "$2" -t overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work overlay at && : > at/probe || exit 1
( exec 3<> /dev/fuse && "$2" -i -t ${servedType} -o ${servedOptions} coppice lower && : > served ) || :`

/** Why nothing can be served; mount(8) and the shell say it in their own words. */
const servedLack = (stderr: string): Missing => ({
  what: `a mount of /dev/fuse (${complaint(stderr.replace(/^.*\bcannot open \/dev\/fuse: /m, "mount: /dev/fuse does not open: "))})`,
  remedy:
    "Load the kernel module fuse and let this user read and write /dev/fuse (chmod 666; in a container: --device /dev/fuse), or open with another projection."
})

/** Tries an overlay in a scratch directory of the store, inside a user namespace that ends with the try. */
const tryOverlay = async (tools: Tools, work: string): Promise<OverlayLacks> => {
  const lacking = await tryNamespaces(tools)
  if (lacking.length > 0) return { overlay: lacking, served: lacking }
  const scratch = path.join(work, freshName(randomUUID()))
  fs.mkdirSync(scratch, { mode: 0o700 })
  try {
    for (const name of ["lower", "upper", "work", "at"]) fs.mkdirSync(path.join(scratch, name))
    const overlay = await run([...namespaced(tools), tools.sh, "-c", overlayScript, "sh", scratch, tools.mount])
    if (overlay.code === 0 && fs.existsSync(path.join(scratch, "upper", "probe"))) {
      const isServed = fs.existsSync(path.join(scratch, "served"))
      return { overlay: [], served: isServed ? [] : [servedLack(overlay.stderr)] }
    }
    // Says nothing about the machine.
    if (overlay.stderr.includes("No space left")) {
      throw Object.assign(new Error("no space for the probe"), { code: "ENOSPC", syscall: "mount" })
    }
    const none = [
      {
        what: `overlayfs with userxattr on the store's file system (${complaint(overlay.stderr)})`,
        remedy:
          "Needs Linux 5.11 or newer, and a store on a local disk or tmpfs that is not itself an overlay (in a container: a volume)."
      }
    ]
    return { overlay: none, served: none }
  } finally {
    // The kernel makes work/work with mode 000; its owner may always open it up again.
    const inner = path.join(scratch, "work", "work")
    if (fs.existsSync(inner)) fs.chmodSync(inner, 0o700)
    fs.rmSync(scratch, { recursive: true, force: true })
  }
}

/** What this machine lacks to run commands in namespaces of their own; empty when they work. */
export const missingForNamespaces = async (): Promise<readonly Missing[]> => {
  if (process.platform !== "linux") {
    return [
      { what: `namespaces on ${process.platform}`, remedy: "Isolation needs Linux; commands run without it here." }
    ]
  }
  const { tools, missing } = findTools()
  return tools === undefined ? missing : tryNamespaces(tools)
}

/** The answer of W2. `work` is a directory of the store, on the file system that uppers will lie on. */
export const probeMachine = async (work: string): Promise<Probe> => {
  const { overlay, served } = await overlayLacks(work)
  const told = (projection: Projection, missing: readonly Missing[]): ProjectionProbe => ({
    projection,
    available: missing.length === 0,
    missing
  })
  return {
    ready: true,
    projections: [told("overlay", overlay), told("lazy", served), told("copy", [])],
    missing: overlay
  }
}

const overlayLacks = async (work: string): Promise<OverlayLacks> => {
  const both = (missing: readonly Missing[]): OverlayLacks => ({ overlay: missing, served: missing })
  if (process.platform !== "linux") {
    return both([{ what: `overlayfs on ${process.platform}`, remedy: "Use the copy projection on this system." }])
  }
  const { tools, missing } = findTools()
  return tools === undefined ? both(missing) : tryOverlay(tools, work)
}
