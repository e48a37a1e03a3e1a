/**
 * What this machine offers beside what a provider probes itself: Node, git, tar, namespaces, limits, clocks.
 * Promise: each answer was found by trying or reading, says what was found, and names a remedy when it is less than all;
 * what cannot be found out is `unknown`, never `ok`. Changes nothing. Rules: W2, S23, G36.
 */
import { closeSync, existsSync, openSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { run, toolEnvironment } from "../base/Command.ts"
import { machinePath } from "../base/MachinePath.ts"
import { guaranteeOf, strongestHold } from "../base/ProcessTree.ts"

export type CheckState = "ok" | "limited" | "missing" | "unknown"

/** One thing that was looked at. */
export interface Check {
  readonly id: string
  /** `missing`: the default preset does not work fully without it. `limited`: something is slower or less, and says what. */
  readonly state: CheckState
  readonly found: string
  /** What to do about it; null when there is nothing to do. */
  readonly remedy: string | null
}

const ok = (id: string, found: string): Check => ({ id, state: "ok", found, remedy: null })
const less =
  (state: Exclude<CheckState, "ok">) =>
  (id: string, found: string, remedy: string | null): Check => ({ id, state, found, remedy })
const limited = less("limited")
const missing = less("missing")
const unknown = less("unknown")

const read = (path: string): string | null => {
  try {
    return readFileSync(path, "utf8")
  } catch {
    return null
  }
}

/** True when the dotted version `found` is `least` or newer. */
export const isAtLeast = (found: string, least: string): boolean => {
  const a = found.split(".").map(Number)
  const b = least.split(".").map(Number)
  for (let i = 0; i < b.length; i++) {
    const [x, y] = [a[i] ?? 0, b[i] ?? 0]
    if (x !== y) return x > y
  }
  return true
}

const firstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? ""

const standardPlaces = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin"

/** What a program prints of itself, or null when it cannot be started. Its words in English, whatever the user's are. */
const asked = (
  argv: readonly [string, ...string[]],
  path = machinePath() ?? ""
): Effect.Effect<{ code: number; text: string } | null> =>
  run(argv, { env: { ...toolEnvironment(), LC_ALL: "C", PATH: path } }).pipe(
    Effect.map(({ code, stdout, stderr }) => ({ code, text: firstLine(stdout.toString("utf8")) || firstLine(stderr) })),
    Effect.orElseSucceed(() => null)
  )

/** As `asked`, for the tools that Coppice also finds in the standard places when PATH does not name them. */
const askedAnywhere = (argv: readonly [string, ...string[]]) => asked(argv, `${machinePath() ?? ""}:${standardPlaces}`)

/** `engines` of the package; `node:sqlite` needs no flag from here on. */
const leastNode = "22.19.0"
/** The first that takes `GIT_CONFIG_GLOBAL`: with an older one the user's own configuration would reach Coppice's calls. */
const leastGit = "2.32"
/** The first with `git merge-tree --write-tree`. */
const leastGitForWorktrees = "2.38"

export const node: Effect.Effect<Check> = Effect.sync(() => {
  const found = process.versions.node
  return isAtLeast(found, leastNode) ? ok("node", found) : missing("node", found, `Run Node ${leastNode} or newer.`)
})

export const git: Effect.Effect<Check> = Effect.map(asked(["git", "--version"]), (said) => {
  const remedy = `Install git ${leastGit} or newer and put it on PATH: patches and clean checkouts need it.`
  const version = /\d+(?:\.\d+)+/.exec(said?.text ?? "")?.[0]
  if (said === null || version === undefined) return missing("git", "not found", remedy)
  if (!isAtLeast(version, leastGit)) return missing("git", version, remedy)
  return isAtLeast(version, leastGitForWorktrees)
    ? ok("git", `${version}, also for the provider git-worktree`)
    : limited(
        "git",
        version,
        `The provider git-worktree needs git ${leastGitForWorktrees} or newer; the others do not.`
      )
})

export const tar: Effect.Effect<Check> = Effect.map(asked(["tar", "--version"]), (said) => {
  const remedy = "Install GNU tar 1.29 or newer (package tar) and put it on PATH: trees are written back by it."
  if (said === null) return missing("tar", "not found", remedy)
  const version = /GNU tar\) (\d+(?:\.\d+)+)/.exec(said.text)?.[1]
  if (version === undefined) return missing("tar", `not GNU tar: ${said.text}`, remedy)
  return isAtLeast(version, "1.29") ? ok("tar", `GNU tar ${version}`) : missing("tar", `GNU tar ${version}`, remedy)
})

