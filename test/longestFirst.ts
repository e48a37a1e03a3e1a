/**
 * The order of the test files: the longest first, so that no long one is alone at the end. A checkout that never ran them knows no
 * durations, and vitest then goes by file sizes, which say little. Promise: only the order; a name that is no file any more changes nothing.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node"

/** By what each took on two cores, longest first; those below 15 s follow in vitest's own order. */
const longest = [
  "testkit/workspacesUser",
  "testkit/workspacesGit",
  "testkit/workspacesReflink",
  "testkit/workspaces",
  "house/package",
  "journey/kill",
  "examples/oracle",
  "layerfs/soak",
  "governance/history",
  "testkit/authority",
  "journey/anyRepository",
  "journey/repair",
  "examples/governedTask",
  "journey/faults",
  "layerfs/compact",
  "layerfs/storeFaults",
  "layerfs/treeHard",
  "journey/crashPoints",
  "layerfs/treeLayouts",
  "journey/interrupt",
  "layerfs/storeCrash",
  "layerfs/projRecovery",
  "layerfs/bundleTwice",
  "layerfs/contentCrash",
  "examples/governance"
]

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification): number => {
      const at = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`))
      return at === -1 ? longest.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b))
  }
}
