/** What the explore tests share: an authority with the explore module, a goal with two agents, and made-up identities. */
import { createHash } from "node:crypto"
import type { Effect } from "effect/Effect"
import { exploreModule } from "../../src/explore/ExploreGraph.ts"
import { Explore } from "../../src/explore/index.ts"
import { type Authority, Evidence, workModule } from "../../src/governance/index.ts"
import { sessionModule } from "../../src/session/index.ts"
import { type Bench, newBench, newGoal } from "../governance/authority.ts"

/** A full identity, told apart by a word. */
export const identityOf = (word: string): string => `sha256:${createHash("sha256").update(word).digest("hex")}`

export interface Scene extends Bench {
  readonly goal: string
}

export const newScene = async (): Promise<Scene> => {
  const bench = await newBench({ modules: [workModule, sessionModule, exploreModule] })
  return Object.assign(bench, { goal: (await newGoal(bench)).id })
}

/** The code of a failure, with the reason where it has one; "ok" when it did not fail. */
export const codeOf = (scene: Bench, effect: Effect<unknown, any, Authority>): Promise<string> =>
  scene.run(effect).then(
    () => "ok",
    (error) => (error.reason === undefined ? error.code : `${error.code} ${error.reason}`)
  )

export const node = async (scene: Scene, title = "why?", more: object = {}): Promise<string> =>
  (await scene.run(Explore.addNode({ goal: scene.goal, kind: "question", title, agent: "ada", ...more }))).id

export const finding = async (scene: Scene, at: string, more: object = {}): Promise<string> => {
  const fields = { goal: scene.goal, node: at, status: "tentative", text: "the cache is stale", agent: "ada" } as const
  return (await scene.run(Explore.addFinding({ ...fields, evidence: [], ...more }))).id
}

export const evidence = async (scene: Scene): Promise<string> =>
  (
    await scene.run(
      Evidence.record({
        goal: scene.goal,
        kind: "log",
        digest: identityOf("log") as `sha256:${string}`,
        summary: "the test output",
        producer: { role: "validator", name: "judge" }
      })
    )
  ).id

export const link = (scene: Scene, at: string, word: string, commit = `cmt_${word}`) =>
  scene.run(Explore.linkCandidate({ goal: scene.goal, node: at, identity: identityOf(word), commit }))

export const graph = (scene: Scene) => scene.run(Explore.graph({ goal: scene.goal }))
