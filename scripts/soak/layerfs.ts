/**
 * Everything that the workspace store does, by one process or two, killed at random moments and at random crash points.
 * Promise: after every kill the store opens and stands where it was acknowledged; every tenth round all of it is read back.
 * Rules: L8, L9, L12, W10, W12.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { soakGround, soakRound } from "../../test/layerfs/soakKills.ts"
import { seededRandom } from "../../test/seededRandom.ts"
import type { SoakOptions, SoakResult } from "../soak.ts"

/** A fresh store after so many rounds: a history that only grows would make each check slower than the kills. */
const roundsAStore = 50

/** Until the minutes are over or so many processes were killed, whichever comes first. */
export const soakLayerFs = async (options: SoakOptions): Promise<SoakResult> => {
  const random = seededRandom(options.seed)
  const until = Date.now() + options.minutes * 60_000
  const enough = (): boolean => kills >= options.rounds || Date.now() >= until
  let kills = 0
  let rounds = 0
  while (!enough()) {
    const place = mkdtempSync(join(tmpdir(), "coppice-soak-"))
    // Commands need root or user namespaces; where the overlay is missing the calls answer so, and that is an answer too.
    const ground = await soakGround(join(place, "store"), mkdtempSync(join(place, "source-")), true)
    for (let round = 0; round < roundsAStore && !enough(); round += 1) {
      const result = await soakRound(ground, rounds, random, round % 10 === 9)
      kills += result.kills
      rounds += 1
      if (result.faults.length > 0) return { rounds, kills, faults: result.faults, kept: place }
      if (round % 10 === 9) options.say(`${kills} kills, ${ground.told.size} answers, no fault`)
    }
    rmSync(place, { recursive: true, force: true })
  }
  return { rounds, kills, faults: [], kept: null }
}
