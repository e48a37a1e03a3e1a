/** A hundred kills of everything that the store does, at random moments and at random crash points. Rules: L8, L9, L12, W10, W12. */
import { expect, it, vi } from "vitest"
import { seed as seedOf } from "../governance/authority.ts"
import { soakStore } from "./soakProcess.ts"
import { scratch } from "./storeFixture.ts"

// Starts a hundred processes one after the other; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 900_000 })

it("L8 L9 L12 W10 W12 100 processes killed anywhere in imports, commits, splices, forks, resets, compactions, bundles, exports, commands and recoveries: what was acknowledged stands, what was under way is whole or absent, nothing temporary is left", async () => {
  const seed = seedOf()
  const { faults, kills, atPoints, answers } = await soakStore(scratch(), { seed, kills: 100, minutes: 14 })
  expect([seed, ...faults]).toEqual([seed])
  expect(kills).toBeGreaterThanOrEqual(100)
  expect(atPoints).toBeGreaterThan(10)
  expect(answers).toBeGreaterThan(100)
})
