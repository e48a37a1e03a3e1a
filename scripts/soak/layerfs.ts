/**
 * Everything that the workspace store does, by one process or several, killed at random moments and at random crash points.
 * Promise: after every round of kills the store opens, all of it verifies, and it stands where it was acknowledged.
 * Rules: L8, L9, L12, W10, W12.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { soakStore } from "../../test/layerfs/soakProcess.ts"
import type { SoakOptions, SoakResult } from "../soak.ts"

/** `rounds` counts killed processes, as rule L8 does; ends with them or with the minutes, whichever comes first. */
export const soakLayerFs = async (options: SoakOptions): Promise<SoakResult> => {
  const place = mkdtempSync(join(tmpdir(), "coppice-soak-"))
  const { seed, minutes } = options
  const total = await soakStore(
    place,
    { seed, minutes, kills: options.rounds },
    ({ rounds, kills, atPoints, answers }) => {
      if (rounds % 10 === 0) options.say(`${kills} kills, ${atPoints} of them at crash points, ${answers} answers`)
    }
  )
  if (total.faults.length === 0) rmSync(place, { recursive: true, force: true })
  return { rounds: total.rounds, kills: total.kills, faults: total.faults, kept: total.kept }
}
