/** What a power cut takes, and what it must not take. Rules: L8. */
import { expect, it } from "vitest"
import { seed as seedOf } from "../governance/authority.ts"
import { canCutPower, cutPower } from "./powerCut.ts"
import { scratch } from "./storeFixture.ts"
import { seededRandom } from "../seededRandom.ts"

it.skipIf(!canCutPower(scratch()))(
  "L8 after a power cut every acknowledged commit is there; with the durability `normal`, which does not promise it, the same cut loses some",
  async () => {
    const random = seededRandom(seedOf())
    const cut = { answers: 6 + random(10), moreMs: random(20) }
    const full = await cutPower(scratch(), cut)
    expect(full.faults).toEqual([])
    expect(full.told).toBeGreaterThan(4)
    // Proof that the cut cuts: the same store without its flushes.
    const normal = await cutPower(scratch(), cut, { COPPICE_TEST_DURABILITY: "normal" })
    expect(normal.faults.some((fault) => fault.endsWith("is lost"))).toBe(true)
  },
  240_000
)
