/** The example of external operations, whole and killed at its steps; what was done is counted in the devices' own logs. */
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, beforeAll, describe, test } from "vitest"
import { readLog, switchOff } from "../../examples/external-operation/wire.ts"
import { loadFrontier } from "../../src/governance/Frontier.ts"
import { Effects, Todos } from "../../src/governance/index.ts"
import { newBench } from "../governance/authority.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"

const example = await oneFile(join(import.meta.dirname, "../../examples/external-operation/run.ts"))
const places: string[] = []
afterAll(async () => {
  for (const place of places.splice(0)) {
    for (const device of ["stage", "payments"]) await switchOff(place, device)
    rmSync(place, { recursive: true, force: true })
  }
})

const newPlace = (): string => {
  const place = mkdtempSync(join(tmpdir(), "coppice-external-"))
  places.push(place)
  return place
}

interface Ran {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

const run = (place: string, env: Readonly<Record<string, string>> = {}, minutes = 0): Promise<Ran> =>
  new Promise((resolve) => {
    const later = `data:text/javascript,const now = Date.now; Date.now = () => now() + ${minutes * 60_000}`
    const child = spawn(process.execPath, ["--import", later, example, place], {
      env: { ...oneFileEnvironment(), ...env }
    })
    let stdout = ""
    let stderr = ""
    child.stdout.on("data", (chunk) => (stdout += String(chunk)))
    child.stderr.on("data", (chunk) => (stderr += String(chunk)))
    child.on("close", (code, signal) => resolve({ code, signal, stdout, stderr }))
  })

const short = (effect: string): string => effect.split("/").at(-1)!

/** Everything that must hold at the end, however the run got there. */
const assertCarriedOut = async (place: string) => {
  const bench = await newBench({ directory: join(place, "store") })
  assert.isTrue((await bench.store.verify()).ok)
  const goal = (await bench.store.journal({ after: 0, limit: 1 }))[0]!.entity
  const { items } = await bench.run(Effects.list({ goal }))
  const done: Record<string, number> = Object.fromEntries(items.map(({ id }) => [short(id), 0]))
  for (const { what, effect } of [...readLog(place, "stage"), ...readLog(place, "payments")]) {
    if (what === "executed") done[short(effect)]! += 1
  }
  const { lamp, letter, ...once } = done
  assert.deepEqual(once, { "move-1": 1, "move-2": 1, "move-3": 0, scan: 1, pay: 1 })
  assert.isAtLeast(lamp!, 1)
  assert.isAtMost(letter!, 1)
  const known = Object.fromEntries(items.map(({ id, state }) => [short(id), state]))
  assert.deepEqual(known, {
    lamp: "confirmed",
    "move-1": "confirmed",
    "move-2": "confirmed",
    "move-3": "refused",
    scan: "confirmed",
    pay: "confirmed",
    letter: letter === 1 ? "confirmed" : "refused"
  })
  // Stopped by the device's own word, after it had really come to stand still.
  const scan = items.find(({ id }) => short(id) === "scan")!
  assert.deepInclude(scan.stop, { state: "confirmed", confirmedBy: "device", who: "stage" })
  assert.deepEqual(
    readLog(place, "stage")
      .filter(({ effect, what }) => effect === scan.id && ["executed", "stopAsked", "standsStill"].includes(what))
      .map(({ what }) => what),
    ["executed", "stopAsked", "standsStill"]
  )
  assert.deepInclude(items.find(({ id }) => short(id) === "letter")!.outcome, { by: "person", who: "mira" })
  const { items: todos } = await bench.run(Todos.list({ goal }))
  assert.deepEqual(
    todos.map(({ state }) => state),
    ["done"]
  )
  assert.deepEqual((await bench.store.read(({ now }) => loadFrontier(goal, now))).value, [])
  await bench.store.close()
}

const points = [
  "effect.planned",
  "effect.dispatched",
  "effect.answered",
  "effect.recorded",
  "effect.readBack",
  "effect.resolved",
  "effect.stopRequested",
  "effect.stopAsked",
  "effect.stopSeen",
  "effect.stopRecorded"
]

describe("external operations", () => {
  let passed: readonly string[] = []
  beforeAll(async () => {
    const place = newPlace()
    const log = join(place, "passed")
    const { code, stdout, stderr } = await run(place, { COPPICE_CRASH_LOG: log })
    assert.equal(code, 0, stderr)
    assert.match(stdout, /^move-2 +unsafe +2 +1 +confirmed +provider \(stage\)$/m)
    for (const code of ["INTERLOCK_ENGAGED", "EFFECT_UNRESOLVED", "PROVIDER_BUSY"]) assert.include(stderr, code)
    await assertCarriedOut(place)
    // Run again when all is done: nothing is handed over any more.
    const before = readLog(place, "stage").length
    assert.equal((await run(place)).code, 0)
    assert.equal(readLog(place, "stage").filter(({ what }) => what === "executed").length, 4)
    assert.isAtMost(readLog(place, "stage").length - before, 1)
    passed = readFileSync(log, "utf8").split("\n")
  }, 300_000)

  test("G60 J8 every step between planning and a known state is a crash point that the example passes", () => {
    assert.deepEqual([...new Set(passed.filter((name) => name.startsWith("effect.")))].toSorted(), points.toSorted())
  })

  for (const point of points) {
    test(`J8 V9 A3 G60 G61 killed at ${point}, the first time and the last, the rerun repeats nothing that may not be`, async () => {
      const passages = passed.filter((name) => name === point).length
      const cell = async (passage: number) => {
        const place = newPlace()
        const killed = await run(place, { COPPICE_CRASH_AT: `${point}:${passage}` })
        assert.equal(killed.signal, "SIGKILL", killed.stderr)
        const { code, stderr } = await run(place)
        assert.equal(code, 0, stderr)
        await assertCarriedOut(place)
      }
      await Promise.all([...new Set([1, passages])].map(cell))
    }, 300_000)
  }

  test("J8 V9 G35 killed and run again when its lease has long ended, it takes the todo again and repeats nothing that may not be", async () => {
    const place = newPlace()
    assert.equal((await run(place, { COPPICE_CRASH_AT: "effect.dispatched:2" })).signal, "SIGKILL")
    assert.equal((await run(place, { COPPICE_CRASH_AT: "effect.dispatched:1" }, 46)).signal, "SIGKILL")
    for (const minutes of [92, 138]) {
      const { code, stderr } = await run(place, {}, minutes)
      assert.equal(code, 0, stderr)
    }
    await assertCarriedOut(place)
  }, 300_000)

  test("J8 an argument that is no directory is answered with a usage line and exit code 2", async () => {
    for (const odd of ["--help", "--nope", "/dev/null"]) {
      assert.deepInclude(await run(odd), { code: 2, stderr: "usage: node run.ts [DIRECTORY]\n" })
    }
  })

  test("J8 V9 G61 killed again and again, at each further step of every rerun, it still repeats nothing that may not be", async () => {
    const place = newPlace()
    for (const point of [
      "effect.dispatched:2",
      "effect.readBack",
      "effect.answered",
      "effect.dispatched:3",
      "effect.stopAsked"
    ]) {
      await run(place, { COPPICE_CRASH_AT: point })
    }
    const { code, stderr } = await run(place)
    assert.equal(code, 0, stderr)
    await assertCarriedOut(place)
  }, 300_000)
})
