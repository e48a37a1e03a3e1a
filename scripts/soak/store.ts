/**
 * The store under random kills of several writers, until so many processes were killed.
 * Promise: after every round no acknowledged commit is missing, and every tenth the whole store is read back. Rules: L8, L12.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterRound, killGround, killRound, seededRandom } from "../../test/layerfs/storeKills.ts"
import type { SoakOptions, SoakResult } from "../soak.ts"

const writers = 3
/** A fresh store after so many rounds: a log that only grows would make each check slower than the kills. */
const roundsAStore = 40

/** `rounds` counts killed processes, as rule L8 does. */
export const soakStore = async (options: SoakOptions): Promise<SoakResult> => {
  const random = seededRandom(options.seed)
  let kills = 0
  let rounds = 0
  for (;;) {
    const place = mkdtempSync(join(tmpdir(), "coppice-soak-"))
    const ground = await killGround(join(place, "store"), mkdtempSync(join(place, "source-")), writers)
    for (let round = 0; round < roundsAStore && kills < options.rounds; round += 1) {
      kills += await killRound(ground, round, random)
      rounds += 1
      const last = kills >= options.rounds || round === roundsAStore - 1
      const faults = await afterRound(ground, last || round % 10 === 9)
      if (faults.length > 0) return { rounds, kills, faults, kept: place }
      if (round % 10 === 9) options.say(`${kills} kills, no fault`)
    }
    rmSync(place, { recursive: true, force: true })
    if (kills >= options.rounds) return { rounds, kills, faults: [], kept: null }
  }
}
