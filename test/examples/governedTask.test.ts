/**
 * The governed task of the examples, run, run again, and killed at every point of its path.
 * Promise: one settlement, one spend, one identity, and no dispatch that nobody asked for. Rules: J1, V4; G2, G72, G80, G82.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, test, vi } from "vitest"
import { crashPoints } from "../../src/base/CrashPointList.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"

const source = join(import.meta.dirname, "../../examples/governed-task/run.ts")
// What is killed a dozen times is built as one file; a whole run goes from the sources, as a reader of the README starts it.
const program = await oneFile(source)
const made: string[] = []
afterAll(() => {
  for (const place of made.splice(0)) rmSync(place, { recursive: true, force: true })
})
// A killed run and two more, a dozen times over: generous bounds, no proof by time.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 })

const newPlace = (): string => {
  const place = mkdtempSync(join(tmpdir(), "coppice-governed-task-"))
  made.push(place)
  return place
}

const start = (place: string, args: readonly string[], env: Record<string, string> = {}, entry = program) =>
  spawnSync(process.execPath, [entry, place, ...args], { encoding: "utf8", env: { ...oneFileEnvironment(), ...env } })

const report = (place: string, ...args: readonly string[]) => {
  const { status, stdout, stderr } = start(place, ["--json", ...args])
  assert.include([0, 2], status, stderr)
  return JSON.parse(stdout)
}

const linesOf = (file: string): readonly string[] => {
  try {
    return readFileSync(file, "utf8").trim().split("\n")
  } catch {
    return []
  }
}
const dispatches = (place: string) => linesOf(join(place, "files", "dispatches.log"))

const countOf = (output: any, type: string): number => output.facts.filter((fact: any) => fact.type === type).length

/** Whatever happened on the way: one of everything, and `lost` attempts whose cost is still owed. */
const assertSettledOnce = (place: string, output: any, lost: number) => {
  const [turn] = output.turns
  assert.equal(output.turns.length, 1)
  assert.deepInclude(turn, { state: "closed", phase: "close" })
  for (const type of ["goal.opened", "todo.added", "turn.admitted", "settlement.settled", "todo.completed"]) {
    assert.equal(countOf(output, type), 1, type)
  }
  const [settlement] = output.settlements
  assert.deepInclude(settlement, { accepted: true, turn: turn.id, todo: output.todo.id, todoState: "done" })
  assert.equal(output.quota.spent.usd, 0.05)
  assert.equal(output.quota.owed.length, lost)
  assert.closeTo(output.quota.reserved.usd, 0.2 * lost, 1e-9)
  assert.equal(turn.attempts.length, 1 + lost)
  assert.deepEqual([...new Set(dispatches(place))], [turn.id])
  assert.deepInclude(output.journal, { ok: true, brokenAt: null })
  assert.equal(readFileSync(join(place, "files", "total.txt"), "utf8"), "57.14\n")
}

/** Runs it again until it is settled: first without leave to start the agent a second time, then, where it asks, with it. */
const finish = (place: string) => {
  const before = dispatches(place).length
  const first = report(place)
  if (first.interrupted === null) return { output: first, lost: 0 }
  assert.equal(dispatches(place).length, before, "an agent that may have run was started again by itself")
  assert.equal(first.settlements.length, 0)
  assert.match(first.interrupted.remedy, /--retry/)
  const again = report(place)
  assert.deepEqual([again.interrupted, dispatches(place).length], [first.interrupted, before])
  const output = report(place, "--retry")
  assert.deepInclude(output.turns[0], { id: first.turns[0].id })
  return { output, lost: 1 }
}

test("J1 the task is done once, read back as a table, and a second run gives the same receipt and starts nothing", () => {
  const place = newPlace()
  const { status, stdout } = start(place, [], {}, source)
  assert.equal(status, 0)
  assert.match(stdout, /^todo +Add up ledger\.csv and write total\.txt: done$/m)
  assert.match(stdout, /^phases +admit .*execute .*result .*validate .*settle .*close /m)
  assert.match(stdout, /^settled +stl_\S+: accepted, todo done$/m)
  assert.match(stdout, /^spend +0\.05 of 1\.00 usd, 1 of 3 turns, 0\.00 held$/m)
  const [one, two] = [report(place), report(place)]
  assertSettledOnce(place, one, 0)
  assert.deepEqual(two.facts, one.facts)
  assert.deepEqual(two.settlements, one.settlements)
  assert.equal(dispatches(place).length, 1)
})

