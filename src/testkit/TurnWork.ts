/**
 * A turn on its way, for the scenarios of turns and settlements: admitted, executed, answered, judged.
 * Promise: only service calls, in the order of the phases. Rules: G71, G80.
 */
import { sha256 } from "../base/Digest.ts"
import { Acceptances, type Fence, type Settlements, type TurnRecord, Turns } from "../governance/index.ts"
import { heldTodo, type Scene, validatorEvidence } from "./AuthorityScene.ts"

export const judge = sha256("the validator's own files")
export const bound = { usd: 1, slots: 1 } as const

/** What a host gave. */
export const answered = {
  status: "ok",
  claim: "completed",
  summary: "done",
  failure: null,
  digest: null,
  usd: 0.5,
  wallMs: 1,
  provenGone: true
} as const

export interface Work {
  readonly goal: { readonly id: string }
  readonly todo: { readonly id: string }
  readonly fence: Fence
  readonly turn: TurnRecord
}

/** A todo with the validator `judge`, held by `ada`, and a turn that was admitted for it. */
export const admitted = async (scene: Scene): Promise<Work> => {
  const held = await heldTodo(scene, { acceptance: { validator: "judge" } })
  const { goal, fence } = held
  return { ...held, turn: await scene.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound })) }
}

/** The same, after its host was dispatched and has answered. */
export const withResult = async (scene: Scene): Promise<Work> => {
  const work = await admitted(scene)
  await scene.run(Turns.saveAttempt({ turn: work.turn.id, fence: work.fence }))
  return { ...work, turn: await scene.run(Turns.recordResult({ turn: work.turn.id, result: answered })) }
}

/** A verdict on the work of a turn, with the evidence of the validator. */
export const verdict = async (
  scene: Scene,
  { goal, todo, turn }: Work,
  more: Partial<Parameters<typeof Acceptances.record>[0]> = {}
) => {
  const of = { goal: goal.id, todo: todo.id, turn: turn.id }
  const evidence = await validatorEvidence(scene, goal, "verdict", { todo: todo.id, turn: turn.id })
  const validator = { name: "judge", digestBefore: judge, digestAfter: judge }
  return scene.run(
    Acceptances.record({ ...of, candidate: null, validator, outcome: "passed", evidence: [evidence.id], ...more })
  )
}

/** The same, judged, and the content with which it settles as accepted. */
export const judged = async (scene: Scene) => {
  const work = await withResult(scene)
  const acceptance = await verdict(scene, work)
  await scene.run(Turns.recordVerdict({ turn: work.turn.id, acceptance: acceptance.id }))
  return { ...work, content: accepting(work, acceptance.id) }
}

export const accepting = (work: Work, acceptance: string): Parameters<typeof Settlements.settle>[0] => ({
  effectId: work.turn.effectId,
  goal: work.goal.id,
  fence: work.fence,
  turn: work.turn.id,
  outcome: "accepted",
  evidence: [],
  acceptance,
  spend: { usd: 0.5 },
  todo: { action: "complete", continuation: { kind: "noFollowUp" } }
})
