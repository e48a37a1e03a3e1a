/** Every crash point of the authority, at every passage of a whole turn: killed there, checked, run again, checked. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { Todos } from "../../src/governance/index.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { newBench, newDirectory, newGoal } from "./authority.ts"
import { checkInvariants, factsOf } from "./invariants.ts"

const start = async (program: string, args: readonly string[], env: Readonly<Record<string, string>>) => {
  const built = await oneFile(join(import.meta.dirname, "programs", `${program}.ts`))
  const child = spawn(process.execPath, [built, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...oneFileEnvironment(), ...env }
  })
  const output = { stdout: "", stderr: "" }
  for (const stream of ["stdout", "stderr"] as const) child[stream].on("data", (chunk) => (output[stream] += chunk))
  const [code, signal] = await once(child, "close")
  return { ...output, code, signal }
}

/** A store with one todo for `ada`, and what its turn's driver is called with. */
const newWork = async () => {
  const bench = await newBench({ now: Date.now })
  const goal = await newGoal(bench)
  await bench.run(Todos.add({ goal: goal.id, title: "Find the fault" }))
  await bench.store.close()
  return { directory: bench.directory, goal: goal.id }
}

/** What was done, whoever did it: the facts without the takeovers that a death brings with it. */
const doneIn = (directory: string): readonly string[] =>
  factsOf(directory)
    .map((entry) => entry.type)
    .filter((type) => type !== "turn.resumed")

test("G1 G2 G3 G72 G80 G82 killed at every point of the authority, again and again along its way, a turn is whole again after one rerun: nothing half, nothing twice, nothing forgotten", async () => {
  const whole = await newWork()
  const log = join(whole.directory, "passed")
  // Inside a transaction every third passage is taken: none of them may leave anything.
  const within = ["authority.afterJournal", "authority.afterProjection", "authority.afterReceipt"]
  const first = await start("driver", [whole.directory, whole.goal, "none"], { COPPICE_CRASH_LOG: log })
  assert.equal(first.code, 0, first.stderr)
  const wanted = doneIn(whole.directory)
  const counts = new Map<string, number>()
  const cells = readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .flatMap((name) => {
      const passage = (counts.get(name) ?? 0) + 1
      counts.set(name, passage)
      return within.includes(name) && passage % 3 !== 1 ? [] : [`${name}:${passage}`]
    })
  assert.includeMembers(
    [...counts.keys()],
    [
      "authority.activating",
      "authority.afterJournal",
      "authority.afterProjection",
      "authority.afterReceipt",
      "authority.beforeCommit",
      "authority.afterCommit"
    ]
  )
  const total = cells.length
  const worker = async (): Promise<void> => {
    for (let cell = cells.shift(); cell !== undefined; cell = cells.shift()) {
      const work = await newWork()
      const args = [work.directory, work.goal, "none"]
      const killed = await start("driver", args, { COPPICE_CRASH_AT: cell })
      assert.equal(killed.signal, "SIGKILL", `${cell}: ${killed.stderr}`)
      assert.deepEqual(checkInvariants(work.directory), [], cell)
      const again = await start("driver", args, {})
      assert.equal(again.code, 0, `${cell}: ${again.stderr}`)
      assert.deepEqual(checkInvariants(work.directory), [], cell)
      const { settlement, dispatches } = JSON.parse(again.stdout.trim().split("\n").at(-1)!)
      assert.deepInclude(settlement, { outcome: "accepted", todoState: "done", owed: [] }, cell)
      assert.equal(dispatches, 1, cell)
      // A driver that died between attempt and dispatch makes a second, labelled attempt; everything else is done once.
      const done = doneIn(work.directory)
      const attempts = done.filter((type) => type === "turn.attemptSaved").length
      assert.isAtMost(attempts, 2, cell)
      assert.sameMembers(
        done.filter((type, i) => type !== "turn.attemptSaved" || done.indexOf(type) === i),
        [...wanted],
        cell
      )
    }
  }
  await Promise.all([worker(), worker(), worker()])
  console.log(`${total} passages of ${counts.size} points`)
}, 400_000)

const golden = join(import.meta.dirname, "..", "golden", "authority-v1.db")

for (const point of ["authority.backedUp", "authority.activating"]) {
  test(`G5 killed at ${point} of a migration, the older file is as it was beside its backup, and the next process migrates it`, async () => {
    const directory = join(newDirectory(), "store")
    mkdirSync(directory, { mode: 0o700 })
    copyFileSync(golden, join(directory, "authority.db"))
    const before = factsOf(directory)
    const size = statSync(join(directory, "authority.db")).size
    const killed = await start("opener", [directory, "cmd_m", "t"], { COPPICE_CRASH_AT: point })
    assert.equal(killed.signal, "SIGKILL", killed.stderr)
    assert.equal(statSync(join(directory, "authority.db")).size, size)
    assert.deepEqual(factsOf(directory), before)
    const kept = readdirSync(directory).filter((name) => name.endsWith(".backup.db"))
    assert.equal(kept.length, 1)
    const next = await start("opener", [directory, "cmd_m", "t"], {})
    assert.equal(next.code, 0, next.stderr)
    assert.equal(factsOf(directory).length, before.length + 1)
    // Facts of an older format say less than today's tables hold: they are checked, not projected again.
    assert.deepEqual(checkInvariants(directory, []), [])
  })
}

test("G1 G2 killed while it makes a new store, the next process makes it whole", async () => {
  const directory = newDirectory()
  const killed = await start("opener", [directory, "cmd_n", "t"], { COPPICE_CRASH_AT: "authority.activating" })
  assert.equal(killed.signal, "SIGKILL", killed.stderr)
  assert.deepEqual(checkInvariants(directory), [])
  const next = await start("opener", [directory, "cmd_n", "t"], {})
  assert.equal(next.code, 0, next.stderr)
  assert.deepEqual(doneIn(directory), ["goal.opened"])
  assert.deepEqual(checkInvariants(directory), [])
})
