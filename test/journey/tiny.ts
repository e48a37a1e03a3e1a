/** A small repository with a value that is wrong, and a way to run its repair in a process that can be killed. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { isDeepStrictEqual } from "node:util"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { checkHistory, type HistoryOptions } from "./historyCheck.ts"

const program = await oneFile(fileURLToPath(new URL("programs/run.ts", import.meta.url)))

export const makeTiny = (): { readonly record: string; readonly remove: () => void } => {
  const record = mkdtempSync(join(tmpdir(), "coppice-journey-"))
  const source = join(record, "source")
  mkdirSync(join(source, "ignored"), { recursive: true })
  writeFileSync(join(source, "value.txt"), "wrong\n")
  writeFileSync(join(source, ".gitignore"), "ignored/\n")
  writeFileSync(join(source, "ignored", "dependency.txt"), "installed\n")
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args], { cwd: source })
  git("init", "-q", "-b", "main")
  git("add", "-A")
  git("commit", "-qm", "base")
  mkdirSync(join(record, "held-out"))
  writeFileSync(join(record, "held-out", "judge.sh"), 'grep -qx "half and half" value.txt\n')
  return { record, remove: () => rmSync(record, { recursive: true, force: true }) }
}

export interface TinyOutcome {
  readonly signal: NodeJS.Signals | null
  readonly status: number | null
  readonly output: any
  readonly stderr: string
}

export interface TinyRun {
  /** Killed at this point. */
  readonly crashAt?: string
  /** Killed by the clock. */
  readonly killAfterMs?: number
  /** A write fails at this point. */
  readonly fault?: string
  /** Gets a line for each crash point that is passed. */
  readonly log?: string
  readonly interrupted?: "explain"
  readonly all?: boolean
  /** The run's name, when several share a store. */
  readonly run?: string
  readonly store?: string
  /** In a process group of its own, as a shell starts a job. */
  readonly group?: boolean
}

const argumentsOf = (record: string, run: TinyRun): string[] => [
  program,
  record,
  run.interrupted ?? "retry",
  run.all === true ? "all" : "two",
  run.run ?? "tiny",
  run.store ?? join(record, "store")
]

const environmentOf = ({ crashAt, fault, log }: TinyRun): NodeJS.ProcessEnv => ({
  ...oneFileEnvironment(),
  ...(crashAt === undefined ? {} : { COPPICE_CRASH_AT: crashAt }),
  ...(fault === undefined ? {} : { COPPICE_FAULT_AT: fault }),
  ...(log === undefined ? {} : { COPPICE_CRASH_LOG: log })
})

const outputOf = (stdout: string): any => {
  const line = stdout.trim().split("\n").at(-1) ?? ""
  return line === "" ? null : JSON.parse(line)
}

/** Runs the repair to its end, or to where it is killed. */
export const runTiny = (record: string, run: TinyRun = {}): TinyOutcome => {
  const { signal, status, stdout, stderr } = spawnSync(process.execPath, argumentsOf(record, run), {
    encoding: "utf8",
    maxBuffer: 64 * 1024 * 1024,
    timeout: 100_000,
    env: environmentOf(run)
  })
  return { signal, status, output: signal === null ? outputOf(stdout) : null, stderr }
}

/** The same without waiting for it in one stretch. `started` gets the process. */
export const startTiny = (
  record: string,
  run: TinyRun = {},
  started: (child: ChildProcess) => void = () => undefined
): Promise<TinyOutcome> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argumentsOf(record, run), {
      stdio: ["ignore", "pipe", "pipe"],
      detached: run.group === true,
      env: environmentOf(run)
    })
    const timer = run.killAfterMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), run.killAfterMs)
    const text = { stdout: "", stderr: "" }
    child.stdout.on("data", (chunk: Buffer) => (text.stdout += chunk.toString("utf8")))
    child.stderr.on("data", (chunk: Buffer) => (text.stderr += chunk.toString("utf8")))
    child.on("error", reject)
    child.on("close", (status, signal) => {
      clearTimeout(timer)
      resolve({ signal, status, output: signal === null ? outputOf(text.stdout) : null, stderr: text.stderr })
    })
    started(child)
  })

/** Every fault of a tiny run's history; see historyCheck.ts. */
export const historyOf = (record: string, options: Partial<HistoryOptions> = {}): readonly string[] =>
  checkHistory({ store: join(record, "store"), record, acknowledged: join(record, "seen.jsonl"), ...options })

