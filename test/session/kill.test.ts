import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, describe, test } from "vitest"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"

const program = await oneFile(join(import.meta.dirname, "programs", "turn.ts"))
const made: string[] = []
afterAll(() => {
  for (const place of made.splice(0)) rmSync(place, { recursive: true, force: true })
})

const newPlace = (): string => {
  const place = mkdtempSync(join(tmpdir(), "coppice-kill-"))
  made.push(place)
  return place
}

const drive = (place: string, interrupted: "explain" | "retry", crashAt?: string) => {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [program, place, interrupted], {
    encoding: "utf8",
    timeout: 60_000,
    env: { ...oneFileEnvironment(), ...(crashAt === undefined ? {} : { COPPICE_CRASH_AT: crashAt }) }
  })
  if (crashAt !== undefined) {
    assert.equal(signal, "SIGKILL", stderr)
    return undefined
  }
  assert.equal(status, 0, stderr)
  return JSON.parse(stdout)
}

const dispatches = (place: string): number => {
  try {
    return readFileSync(join(place, "files", "dispatches"), "utf8")
      .trim()
      .split("\n").length
  } catch {
    return 0
  }
}

/** The turn ended once, under one identity, paid once; `attempts` were dispatched by name, `owed` of them at unknown cost. */
const assertSettledOnce = (output: any, attempts: number, owed: number) => {
  const [turn] = output.turns
  assert.equal(output.turns.length, 1)
  assert.deepInclude(turn, { state: "closed", phase: "close" })
  assert.deepEqual(output.first, { turn: turn.id, settlement: turn.settlement })
  assert.deepEqual(output.second, output.first)
  assert.deepInclude(output.settlements, { total: 1, accepted: 1 })
  assert.equal(turn.attempts.length, attempts)
  assert.equal(output.quota.spent.usd, 0.25)
  assert.equal(output.quota.reserved.usd, owed)
  assert.equal(output.quota.owed.length, owed)
  assert.equal(output.types.filter((type: string) => type === "settlement.settled").length, 1)
  assert.equal(output.journal.ok, true)
}

describe("the minimal preset, killed at a named point and run again", () => {
  // Left of the host: nothing was dispatched, or its result is saved. The rerun needs no word from anybody.
  for (const [point, ran] of [
    ["turn.admitted", 0],
    ["turn.contextIssued", 0],
    ["turn.resultRecorded", 1],
    ["turn.captured", 1],
    ["turn.validated", 1],
    ["turn.settled", 1]
  ] as const) {
    test(`G82 V4 at ${point} the rerun goes on under the same identity: one dispatch, one settlement, the same receipt`, () => {
      const place = newPlace()
      drive(place, "explain", point)
      assert.equal(dispatches(place), ran)
      assertSettledOnce(drive(place, "explain"), 1, 0)
      assert.equal(dispatches(place), 1)
    })
  }

  // The host may have run: nobody but a caller starts it again, and what the lost attempt cost stays owed.
  for (const [point, ran] of [
    ["turn.attemptSaved", 0],
    ["turn.hostEnded", 1]
  ] as const) {
    test(`G82 V4 at ${point} the rerun explains and dispatches nothing, however often it is asked; retried by name it settles once`, () => {
      const place = newPlace()
      drive(place, "explain", point)
      const explained = drive(place, "explain")
      assert.deepEqual(explained.first, { error: "TURN_INTERRUPTED" })
      assert.deepEqual(explained.second, { error: "TURN_INTERRUPTED" })
      assert.equal(dispatches(place), ran)
      const [lost] = explained.turns
      assert.deepInclude(lost, { state: "failed" })
      assert.equal(lost.failure.class, "lost")
      assert.deepInclude(explained.settlements, { total: 0 })
      assert.equal(explained.quota.reserved.usd, 1)
      assert.equal(explained.quota.owed.length, 1)

      const retried = drive(place, "retry")
      assertSettledOnce(retried, 2, 1)
      assert.equal(retried.turns[0].id, lost.id)
      assert.match(retried.turns[0].attempts[1].retry, /lost/)
      assert.equal(dispatches(place), ran + 1)
    })
  }

  test("G82 at turn.attemptSaved a rerun that was told to retry starts it again at once, as a second, labelled attempt", () => {
    const place = newPlace()
    drive(place, "retry", "turn.attemptSaved")
    assertSettledOnce(drive(place, "retry"), 2, 1)
    assert.equal(dispatches(place), 1)
  })

  test("G82 C62 a process killed twice, at two points, still settles once", () => {
    const place = newPlace()
    drive(place, "explain", "turn.resultRecorded")
    drive(place, "explain", "turn.settled")
    assertSettledOnce(drive(place, "retry"), 1, 0)
    assert.equal(dispatches(place), 1)
  })
})
