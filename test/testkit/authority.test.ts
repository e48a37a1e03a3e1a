/**
 * The authority suite over the bare store and over both presets.
 * Promise: every scenario passes on each; where it leaves a transcript, that of each preset is that of the bare store, answer for
 * answer and fact for fact. Rules: V2, and those that the scenarios name.
 */
import { assert, describe, test } from "vitest"
import { authorityConformance, type Scenario, titleOf, type Transcript } from "../../src/testkit/index.ts"
import { authorityOf } from "./authorities.ts"
import { kinds } from "./opening.ts"

const suites = await Promise.all(
  kinds.map(async (kind) => [kind, await authorityConformance(authorityOf(kind))] as const)
)
const transcripts = new Map<string, Transcript>()
const key = (kind: string, { name }: Scenario) => `${kind} ${name}`

for (const [kind, suite] of suites) {
  describe(kind, () => {
    for (const scenario of suite) {
      test.skipIf(scenario.skip !== null)(`[${kind}] ${titleOf(scenario)}`, async () => {
        transcripts.set(key(kind, scenario), await scenario.run())
      })
    }
  })
}

const [[, bare], ...presets] = suites as unknown as readonly [(typeof suites)[number], ...typeof suites]

for (const [kind, suite] of presets) {
  test(`V2 [${kind}] every answer and every journaled fact of the suite is that of the bare store`, () => {
    let compared = 0
    for (const scenario of suite) {
      const mine = transcripts.get(key(kind, scenario))
      if (mine === undefined) continue
      assert.deepEqual(mine, transcripts.get(key("sqlite", scenario)), titleOf(scenario))
      compared += mine.facts.length
    }
    assert.isAbove(compared, 100)
  })
}

test("V2 on the bare store nothing of the suite is left out, and each preset leaves out only what needs modules of the test's own", () => {
  assert.deepEqual(
    bare.filter((scenario) => scenario.skip !== null),
    []
  )
  for (const [, suite] of presets) {
    const left = suite.filter((scenario) => scenario.skip !== null).map((scenario) => scenario.skip)
    assert.deepEqual(left, ["the store takes no modules"])
  }
})

test("V2 a scenario that cannot be run says why, and running it all the same fails with that", async () => {
  const under = authorityOf("sqlite")
  const poor = {
    ...under,
    takesModules: false,
    create: async () => {
      const { open, remove } = await under.create()
      return { open, remove }
    }
  }
  const skipped = (await authorityConformance(poor)).filter((scenario) => scenario.skip !== null)
  assert.deepEqual(
    new Set(skipped.map((scenario) => scenario.skip)),
    new Set([
      "no worker program is given",
      "there is no way to alter a journal row",
      "the store takes no modules",
      "there are no other stores"
    ])
  )
  for (const scenario of skipped) {
    const error = await scenario.run().then(
      () => undefined,
      (thrown: Error) => thrown
    )
    assert.include(error?.message, scenario.skip!)
  }
})
