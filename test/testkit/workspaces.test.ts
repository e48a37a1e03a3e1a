/**
 * The workspace suite over each provider of this repository and each of its projections.
 * Promise: every scenario passes or says why it cannot be run; where it leaves a transcript, all providers come to the same.
 * Rules: K1 to K4, and those that the scenarios name.
 */
import { join } from "node:path"
import { assert, describe, test } from "vitest"
import { type Scenario, titleOf, type Transcript, workspaceConformance } from "../../src/testkit/index.ts"
import { fullProfile } from "../../src/workspace/TreeDigest.ts"
import { oneFile } from "../oneFile.ts"
import { lackOfKind, type WorkspaceKind, workspaceKinds, workspacesOf } from "./workspaceKinds.ts"

const all = Object.keys(workspaceKinds) as WorkspaceKind[]
const kinds = all.filter((kind) => lackOfKind(kind) === null)
const program = await oneFile(join(import.meta.dirname, "programs", "workspaces.ts"))
const seed = Number(process.env["COPPICE_SEED"] ?? 1 + (Date.now() % 1_000_000))
console.log(`workspaces seed ${seed}`)
const underOf = (kind: WorkspaceKind) =>
  workspacesOf(kind, { worker: [process.execPath, program, "serve", kind], fuzz: { seed, rounds: 4 } })

const suites = await Promise.all(kinds.map(async (kind) => [kind, await workspaceConformance(underOf(kind))] as const))
const transcripts = new Map<string, Transcript>()

for (const [kind, suite] of suites) {
  describe(kind, () => {
    for (const scenario of suite) {
      test.skipIf(scenario.skip !== null)(
        `[${kind}] ${titleOf(scenario)}`,
        async () => {
          transcripts.set(`${kind} ${scenario.name}`, await scenario.run())
        },
        300_000
      )
    }
  })
}

for (const kind of all.filter((one) => !kinds.includes(one))) {
  test(`K1 [${kind}] the suite`, (context) => context.skip(lackOfKind(kind)!))
}

const [[first], ...others] = suites as unknown as readonly [(typeof suites)[number], ...typeof suites]

interface Noted {
  readonly profile: string
  readonly treeDigest: string
}

const notedBy = (kind: WorkspaceKind, { name }: Scenario): readonly Noted[] =>
  (transcripts.get(`${kind} ${name}`)?.answers ?? []) as readonly Noted[]

for (const [kind, suite] of others) {
  test(`W6 K1 [${kind}] every tree digest of the suite is that of ${first}, where the profiles are the same`, () => {
    const profiles = new Set<string>()
    let compared = 0
    for (const scenario of suite) {
      const theirs = notedBy(first, scenario)
      for (const [at, mine] of notedBy(kind, scenario).entries()) {
        profiles.add(mine.profile)
        if (theirs[at]?.profile !== mine.profile) continue
        assert.deepEqual(mine, theirs[at], titleOf(scenario))
        compared += 1
      }
    }
    if (profiles.has(fullProfile)) assert.isAbove(compared, 20)
    else assert.equal(compared, 0)
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
