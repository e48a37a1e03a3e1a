/**
 * Starts a process tree with the strongest hold that this machine gives, and ends it with proof.
 * Promise: in a pid namespace a SIGKILL of the SDK or of the tree ends every process of it, `setsid` grandchildren
 * included; elsewhere the read-back says what is missing. A survivor is never reported as gone. Rules: S20, S23, S51, G85, C95.
 *
 * In a pid namespace the chain is
 *
 *     setpriv --pdeathsig KILL  >  sh (parent still ours?)  >  unshare  >  sh, pid 1 of the namespace  >  the program
 *
 * and everything hangs on pid 1: the kernel ends all other members before pid 1 is seen to have ended
 * (pid_namespaces(7)), so a dead pid 1 is the proof for the whole tree. Real root makes the namespace itself; an
 * ordinary user makes it inside a user namespace, in which the program runs in a second one that maps back to the
 * caller's own ids: as mapped root it could undo what the first one holds. As pid 1 is a shell, a program ended by
 * signal N is seen as exit code 128 + N.
 *
 * A parent-death signal belongs to the thread that spawned (prctl(2)): spawn from a thread that lives as long as the tree.
 */
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import { randomUUID } from "node:crypto"
import { accessSync, constants, statSync } from "node:fs"
import { delimiter, isAbsolute, join, resolve } from "node:path"
import type { Duplex, Readable, Writable } from "node:stream"
import { setTimeout as delay } from "node:timers/promises"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { holdOutput } from "./HeldOutput.ts"
import { identify, identifyFromHere } from "./ProcessIdentity.ts"
import {
  childrenOf,
  descendantsOf,
  hasProcessTable,
  isRunning,
  listProcesses,
  readProcess,
  readVariable
} from "./ProcessTable.ts"
import {
  type ProcessExit,
  type ProcessIdentity,
  type SpawnedProcess,
  SpawnFailed,
  type SpawnGuarantee
} from "./Spawn.ts"

/** How a tree is held together, strongest first. */
export type Hold = "pidNamespace" | "userPidNamespace" | "processGroup"

export interface TreeOptions {
  /** Absolute path of the directory to start in. */
  readonly cwd: string
  /** The whole environment of the program. */
  readonly env: Readonly<Record<string, string>>
  /** How to hold the tree; the strongest that works here when absent. */
  readonly hold?: Hold
  /** What `SpawnGuarantee.isolation` says; a process tree alone isolates no files. */
  readonly isolation?: SpawnGuarantee["isolation"]
}

/** In every member's environment, so that members which left the process group can be found (S20). */
export const treeMarker = "COPPICE_TREE"

const setUpBoundMs = 10_000
const killBoundMs = 5000
const pollMs = 5

/** Waits for our word, so that pid 1 is identified before the program runs (S20). Its own messages are nobody's. */
const firstPid =
  'echo ready >&3; read -r go <&3 || exit 125; exec 3>&- 7>&2 2>/dev/null; ( exec "$@" 2>&7 7>&- ); exit $?'
const trial = '"$@"; exit $?'
/** Closes the window between our fork and `prctl`: a parent that died in between sends no signal any more. */
const parentStillOurs = '[ "$PPID" = "$0" ] || exit 125; exec "$@"'

const standardPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

const onPath = (name: string, path: string): string | undefined =>
  path
    .split(delimiter)
    .filter((directory) => isAbsolute(directory))
    .map((directory) => join(directory, name))
    .find(isProgram)

/** The full path of a program, so that no shell of the chain can take its name for a builtin. */
const resolveProgram = (program: string, cwd: string, path: string | undefined): string | undefined => {
  if (!program.includes("/")) return onPath(program, path ?? standardPath)
  const full = resolve(cwd, program)
  return isProgram(full) ? full : undefined
}

/** Our own tools come from this process's path, whatever environment the program is given. */
const tool = (name: string): string => onPath(name, `${process.env["PATH"] ?? ""}${delimiter}${standardPath}`) ?? name

const dieWithUs = (): readonly string[] =>
  [
    [tool("setpriv"), "--pdeathsig", "KILL"],
    [tool("sh"), "-c", parentStillOurs, String(process.pid)]
  ].flat()

const inNamespace = (flags: readonly string[], script: string): readonly string[] =>
  [
    dieWithUs(),
    [tool("unshare"), flags, "--pid", "--fork", "--kill-child", "--mount-proc"].flat(),
    [tool("sh"), "-c", script, "sh"]
  ].flat()

