/** Random histories of several processes that are killed at random: 50 seeds. More of them: `npm run soak -- governance`. */
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { newDirectory, seed } from "./authority.ts"
import { callNames } from "./commands.ts"
import { type HistoryOptions, type HistoryResult, runHistory } from "./history.ts"
import { factsOf } from "./invariants.ts"

const count = 50

/**
 * The first of the seeds of every run: a change is held against the histories that the last one passed. Histories that nobody has
 * seen are the soak's.
 */
const usual = 20_261_130

/** Half of the seeds let one process act at a time; the others race. */
const optionsOf = (seed: number, directory: string): HistoryOptions => ({
  seed,
  directory,
  inTurns: seed % 2 === 0,
  processes: seed % 5 === 0 ? 3 : 2,
  rounds: seed % 2 === 0 ? 24 : 12,
  kills: 2
})

test("G1 G2 G3 G20 G30 G36 G50 G53 G72 G80 G81 random commands of several processes under random kills, 50 seeds: every invariant after every kill, no receipt lost, nothing twice", async () => {
  const first = process.env["COPPICE_SEED"] === undefined ? usual : seed()
  const place = newDirectory()
  const total = { kills: 0, accepted: new Map<string, number>() }
  // COPPICE_SEED names one history: it is run alone, and what is left of it stays to be looked at.
  const seeds = process.env["COPPICE_SEED"] === undefined ? Array.from({ length: count }, (_, i) => first + i) : [first]
  const worker = async (): Promise<void> => {
    for (let one = seeds.shift(); one !== undefined; one = seeds.shift()) {
      const directory = join(place, String(one))
      mkdirSync(directory)
      const { faults, kills, accepted }: HistoryResult = await runHistory(optionsOf(one, directory))
      assert.deepEqual(faults, [], `COPPICE_SEED=${one}`)
      rmSync(directory, { recursive: true })
      total.kills += kills
      for (const [name, n] of accepted) total.accepted.set(name, (total.accepted.get(name) ?? 0) + n)
    }
  }
  const alone = seeds.length === 1
  await Promise.all([worker(), worker(), worker()])
  const commands = [...total.accepted.values()].reduce((sum, n) => sum + n, 0)
  console.log(`${total.kills} kills, ${commands} accepted commands`)
  if (alone) return
  assert.isAbove(total.kills, count)
  const never = callNames.filter((name) => !total.accepted.has(name))
  console.log(`never accepted in these histories: ${never.join(", ") || "none"}`)
  // Which calls come to be accepted is chance; most of them must be, or the histories say little.
  assert.isAbove(callNames.length - never.length, 40)
}, 900_000)

test("G1 in turns, a seed gives the same history again", async () => {
  const one = seed()
  const histories: (readonly string[])[] = []
  for (const _ of [1, 2]) {
    const directory = newDirectory()
    const { faults } = await runHistory({ ...optionsOf(one, directory), inTurns: true, rounds: 15 })
    assert.deepEqual(faults, [])
    histories.push(factsOf(directory).map((fact) => `${fact.command} ${fact.type} ${fact.at}`))
  }
  assert.isAbove(histories[0]!.length, 10)
  assert.deepEqual(histories[0], histories[1])
}, 60_000)
