/**
 * The workspace suite over providers of this repository, as tests of the file that calls it.
 * Promise: every scenario passes or says why it cannot be run; where it notes tree digests, a provider comes to the same ones as LayerFS does in the
 * same file. Rules: K1 to K4, and those that the scenarios name.
 */
import { join } from "node:path"
import { assert, describe, test } from "vitest"
import { type Scenario, titleOf, type Transcript, workspaceConformance } from "../../src/testkit/index.ts"
import { fullProfile } from "../../src/workspace/TreeDigest.ts"
import { oneFile } from "../oneFile.ts"
import { lackOfKind, type WorkspaceKind, workspacesOf } from "./workspaceKinds.ts"

const program = await oneFile(join(import.meta.dirname, "programs", "workspaces.ts"))
const seed = Number(process.env["COPPICE_SEED"] ?? 1 + (Date.now() % 1_000_000))
export const underOf = (kind: WorkspaceKind) =>
  workspacesOf(kind, { worker: [process.execPath, program, "serve", kind], fuzz: { seed, rounds: 4 } })

/** What the others are compared with. */
const reference: WorkspaceKind = "layerfs-overlay"

interface Noted {
  readonly profile: string
  readonly treeDigest: string
}

/**
 * `once`: kinds that run nothing again on a fork of a fork, because another kind of the same code does. `part`: rules, of kinds of which the other scenarios are those of
 * another kind too.
 */
export const suiteOver = async (
  all: readonly WorkspaceKind[],
  once: readonly WorkspaceKind[] = [],
  part: Partial<Readonly<Record<WorkspaceKind, readonly string[]>>> = {}
): Promise<void> => {
  console.log(`workspaces seed ${seed}`)
  const kinds = all.filter((kind) => lackOfKind(kind) === null)
  const transcripts = new Map<string, Transcript>()
  const suiteOf = async (kind: WorkspaceKind) => [kind, await workspaceConformance(underOf(kind))] as const
  const suites = await Promise.all(kinds.map(suiteOf))
  const defined = (kind: WorkspaceKind, scenarios: readonly Scenario[]) =>
    describe(kind, () => {
      for (const scenario of scenarios) {
        test.skipIf(scenario.skip !== null)(
          `[${kind}] ${titleOf(scenario)}`,
          async () => {
            transcripts.set(`${kind} ${scenario.name}`, await scenario.run())
          },
          300_000
        )
      }
    })
  if (!kinds.includes(reference)) {
    const [, suite] = await suiteOf(reference)
    // Of the reference only where trees are noted: the cases and the forks, each once.
    const noted = ({ name, rules }: Scenario): boolean =>
      !name.endsWith(", on a fork of a fork") && rules.some((id) => id === "W7" || /^C\d/.test(id))
    defined(reference, suite.filter(noted))
  }
  for (const [kind, suite] of suites) {
    const isAgain = ({ name }: Scenario): boolean => name.endsWith(", on a fork of a fork")
    const rules = part[kind]
    const isPart = (scenario: Scenario): boolean =>
      rules === undefined || scenario.rules.some((id) => rules.includes(id))
    const whole = suite.filter(isPart)
    defined(kind, once.includes(kind) ? whole.filter((scenario) => !isAgain(scenario)) : whole)
  }
  for (const kind of all.filter((one) => !kinds.includes(one))) {
    test(`K1 [${kind}] the suite`, (context) => context.skip(lackOfKind(kind)!))
  }
  const notedBy = (kind: WorkspaceKind, { name }: Scenario): readonly Noted[] =>
    (transcripts.get(`${kind} ${name}`)?.answers ?? []) as readonly Noted[]
  for (const [kind, suite] of suites.filter(([one]) => one !== reference)) {
    test(`W6 K1 [${kind}] every tree digest of the suite is that of ${reference}, where the profiles are the same`, () => {
      const profiles = new Set<string>()
      let compared = 0
      for (const scenario of suite) {
        const theirs = notedBy(reference, scenario)
        for (const [at, mine] of notedBy(kind, scenario).entries()) {
          profiles.add(mine.profile)
          if (theirs[at]?.profile !== mine.profile) continue
          assert.deepEqual(mine, theirs[at], titleOf(scenario))
          compared += 1
        }
      }
      if (part[kind] === undefined && profiles.has(fullProfile)) assert.isAbove(compared, 5)
      else if (part[kind] === undefined) assert.equal(compared, 0)
    })
  }
}