const mappedBack = (): readonly string[] => [
  tool("unshare"),
  "--user",
  `--map-user=${process.getuid?.() ?? 0}`,
  `--map-group=${process.getgid?.() ?? 0}`,
  "--"
]

const chain = (hold: Hold, script = firstPid): readonly string[] => {
  switch (hold) {
    case "pidNamespace":
      return inNamespace([], script)
    case "userPidNamespace":
      return [inNamespace(["--user", "--map-root-user"], script), mappedBack()].flat()
    case "processGroup":
      return isAbsolute(tool("setpriv")) ? dieWithUs() : []
  }
}

const works = (hold: Hold): Promise<boolean> =>
  new Promise((done) => {
    const [program, ...rest] = chain(hold, trial)
    if (program === undefined) return done(false)
    const child = spawn(program, [...rest, tool("true")], { stdio: "ignore", detached: true })
    child.once("error", () => done(false))
    child.once("exit", (code) => done(code === 0))
  })

let found: Promise<Hold> | undefined

const findHold = async (): Promise<Hold> => {
  if (process.platform !== "linux" || !hasProcessTable()) return "processGroup"
  if (process.getuid?.() === 0 && (await works("pidNamespace"))) return "pidNamespace"
  return (await works("userPidNamespace")) ? "userPidNamespace" : "processGroup"
}

/** The strongest hold that works on this machine, found once per process by trying it on `true`. */
export const strongestHold: Effect.Effect<Hold> = Effect.promise(() => (found ??= findHold()))

/** What `hold` guarantees. In a process group only the leader dies with us, so the tree does not. */
export const guaranteeOf = (hold: Hold, isolation: SpawnGuarantee["isolation"] = "none"): SpawnGuarantee => ({
  diesWithParent: hold !== "processGroup",
  wholeTree: hold !== "processGroup",
  isolation
})

/** Observes and signals the members of one tree. */
interface Membership {
  readonly identity: ProcessIdentity | null
  /** Sends `signal` to every member; for a namespace, KILL goes to its pid 1. */
  readonly signal: (signal: "SIGTERM" | "SIGKILL") => void
  readonly isGone: () => boolean
}

const send = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal)
  } catch {
    // Gone meanwhile, or not ours to signal: either way `isGone` observes what is left.
  }
}

const namespaceMembers = (identity: ProcessIdentity): Membership => {
  const isGone = (): boolean => {
    const row = readProcess(identity.pid)
    return row === null || row.startTime !== identity.startTime || !isRunning(row)
  }
  return {
    identity,
    isGone,
    signal: (signal) => {
      if (isGone()) return
      if (signal === "SIGKILL") return send(identity.pid, signal)
      for (const member of descendantsOf(identity.pid)) send(member, signal)
    }
  }
}

const groupMembers = (leader: number, marker: string): Membership => {
  // Once seen empty, the group's number may be given to a stranger: never look at or signal it again.
  let empty = false
  const members = (): readonly number[] => {
    if (empty) return []
    const pids = hasProcessTable()
      ? listProcesses()
          .filter(isRunning)
          .filter(
            (row) => row.group === leader || row.session === leader || readVariable(row.pid, treeMarker) === marker
          )
          .map((row) => row.pid)
      : groupExists(leader)
        ? [-leader]
        : []
    empty = pids.length === 0
    return pids
  }
  return {
    identity: identify(leader),
    isGone: () => members().length === 0,
    signal: (signal) => members().forEach((pid) => send(pid, signal))
  }
}

