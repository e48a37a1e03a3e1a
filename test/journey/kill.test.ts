import { readdirSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { makeTiny, runTiny } from "./tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

/** Everything that must hold after a run was killed somewhere and run again. */
const expectWhole = (record: string, output: any, mayHaveRetried: boolean) => {
  const { report } = output
  expect(report.attempts.map((a: any) => [a.id, a.outcome])).toEqual([
    ["a1", "refused"],
    ["a2", "failed"],
    ["a3", "handedOver"],
    ["a4", "failed"],
    ["r1", "accepted"]
  ])
  expect(report.handoff).toEqual({ from: "a3", to: "r1", verified: true, adopted: true })
  expect(report.replay).toBe("passed")
  // Nothing is doubled: one turn and one settlement a todo, one of them accepted, one node, finding and handoff each.
  expect(report.settlements).toEqual({ accepted: 1, total: 5 })
  expect(output.turns.map((turn: any) => turn.state)).toEqual(Array.from({ length: 5 }, () => "closed"))
  expect(new Set(output.turns.map((turn: any) => turn.todo)).size).toBe(5)
  expect(output.graph.nodes.length).toBe(6)
  expect(output.graph.handoffs.length).toBe(1)
  expect(output.graph.findings.map((f: any) => f.text).toSorted()).toEqual(
    ["Refused by the oracle. Checks failed", "append the second half", "worse is not better"].toSorted()
  )
  // Nothing is dispatched again by itself: a second attempt exists only where an executor was lost, and it is labelled.
  const again = output.turns.filter((turn: any) => turn.attempts > 1).length
  if (!mayHaveRetried) expect(again).toBe(0)
  // What was spent is the sum of what the hosts said; what a lost executor may have cost stays held.
  expect(output.quota.spent.usd).toBeCloseTo(0.5, 6)
  expect(output.quota.reserved.usd).toBeCloseTo(0.3 * again, 6)
  expect(output.quota.owed.length).toBe(again)
  // Both stores are whole, every candidate is resolved, no workspace waits for a decision.
  expect(output.journal.ok).toBe(true)
  expect(output.store).toMatchObject({ ok: true, damaged: [] })
  expect(output.planned).toBe(0)
  expect(output.candidates.map((c: any) => c.state).toSorted()).toEqual(["absent", ...Array(4).fill("recorded")])
  expect(output.left).toEqual([])
  expect(readdirSync(join(record, "scratch"))).toEqual([])
}

describe("G82 G75 a process killed at a named point is run again", () => {
  const points: readonly (readonly [name: string, ids: string, retried: boolean])[] = [
    ["repair.opened", "G2", false],
    ["repair.imported", "G75", false],
    ["attempt.forked:2", "L1 G2", false],
    ["turn.admitted:3", "G80", false],
    ["turn.attemptSaved", "G82", true],
    ["turn.hostEnded:2", "G82", true],
    ["turn.resultRecorded:3", "G82 W23", true],
    ["capture.planned:2", "G75 W23", true],
    ["capture.committed", "G75 C71", true],
    ["capture.pinned:2", "G75 C71", true],
    ["capture.recorded", "G75", true],
    ["attempt.judged:2", "G71", true],
    ["turn.validated", "G82", true],
    ["turn.settled", "G72 G82 C62", true],
    ["attempt.settled:4", "G82 C62", false],
    ["repair.handoffOffered", "E5", false]
  ]
  for (const [point, ids, retried] of points) {
    it(`${ids} at ${point}: the rerun finishes, nothing is doubled, nothing acknowledged is lost`, () => {
      const tiny = makeTiny()
      cleanups.push(tiny.remove)
      const killed = runTiny(tiny.record, { crashAt: point })
      expect(killed.signal).toBe("SIGKILL")
      const rerun = runTiny(tiny.record)
      expect(rerun.output?.error ?? null).toBeNull()
      expectWhole(tiny.record, rerun.output, retried)
    }, 240_000)
  }

  it("G82 principle: without being told to retry, the rerun explains the lost executor and dispatches nothing", () => {
    const tiny = makeTiny()
    cleanups.push(tiny.remove)
    expect(runTiny(tiny.record, { crashAt: "turn.attemptSaved:4" }).signal).toBe("SIGKILL")
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
    const first = runTiny(tiny.record)
    expectWhole(tiny.record, first.output, false)
    const second = runTiny(tiny.record)
    expectWhole(tiny.record, second.output, false)
    expect(second.output.journal.entries).toBe(first.output.journal.entries)
    expect(second.output.report.accepted.candidate).toBe(first.output.report.accepted.candidate)
  }, 240_000)
})