const utilLinux = ["unshare", "nsenter", "setpriv", "mount"] as const

export const tools: Effect.Effect<Check> = Effect.map(
  Effect.forEach(utilLinux, (name) => Effect.map(askedAnywhere([name, "--version"]), (said) => ({ name, said }))),
  (all) => {
    // Only util-linux has the options that are used; another program of the same name (busybox) does not say that it is.
    const lacking = all.filter(({ said }) => !/util-linux/.test(said?.text ?? "")).map(({ name }) => name)
    const version = /\d+(?:\.\d+)+/.exec(all[0]?.said?.text ?? "")?.[0] ?? ""
    return lacking.length === 0
      ? ok("util-linux", version)
      : missing(
          "util-linux",
          `without ${lacking.join(", ")}`,
          "Install the packages util-linux and mount, and put them on PATH: without them nothing is isolated."
        )
  }
)

/** Which setting of the kernel stands in the way of a user namespace, as far as it can be read. */
const namespaceRemedy = (): string => {
  const setting = (name: string): string | undefined => read(`/proc/sys/${name}`)?.trim()
  if (setting("user/max_user_namespaces") === "0") return "Raise the limit: sysctl -w user.max_user_namespaces=10000."
  if (setting("kernel/unprivileged_userns_clone") === "0")
    return "Allow them: sysctl -w kernel.unprivileged_userns_clone=1."
  if (setting("kernel/apparmor_restrict_unprivileged_userns") === "1") {
    return "AppArmor restricts them: allow `userns` in a profile for node, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0."
  }
  return "The kernel or the container's seccomp profile refuses them: run where unshare --user is allowed."
}