test("J1 without a directory the task leaves none behind", () => {
  const parent = newPlace()
  const { status, stderr } = spawnSync(process.execPath, [program, "--json"], {
    encoding: "utf8",
    env: { ...process.env, TMPDIR: parent }
  })
  assert.equal(status, 0, stderr)
  assert.match(stderr, new RegExp(`^directory +${parent}`))
  assert.deepEqual(readdirSync(parent), [])
})

test("J1 G71 an agent that only says it is done is paid and not believed: the todo stays open, and the exit code says so", () => {
  const place = newPlace()
  const { status, stdout } = start(place, ["--json", "--lazy"])
  assert.equal(status, 2)
  const output = JSON.parse(stdout)
  assert.equal(output.turns[0].result.claim, "completed")
  assert.deepInclude(output.settlements[0], { accepted: false, outcome: "failed", todoState: "open" })
  assert.deepInclude(output.quota.spent, { usd: 0.05 })
  assert.equal(output.todo.state, "open")
})

describe("killed with SIGKILL and run again", () => {
  /** How often each point is passed by a run that nobody kills. */
  const passages = new Map<string, number>()
  beforeAll(() => {
    const place = newPlace()
    const log = join(place, "passages")
    assert.equal(start(place, [], { COPPICE_CRASH_LOG: log }).status, 0)
    for (const name of linesOf(log)) passages.set(name, (passages.get(name) ?? 0) + 1)
  })

  const killAt = (point: string, nth: number) => {
    const place = newPlace()
    const { signal, stderr } = start(place, [], { COPPICE_CRASH_AT: `${point}:${nth}` })
    assert.equal(signal, "SIGKILL", `${point}:${nth} ${stderr}`)
    const { output, lost } = finish(place)
    assertSettledOnce(place, output, lost)
    return lost
  }
  const killAll = (point: string, which: (count: number) => readonly number[]) => {
    const count = passages.get(point) ?? 0
    assert.isAbove(count, 0, `${point} is not passed`)
    return which(count).map((nth) => killAt(point, nth))
  }
  const every = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

  // The agent may have run exactly between its saved attempt and its journaled result.
  for (const [point, lost] of [
    ["turn.admitted", 0],
    ["turn.contextIssued", 0],
    ["turn.attemptSaved", 1],
    ["turn.hostEnded", 1],
    ["file.written", 1],
    ["file.renamed", 1],
    ["turn.resultRecorded", 0],
    ["turn.captured", 0],
    ["turn.validated", 0],
    ["turn.settled", 0]
  ] as const) {
    test(`J1 V4 G82 at ${point} ${lost === 0 ? "it goes on by itself" : "it explains, and goes on when it is told to"}: one settlement, one spend`, () => {
      assert.deepEqual(killAll(point, every), [lost])
    })
  }

  test("J1 V4 G2 G82 after each commit of its path, unheard of by anybody, it goes on: one settlement, one spend", () => {
    const lost = killAll("authority.afterCommit", every)
    assert.isAbove(lost.length, 8)
    assert.include(lost, 0)
    assert.include(lost, 1)
  })

  // A transaction that did not commit leaves what the one before it left: its first, its middle and its last are enough.
  const within = [
    "authority.activating",
    "authority.afterJournal",
    "authority.afterProjection",
    "authority.afterReceipt",
    "authority.beforeCommit"
  ] as const
  for (const point of within) {
    test(`J1 V4 G1 at ${point} nothing of that transaction happened, and it goes on: one settlement, one spend`, () => {
      const ends = point === "authority.afterJournal" || point === "authority.beforeCommit"
      killAll(point, (count) => [...new Set(ends ? [1, Math.ceil(count / 2), count] : [Math.ceil(count / 2)])])
    })
  }

  test("J1 V4 no point of its path is left out", () => {
    const killed =
      /^(?:turn\.(?:admitted|contextIssued|attemptSaved|hostEnded|resultRecorded|captured|validated|settled)|file\.|authority\.(?:activating|after|beforeCommit))/
    assert.deepEqual(
      [...passages.keys()].filter((name) => !killed.test(name) || !(name in crashPoints)),
      []
    )
  })
})
