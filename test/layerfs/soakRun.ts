/**
 * The killer and checker of the soak, in one process that outlives all that it kills. Arguments: a directory of its own, the victim's
 * program, a seed, the number of kills, the number of minutes. One JSON line a round; the directory of a fault stays.
 */
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { seededRandom } from "../seededRandom.ts"
import { soakGround, soakRound } from "./soakKills.ts"

const [place = "", victim = "", seed = "1", wanted = "1", minutes = "1"] = process.argv.slice(2)
const random = seededRandom(Number(seed))
const until = Date.now() + Number(minutes) * 60_000
/** A fresh store after so many rounds: a history that only grows would make each check slower than the kills. */
const roundsAStore = 20

const total = { kills: 0, atPoints: 0, rounds: 0, answers: 0 }
const isEnough = (): boolean => total.kills >= Number(wanted) || Date.now() >= until
let faults: readonly string[] = []
while (!isEnough() && faults.length === 0) {
  const at = join(place, `store-${total.rounds}`)
  mkdirSync(at)
  // Commands need root or user namespaces; where the overlay is missing the calls answer so, and that is an answer too.
  const ground = await soakGround(at, victim, true)
  const before = total.answers
  for (let round = 0; round < roundsAStore && !isEnough() && faults.length === 0; round += 1) {
    const ended = await soakRound(ground, total.rounds, random, round === roundsAStore - 1 ? 1 : 6)
    faults = ended.faults
    total.rounds += 1
    total.kills += ended.kills.point + ended.kills.moment
    total.atPoints += ended.kills.point
    total.answers = before + ground.told.size
    process.stdout.write(`${JSON.stringify({ ...total, faults, kept: faults.length > 0 ? at : null })}\n`)
  }
  if (faults.length === 0) rmSync(at, { recursive: true, force: true })
}
process.exitCode = faults.length === 0 ? 0 : 1