const outcomes = {
  two: [
    ["a1", "refused"],
    ["a3", "handedOver"],
    ["r1", "accepted"]
  ],
  all: [
    ["a1", "refused"],
    ["a2", "failed"],
    ["a3", "handedOver"],
    ["a4", "failed"],
    ["r1", "accepted"]
  ]
} as const

/**
 * Everything that must hold after a run was killed somewhere and run again; each fault in words. `mayHaveRetried` when a kill
 * may have met a running host: only then may a turn have a further, labelled attempt.
 */
export const faultsOf = (record: string, output: any, which: "two" | "all", mayHaveRetried: boolean): string[] => {
  const faults: string[] = []
  const same = (what: string, is: unknown, expected: unknown): void => {
    if (!isDeepStrictEqual(is, expected)) {
      faults.push(`${what}: ${JSON.stringify(is)} instead of ${JSON.stringify(expected)}`)
    }
  }
  if (output === null || output.error !== undefined) return [`the run failed: ${JSON.stringify(output?.error)}`]
  const { report, turns, graph, quota } = output
  const routes = outcomes[which]
  same(
    "attempts",
    report.attempts.map((a: any) => [a.id, a.outcome]),
    routes
  )
  same("handoff", report.handoff, { from: "a3", to: "r1", verified: true, adopted: true })
  same("replay", report.replay, "passed")
  // Nothing is doubled: one turn and one settlement a todo, one of them accepted, one node, finding and handoff each.
  same("settlements", report.settlements, { accepted: 1, total: routes.length })
  same(
    "turns",
    turns.map((turn: any) => turn.state),
    routes.map(() => "closed")
  )
  same("todos with a turn", new Set(turns.map((turn: any) => turn.todo)).size, routes.length)
  same("nodes", graph.nodes.length, routes.length + 1)
  same("handoffs", graph.handoffs.length, 1)
  same("findings", graph.findings.map((finding: any) => finding.text).toSorted(), [
    "Refused by the oracle. Checks failed",
    "append the second half",
    ...(which === "all" ? ["worse is not better"] : [])
  ])
  // Nothing is dispatched again by itself: a further attempt exists only where an executor was lost, and it is labelled.
  const again = turns.reduce((sum: number, turn: any) => sum + turn.attempts - 1, 0)
  if (!mayHaveRetried) same("further attempts", again, 0)
  // What was spent is the sum of what the hosts said; what a lost executor may have cost stays held, and is owed.
  same("spent", quota.spent.usd.toFixed(6), (0.1 * routes.length).toFixed(6))
  // A bound of its own stands for each turn that was begun again, also where the next kill came before its attempt was saved.
  same("reserved for what is owed", quota.reserved.usd.toFixed(6), (0.3 * quota.owed.length).toFixed(6))
  if (quota.owed.length < again) faults.push(`${again} further attempts and only ${quota.owed.length} owed`)
  // Both stores are whole, every candidate is resolved, no workspace waits for a decision.
  same("journal", output.journal.ok, true)
  same("store", [output.store.ok, output.store.damaged], [true, []])
  same("planned", output.planned, 0)
  const recorded = output.candidates.filter((candidate: any) => candidate.state === "recorded")
  same("recorded", recorded.length, routes.filter(([id]) => id !== "a4").length)
  same("left", output.left, [])
  return [...faults, ...historyOf(record)]
}

/**
 * What is wrong with a run in which a write failed: it ends by itself, in a typed error with a remedy or in a report that
 * names one for each attempt that met it, and what stands on disk is consistent.
 */
export const faultsAfterFailedWrite = (record: string, { signal, output, stderr }: TinyOutcome): string[] => {
  const faults = [...historyOf(record, { midway: true })]
  if (signal !== null || output === null) return [...faults, `the process died (${signal ?? "no output"}): ${stderr}`]
  const isTyped = (error: any): boolean => typeof error?.code === "string" && String(error?.remedy ?? "") !== ""
  if (output.error !== undefined) {
    if (!isTyped(output.error)) faults.push(`an error without a code: ${JSON.stringify(output.error).slice(0, 1000)}`)
    return faults
  }
  for (const { id, outcome, reason } of output.report.attempts) {
    if (outcome === "failed" && !/^[A-Z_]+: .+/.test(reason))
      faults.push(`attempt ${id} failed without a code: ${reason}`)
  }
  return faults
}
