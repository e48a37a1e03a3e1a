/**
 * The workspace suite over each provider of this repository and each of its projections.
 * Promise: every scenario passes or says why it cannot be run; where it leaves a transcript, all providers come to the same.
 * Rules: K1 to K4, and those that the scenarios name.
 */
import { join } from "node:path"
import { assert, describe, test } from "vitest"
import { type Scenario, titleOf, type Transcript, workspaceConformance } from "../../src/testkit/index.ts"
import { oneFile } from "../oneFile.ts"
import { type WorkspaceKind, workspaceKinds, workspacesOf } from "./workspaceKinds.ts"

const kinds = Object.keys(workspaceKinds) as WorkspaceKind[]
const program = await oneFile(join(import.meta.dirname, "programs", "workspaces.ts"))
const underOf = (kind: WorkspaceKind) => workspacesOf(kind, [process.execPath, program, "serve", kind])

const suites = await Promise.all(kinds.map(async (kind) => [kind, await workspaceConformance(underOf(kind))] as const))
const transcripts = new Map<string, Transcript>()
const key = (kind: WorkspaceKind, { name }: Scenario) => `${kind} ${name}`

for (const [kind, suite] of suites) {
  describe(kind, () => {
    for (const scenario of suite) {
      test.skipIf(scenario.skip !== null)(`[${kind}] ${titleOf(scenario)}`, async () => {
        transcripts.set(key(kind, scenario), await scenario.run())
      })
    }
  })
}

const [[first, reference], ...others] = suites as unknown as readonly [(typeof suites)[number], ...typeof suites]

for (const [kind, suite] of others) {
  test(`W6 K1 [${kind}] every tree digest of the suite is that of ${first}`, () => {
    let compared = 0
    for (const scenario of suite) {
      const mine = transcripts.get(key(kind, scenario))
      const theirs = transcripts.get(key(first, reference.find(({ name }) => name === scenario.name)!))
      if (mine === undefined || theirs === undefined) continue
      assert.deepEqual(mine.answers, theirs.answers, titleOf(scenario))
      compared += mine.answers.length
    }
    assert.isAbove(compared, 1)
  })
}

test("W1 a scenario that cannot be run says why, and running it all the same fails with that", async () => {
  const { create, options } = underOf("layerfs-copy")
  const poor = {
    create: async () => {
      const { directory, open, remove } = await create()
      return { directory, open, remove }
    },
    ...(options === undefined ? {} : { options })
  }
  const skipped = (await workspaceConformance(poor)).filter((scenario) => scenario.skip !== null)
  const reasons = new Set(skipped.map((scenario) => scenario.skip))
  for (const reason of [
    "no small disk is given",
    "no worker program is given",
    "there is no way to alter stored bytes",
    "the store cannot be opened with a cap",
    "the manifest says xattrs: false, and this is about true"
  ]) {
    assert.isTrue(reasons.has(reason), reason)
  }
  for (const scenario of skipped) {
    const error = await scenario.run().then(
      () => undefined,
      (thrown: Error) => thrown
    )
    assert.include(error?.message, scenario.skip!)
  }
})