export const namespaces: Effect.Effect<Check> = Effect.gen(function* () {
  if (process.platform !== "linux")
    return unknown("namespaces", `not on ${process.platform}`, "Use Linux for isolation.")
  const tried = yield* askedAnywhere(["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "true"])
  if (tried === null) return missing("namespaces", "not tried: there is no unshare", "Install the package util-linux.")
  return tried.code === 0
    ? ok("namespaces", "a user, mount and pid namespace was made")
    : missing("namespaces", tried.text, namespaceRemedy())
})

/** Options of the /proc that this process sees (of several mounts there the last), and what is mounted over parts of it. */
export const proc: Effect.Effect<Check> = Effect.sync(() => {
  const mounts = read("/proc/self/mountinfo")
  if (mounts === null) {
    return missing("proc", "/proc is not readable", "Mount /proc: processes are told apart and proven gone by it.")
  }
  const rows = mounts.split("\n").map((line) => line.split(" "))
  const hidden = rows
    .findLast((row) => row[4] === "/proc")
    ?.at(-1)
    ?.match(/hidepid=([^,]+)/)?.[1]
  const masks = rows.flatMap((row) =>
    row[4]?.startsWith("/proc/") && row[4] !== "/proc/sys/fs/binfmt_misc" ? [row[4]] : []
  )
  if (hidden !== undefined && !["0", "off"].includes(hidden)) {
    return limited(
      "proc",
      `hidepid=${hidden}`,
      "Processes of other users are not seen: run every process of one store as one user, or mount /proc with hidepid=0."
    )
  }
  return masks.length === 0
    ? ok("proc", "whole")
    : limited(
        "proc",
        `masked: ${masks.join(", ")}`,
        "Unmask /proc in the container if namespaces or the overlay fail below."
      )
})

export const processTrees: Effect.Effect<Check> = Effect.map(strongestHold, (hold) => {
  const found = {
    pidNamespace: "a pid namespace",
    userPidNamespace: "a pid namespace in a user namespace",
    processGroup: ""
  }
  return guaranteeOf(hold).wholeTree
    ? ok("process-trees", `every process of an attempt ends with this one (${found[hold]})`)
    : missing(
        "process-trees",
        "a process that leaves its group may outlive an attempt",
        "Needs setpriv and unshare from util-linux, and pid namespaces."
      )
})

export const limits: Effect.Effect<Check> = Effect.sync(() => {
  const text = read("/proc/self/limits")
  if (text === null) return unknown("limits", "not readable", null)
  const soft = (name: string): number => {
    const value = new RegExp(`^${name}\\s+(\\S+)`, "m").exec(text)?.[1]
    return value === "unlimited" ? Number.POSITIVE_INFINITY : Number(value)
  }
  const files = soft("Max open files")
  const processes = soft("Max processes")
  const shown = (value: number) => (value === Number.POSITIVE_INFINITY ? "no limit" : String(value))
  const found = `open files ${shown(files)}, processes ${shown(processes)}`
  return files >= 4096 && processes >= 1024
    ? ok("limits", found)
    : limited("limits", found, "For many attempts at a time raise them: ulimit -n 4096, ulimit -u 1024.")
})

/** A file of the scratch directory is dated by its file system: that clock and ours must agree, and not lie in the past. */
export const clock = (scratch: string): Effect.Effect<Check> =>
  Effect.sync(() => {
    const file = join(scratch, "clock")
    writeFileSync(file, "")
    const apart = Math.round((Date.now() - statSync(file).mtimeMs) / 1000)
    const now = new Date()
    if (now.getUTCFullYear() < 2025) {
      return limited("clock", now.toISOString(), "Set the system clock: leases and budgets are dated by it.")
    }
    return Math.abs(apart) <= 60
      ? ok("clock", "agrees with the store's disk")
      : limited(
          "clock",
          `${apart} s apart from the store's disk`,
          "Set the clock of this machine or of the disk's server."
        )
  })

export const reflink = (scratch: string): Effect.Effect<Check> =>
  Effect.gen(function* () {
    writeFileSync(join(scratch, "whole"), Buffer.alloc(4096, 1))
    const said = yield* asked(["cp", "--reflink=always", join(scratch, "whole"), join(scratch, "clone")])
    if (said === null) return unknown("reflink", "cp was not found", "Install coreutils.")
    return said.code === 0
      ? ok("reflink", "the store's disk clones files: the provider reflink works there")
      : limited(
          "reflink",
          "not on the store's disk: the provider reflink does not work there",
          'For `workspaces: "reflink"` give a store on btrfs, XFS or bcachefs: --store DIR. The others need none.'
        )
  })

export const fuse: Effect.Effect<Check> = Effect.sync(() => {
  try {
    closeSync(openSync("/dev/fuse", "r+"))
    return ok("fuse", "present, for the projection lazy")
  } catch (error) {
    const absent = (error as NodeJS.ErrnoException).code === "ENOENT"
    return limited(
      "fuse",
      absent ? "no /dev/fuse" : "/dev/fuse may not be opened",
      absent
        ? "Only the projection lazy needs it: modprobe fuse, or `--device /dev/fuse` for a container."
        : "Only the projection lazy needs it: make /dev/fuse readable and writable for this user."
    )
  }
})

export const container: Effect.Effect<Check> = Effect.sync(() => {
  const marks = [
    existsSync("/.dockerenv") ? "docker" : null,
    existsSync("/run/.containerenv") ? "podman" : null,
    /^\d+:[^:]*:.*\b(docker|kubepods|lxc|containerd)\b/m.exec(read("/proc/1/cgroup") ?? "")?.[1] ?? null
  ].filter((mark) => mark !== null)
  return ok("container", marks.length === 0 ? "no sign of one" : `inside one (${marks.join(", ")})`)
})
