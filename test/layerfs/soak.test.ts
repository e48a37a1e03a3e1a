/** Everything that the store does, killed at random moments and at random crash points. Rules: L8, L9, L12, W10, W12. */
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { seed as seedOf } from "../governance/authority.ts"
import { seededRandom } from "../seededRandom.ts"
import { soakGround, soakRound } from "./soakKills.ts"
import { scratch } from "./storeFixture.ts"

// Starts some twenty whole processes one after the other; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 900_000 })

it("L8 L9 L12 W10 W12 imports, commits, splices, forks, resets, compactions and commands killed anywhere: what was acknowledged stands, what was under way is whole or absent", async () => {
  const seed = seedOf()
  const random = seededRandom(seed)
  const ground = await soakGround(join(scratch(), "s"), scratch(), true)
  let kills = 0
  for (let round = 0; kills < 10; round += 1) {
    const result = await soakRound(ground, round, random, round % 4 === 3 || kills > 6)
    expect([seed, round, ...result.faults]).toEqual([seed, round])
    kills += result.kills
  }
  expect(ground.told.size).toBeGreaterThan(10)
})