const groupExists = (group: number): boolean => {
  try {
    process.kill(-group, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

const until = async (condition: () => boolean, boundMs: number): Promise<boolean> => {
  const end = performance.now() + boundMs
  for (;;) {
    if (condition()) return true
    if (performance.now() >= end) return false
    await delay(pollMs)
  }
}

const spawnFailed = (program: string, message: string, remedy: string): SpawnFailed =>
  new SpawnFailed({ message, remedy, program })

const started = (child: ChildProcess, program: string): Promise<void> =>
  new Promise((done, fail) => {
    child.once("spawn", done)
    child.once("error", (error: NodeJS.ErrnoException) =>
      fail(
        spawnFailed(
          program,
          `The program could not be started (${error.code ?? "unknown"})`,
          "Check that it is installed."
        )
      )
    )
  })

/** Identifies pid 1 of the namespace, the only child of our child, and then lets it go on. */
const firstProcess = async (child: ChildProcess, program: string): Promise<ProcessIdentity> => {
  const channel = child.stdio[3] as Duplex
  channel.on("error", () => {})
  let timer: NodeJS.Timeout | undefined
  const reported = await new Promise<boolean>((done) => {
    channel.once("data", () => done(true))
    channel.once("end", () => done(false))
    child.once("exit", () => done(false))
    timer = setTimeout(() => done(false), setUpBoundMs)
  })
  clearTimeout(timer)
  const [pid] = reported && child.pid !== undefined ? childrenOf(child.pid) : []
  const identity = pid === undefined ? null : identifyFromHere(pid)
  if (identity === null) {
    channel.destroy()
    child.kill("SIGKILL")
    throw spawnFailed(
      program,
      "The namespace for the process tree could not be set up",
      "Ask the doctor which of unshare, setpriv and user namespaces is missing, or choose the hold `processGroup`."
    )
  }
  channel.end("go\n", () => channel.destroy())
  return identity
}

const start = async (argv: readonly [string, ...string[]], options: TreeOptions): Promise<SpawnedProcess> => {
  const [program, ...programArguments] = argv
  const path = resolveProgram(program, options.cwd, options.env["PATH"])
  if (path === undefined) {
    throw spawnFailed(program, "The program was not found, or is not executable", "Install it, or give its full path.")
  }
  const hold = options.hold ?? (await Effect.runPromise(strongestHold))
  const inPidNamespace = hold !== "processGroup"
  const marker = randomUUID()
  const [command, ...rest] = [...chain(hold), path, ...programArguments]
  const stdio: StdioOptions = inPidNamespace ? ["pipe", "pipe", "pipe", "pipe"] : ["pipe", "pipe", "pipe"]
  const child = spawn(command as string, rest, {
    cwd: options.cwd,
    env: { ...options.env, [treeMarker]: marker },
    stdio,
    // A group of its own: a terminal's Ctrl-C must reach the application first, which then decides.
    detached: true
  })
  // The pipe breaks when the program ends first; who writes learns it from the exit, not from an unhandled event.
  child.stdin?.on("error", () => {})
  const [stdout, stderr] = [holdOutput(child.stdout as Readable), holdOutput(child.stderr as Readable)]
  const exited = new Promise<ProcessExit>((done) => {
    child.once("exit", (code, signal) => done({ code, signal }))
  })
  await started(child, program)
  const members = inPidNamespace
    ? namespaceMembers(await firstProcess(child, program))
    : groupMembers(child.pid as number, marker)
  // Looks once at that moment, while the numbers of the group cannot yet belong to strangers.
  void exited.then(members.isGone)

  const end = async (graceMs: number): Promise<void> => {
    if (members.isGone()) return
    members.signal("SIGTERM")
    if (await until(members.isGone, graceMs)) return
    members.signal("SIGKILL")
    // A member may fork between our look and our signal: signal again while any is seen.
    await until(() => {
      if (members.isGone()) return true
      members.signal("SIGKILL")
      return false
    }, killBoundMs)
  }

  const stop = async (graceMs: number): Promise<void> => {
    await end(graceMs)
    // Our own child outside the namespace ends a moment after its pid 1: nobody should find it once the tree is gone.
    if (inPidNamespace && members.isGone())
      await until(() => child.exitCode !== null || child.signalCode !== null, killBoundMs)
  }

  return {
    stdin: child.stdin as Writable,
    stdout,
    stderr,
    identity: members.identity,
    guarantee: guaranteeOf(hold, options.isolation),
    wait: Effect.promise(() => exited),
    kill: (killOptions) => Effect.uninterruptible(Effect.promise(() => stop(killOptions?.graceMs ?? 2000))),
    provenGone: Effect.sync(members.isGone)
  }
}

const release = (tree: SpawnedProcess): Effect.Effect<void> =>
  Effect.andThen(
    tree.kill(),
    Effect.sync(() => {
      for (const stream of [tree.stdin, tree.stdout, tree.stderr]) stream.destroy()
    })
  )

/**
 * Starts `argv` (no shell) as a process tree that ends with the scope: TERM, 2 s of grace, KILL.
 * Fails with `SpawnFailed` when the program is missing or the hold cannot be set up; nothing runs then.
 */
export const spawnTree = (
  argv: readonly [string, ...string[]],
  options: TreeOptions
): Effect.Effect<SpawnedProcess, SpawnFailed, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.tryPromise({
      try: () => start(argv, options),
      catch: (error) =>
        (error as { _tag?: string })._tag === "SpawnFailed"
          ? (error as SpawnFailed)
          : spawnFailed(argv[0], "The process tree could not be set up", "See the doctor's report on process trees.")
    }),
    release
  )
