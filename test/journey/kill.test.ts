import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { faultsOf, makeTiny, runTiny } from "./tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

describe("G82 G75 a process killed at named points is run again", () => {
  /**
   * Each row is one run after another on one record: killed at each point in turn (so most are killed in the recovery of the
   * one before), then left to finish. `npm run soak -- matrix` has every point at every passage.
   */
  const rows: readonly (readonly [ids: string, points: readonly string[]])[] = [
    [
      "G2 L1 L8 W7 C20",
      ["authority.afterCommit:9", "layerfs.import.read", "layers.baseMarked", "workspace.held", "workspace.mounted"]
    ],
    [
      "G80 G82 W12 W23",
      [
        "turn.attemptSaved:2",
        "turn.startedOver",
        "turn.hostEnded",
        "file.written:2",
        "turn.resultRecorded:2",
        "recovery.forked",
        "recovery.committed"
      ]
    ],
    [
      "G75 C71 L8 W12",
      ["capture.committed", "capture.planned", "capture.recorded", "layerfs.patch.scratchMade", "capture.exported"]
    ],
    [
      "E5 G71 G72 C62",
      [
        "dependencies.copied",
        "layers.deltaMarked",
        "attempt.judged",
        "turn.settled",
        "attempt.learned:2",
        "repair.handoffOffered",
        "repair.exported"
      ]
    ]
  ]
  for (const [ids, points] of rows) {
    it(`${ids} at ${points.join(", then ")}: the last run finishes, nothing is doubled, nothing acknowledged is lost`, () => {
      const tiny = makeTiny()
      cleanups.push(tiny.remove)
      for (const point of points)
        expect([point, runTiny(tiny.record, { crashAt: point }).signal]).toEqual([point, "SIGKILL"])
      expect(faultsOf(tiny.record, runTiny(tiny.record).output, "two", true)).toEqual([])
    }, 480_000)
  }

  it("C71 G75 L8 L9 killed between the store's commit and the evidence row, and the store is compacted before the rerun: the candidate is found by its operation, pinned, recorded once", async () => {
    const tiny = makeTiny()
    cleanups.push(tiny.remove)
    for (const point of ["capture.committed", "capture.planned"]) {
      expect([point, runTiny(tiny.record, { crashAt: point }).signal]).toEqual([point, "SIGKILL"])
      const store = await openLayerStore({ store: join(tiny.record, "store") })
      expect(await store.call("compact", { maxMs: null, maxBytes: null })).toMatchObject({
        complete: true,
        unreadable: 0
      })
      await store.close()
    }
    expect(faultsOf(tiny.record, runTiny(tiny.record).output, "two", true)).toEqual([])
  }, 480_000)

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
    expect(faultsOf(tiny.record, first.output, "all", false)).toEqual([])
    const second = runTiny(tiny.record, { all: true })
    expect(faultsOf(tiny.record, second.output, "all", false)).toEqual([])
    expect(second.output.journal.entries).toBe(first.output.journal.entries)
    expect(second.output.report.accepted.candidate).toBe(first.output.report.accepted.candidate)
  }, 240_000)
})
