import { readdirSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { makeTiny, runTiny } from "./tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

const all = [
  ["a1", "refused"],
  ["a2", "failed"],
  ["a3", "handedOver"],
  ["a4", "failed"],
  ["r1", "accepted"]
]
const two = all.filter(([id]) => id !== "a2" && id !== "a4")

/** Everything that must hold after a run was killed somewhere and run again. */
const expectWhole = (record: string, output: any, routes: readonly (readonly string[])[], mayHaveRetried: boolean) => {
  expect(output?.error ?? null).toBeNull()
  const { report } = output
  expect(report.attempts.map((a: any) => [a.id, a.outcome])).toEqual(routes)
  expect(report.handoff).toEqual({ from: "a3", to: "r1", verified: true, adopted: true })
  expect(report.replay).toBe("passed")
  // Nothing is doubled: one turn and one settlement a todo, one of them accepted, one node, finding and handoff each.
  expect(report.settlements).toEqual({ accepted: 1, total: routes.length })
  expect(output.turns.map((turn: any) => turn.state)).toEqual(routes.map(() => "closed"))
  expect(new Set(output.turns.map((turn: any) => turn.todo)).size).toBe(routes.length)
  expect(output.graph.nodes.length).toBe(routes.length + 1)
  expect(output.graph.handoffs.length).toBe(1)
  expect(output.graph.findings.map((f: any) => f.text).toSorted()).toEqual([
    "Refused by the oracle. Checks failed",
    "append the second half",
    ...(routes === all ? ["worse is not better"] : [])
  ])
  // Nothing is dispatched again by itself: a further attempt exists only where an executor was lost, and it is labelled.
  const again = output.turns.reduce((sum: number, turn: any) => sum + turn.attempts - 1, 0)
  if (!mayHaveRetried) expect(again).toBe(0)
  // What was spent is the sum of what the hosts said; what a lost executor may have cost stays held, and is owed.
  expect(output.quota.spent.usd).toBeCloseTo(0.1 * routes.length, 6)
  expect(output.quota.reserved.usd).toBeCloseTo(0.3 * again, 6)
  expect(output.quota.owed.length).toBe(again)
  // Both stores are whole, every candidate is resolved, no workspace waits for a decision.
  expect(output.journal.ok).toBe(true)
  expect(output.store).toMatchObject({ ok: true, damaged: [] })
  expect(output.planned).toBe(0)
  const changed = routes.filter(([id]) => id !== "a4")
  expect(output.candidates.filter((c: any) => c.state === "recorded").length).toBe(changed.length)
  expect(output.left).toEqual([])
  expect(readdirSync(join(record, "scratch")).filter((name) => name !== "clean")).toEqual([])
}

describe("G82 G75 a process killed at named points is run again", () => {
  /** Each row is one run after another on one record: killed at each point in turn, then left to finish. */
  const rows: readonly (readonly [ids: string, points: readonly string[], retried: boolean])[] = [
    ["G2 L1 G75", ["repair.opened", "repair.imported", "attempt.forked:2"], false],
    ["G80 G82", ["turn.admitted:2", "turn.attemptSaved"], true],
    ["G82 W23", ["turn.hostEnded:2", "turn.resultRecorded"], true],
    ["G75 W23", ["capture.planned:2", "capture.pinned"], true],
    ["G75 C71", ["capture.committed", "turn.settled"], true],
    ["G75 G71", ["capture.recorded", "attempt.judged"], true],
    ["G72 G82 C62", ["turn.captured", "turn.validated:2", "attempt.settled:2"], true],
    ["E5 G2", ["repair.handoffOffered"], false]
  ]
  for (const [ids, points, retried] of rows) {
    it(`${ids} at ${points.join(", then ")}: the last run finishes, nothing is doubled, nothing acknowledged is lost`, () => {
      const tiny = makeTiny()
      cleanups.push(tiny.remove)
      for (const point of points)
        expect([point, runTiny(tiny.record, { crashAt: point }).signal]).toEqual([point, "SIGKILL"])
      expectWhole(tiny.record, runTiny(tiny.record).output, two, retried)
    }, 240_000)
  }

  it("G82 without being told to retry, the rerun explains the lost executor and dispatches nothing", () => {
    const tiny = makeTiny()
    cleanups.push(tiny.remove)
    expect(runTiny(tiny.record, { crashAt: "turn.attemptSaved:2" }).signal).toBe("SIGKILL")
    const { output } = runTiny(tiny.record, { interrupted: "explain" })
    const interrupted = output.report.attempts.filter((a: any) => a.outcome === "interrupted")
    expect(interrupted.length).toBeGreaterThan(0)
    expect(interrupted[0].reason).toContain("TURN_INTERRUPTED")
    expect(interrupted[0].usd).toBeNull()
    expect(output.turns.every((turn: any) => turn.attempts === 1)).toBe(true)
    expect(output.quota.owed.length).toBe(interrupted.length)
    expect(output.report.accepted).toBeNull()
  }, 240_000)

  it("G2 C62 a finished run that is run again gives the same report and changes nothing", () => {
    const tiny = makeTiny()
    cleanups.push(tiny.remove)
    const first = runTiny(tiny.record, { all: true })
    expectWhole(tiny.record, first.output, all, false)
    const second = runTiny(tiny.record, { all: true })
    expectWhole(tiny.record, second.output, all, false)
    expect(second.output.journal.entries).toBe(first.output.journal.entries)
    expect(second.output.report.accepted.candidate).toBe(first.output.report.accepted.candidate)
  }, 240_000)
})
