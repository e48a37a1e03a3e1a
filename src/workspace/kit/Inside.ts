/**
 * The inside of an open workspace, as the parts that run commands see it: a holder's namespaces, or a plain directory.
 * Promise: whichever it is, the same calls give the same answers, and the guarantee names the difference. Rules: W4, W17, S23.
 */
import type { SpawnOptions } from "node:child_process"
import type { SpawnGuarantee } from "../../base/Spawn.ts"
import type { Isolation } from "../WorkspaceProvider.ts"
import type { Holder, InsideProcess } from "./Holder.ts"
import type { Command, Heard, Launch } from "./Launch.ts"
import type { ResidentShell } from "./ResidentShell.ts"

export interface Inside {
  readonly alive: boolean
  readonly privateTmp: boolean
  readonly guarantee: SpawnGuarantee
  /** `argv` in front of a command, which then runs in `cwd` with the caller's ids. */
  readonly asCaller: (cwd: string) => readonly string[]
  readonly spawnOptions: (cwd: string) => Pick<SpawnOptions, "cwd" | "detached">
  /** True when `text` is the launcher's own complaint that the program does not start. */
  readonly saysNotStarted: (program: string, text: string) => boolean
  readonly processes: () => InsideProcess[]
  /** Where `processes` and their threads are looked up, by the pids given there. */
  readonly procRoot: string
  readonly quiet: () => boolean
  /** Set for every command: what its tree needs, and how a plain directory knows its own again. */
  readonly variablesOfAll: Readonly<Record<string, string>>
  readonly variables: (pid: number) => string
  readonly signal: (signal: "TERM" | "KILL" | "STOP" | "CONT", pids: readonly (number | "all")[]) => Promise<void>
  /** Starts commands where a resident shell does it. */
  readonly resident?: ((command: Command, heard: Heard) => Launch) | undefined
  /** A process tree of its own inside. */
  readonly nest: () => Promise<EndableInside>
}

/** With the right to end all of it at once. */
export interface EndableInside extends Inside {
  readonly end: () => Promise<void>
}

/** The inside of a holder. */
export const insideOf = (
  holder: Holder,
  options: {
    readonly privateTmp: boolean
    readonly isolation: Isolation
    readonly variables?: Readonly<Record<string, string>> | undefined
    readonly shell?: ResidentShell | undefined
  }
): EndableInside => ({
  get alive() {
    return holder.alive
  },
  privateTmp: options.privateTmp,
  guarantee: { diesWithParent: true, wholeTree: true, isolation: options.isolation.level },
  asCaller: (cwd) => holder.asCaller(cwd),
  // kill(2) on one's own process group reaches across pid namespaces: the launcher's must not be the SDK's.
  spawnOptions: () => ({ detached: true }),
  saysNotStarted: (program, text) => /^(unshare|setpriv|nsenter): /.test(text) && text.includes(program),
  processes: () => holder.processes(),
  get procRoot() {
    return holder.procRoot
  },
  quiet: () => holder.quiet(),
  variablesOfAll: options.variables ?? {},
  variables: (pid) => holder.variables(pid),
  signal: (signal, pids) => holder.signal(signal, pids),
  resident: options.shell === undefined ? undefined : (command, heard) => options.shell!.run(command, heard),
  nest: async () => insideOf(await holder.nest(), { ...options, shell: undefined }),
  end: () => holder.end()
})
