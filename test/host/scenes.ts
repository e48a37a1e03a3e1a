/**
 * What the host tests share: a real plain directory, requests, hosts written in shell, and a look at the process table.
 * Promise: no mock; every host here is a real process, and what a test starts is found by a marker of its own.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterAll } from "vitest"
import { processHost, type ProcessHostOptions } from "../../providers/host-process/index.ts"
import { isRunning, listProcesses, readVariable } from "../../src/base/ProcessTable.ts"
import type { Hold } from "../../src/base/ProcessTree.ts"
import type { HostTurnOptions } from "../../src/host/Host.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"
import type { TurnRequest } from "../../src/host/TurnProtocol.ts"

export const holds: readonly Hold[] = ["pidNamespace", "userPidNamespace", "processGroup"]
/** `pidNamespace` needs real root; everything else runs for everybody. */
export const holdsHere = holds.filter((hold) => hold !== "pidNamespace" || process.getuid?.() === 0)

const directories: string[] = []
export const directory = (): string => {
  const path = mkdtempSync(join(tmpdir(), "coppice-host-"))
  directories.push(path)
  return path
}
afterAll(() => directories.forEach((path) => rmSync(path, { recursive: true, force: true })))

export const request = (root: string, changes: Partial<TurnRequest> = {}): TurnRequest => ({
  protocol: "coppice.turn",
  version: 1,
  turnKey: "turn-key-1",
  goal: { id: "goal_1", title: "a goal" },
  todo: { id: "todo_1", title: "a todo" },
  instruction: "do it",
  findings: [],
  root,
  budget: { usd: null, timeLimitMs: 10_000 },
  ...changes
})

export const answer = (changes: Record<string, unknown> = {}): string =>
  JSON.stringify({
    protocol: "coppice.turn",
    version: 1,
    turnKey: "turn-key-1",
    outcome: "progress",
    summary: "did it",
    ...changes
  })

/** A variable in the environment of everything that one test starts. */
export const mark = (): { readonly name: string; readonly value: string } => ({
  name: "COPPICE_TEST_MARK",
  value: `${process.pid}-${performance.now()}-${Math.random()}`
})

/** The running processes that carry the mark. */
export const marked = (value: string): readonly number[] =>
  listProcesses()
    .filter(isRunning)
    .map((row) => row.pid)
    .filter((pid) => readVariable(pid, "COPPICE_TEST_MARK") === value)

/** Waits until `condition` holds; fails after a bound that no correct run comes near. */
export const eventually = async (what: string, condition: () => boolean, boundMs = 20_000): Promise<void> => {
  const end = performance.now() + boundMs
  while (!condition()) {
    if (performance.now() > end) throw new Error(`Not within ${boundMs} ms: ${what}`)
    await new Promise((done) => setTimeout(done, 10))
  }
}

export interface Scene {
  readonly hold?: Hold
  readonly options?: ProcessHostOptions
  readonly turn?: Partial<HostTurnOptions>
}

/** One turn of a host written in shell. Its own files are in `root`. */
export const shellTurn = (script: string, scene: Scene = {}) => {
  const root = scene.turn?.environment?.root ?? directory()
  const environment = plainDirectory(root, scene.hold === undefined ? {} : { hold: scene.hold })
  const host = processHost(["sh", "-c", script], scene.options)
  return host.turn({ environment, request: request(root), timeLimitMs: 30_000, ...scene.turn })
}

/** The failure of a turn that must fail. */
export const failureOf = (script: string, scene: Scene = {}) => Effect.runPromise(Effect.flip(shellTurn(script, scene)))
