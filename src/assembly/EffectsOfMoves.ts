/**
 * A workspace provider whose moved heads name the effects that stand: what the store cannot know, the authority does.
 * Promise: adds what the answer says and nothing else; no effect is changed, and what cannot be read is told as unknown, because the head has
 * moved by then. Rules: L7, G60.
 */
import * as Effect from "effect/Effect"
import { Authority } from "../governance/Authority.ts"
import { Effects } from "../governance/ExternalEffect.ts"
import { Goals } from "../governance/GoalClosure.ts"
import type {
  EffectsOfSpan,
  MovedHead,
  StandingEffect,
  UndoneSpan,
  WorkspaceProvider
} from "../workspace/WorkspaceProvider.ts"

/** Effects of one goal that were handed over at or after `since`; undefined when there is no such goal. */
const ofGoal = (goal: string, since: number) =>
  Effect.gen(function* () {
    const known = yield* Goals.get({ goal }).pipe(
      Effect.as(true),
      Effect.catchTag("NotFound", () => Effect.succeed(false))
    )
    if (!known) return undefined
    const { items } = yield* Effects.list({ goal })
    return items.flatMap((effect): StandingEffect[] => {
      const { id, agent, provider, kind, summary, state, dispatchedAt } = effect
      if (dispatchedAt === null || dispatchedAt < since || state === "planned") return []
      return [{ id, goal, agent, provider, kind, summary, state, dispatchedAt }]
    })
  })

const effectsOf = (undone: UndoneSpan): Effect.Effect<EffectsOfSpan, never, Authority> =>
  Effect.gen(function* () {
    const effects: StandingEffect[] = []
    const unknownGoals: string[] = []
    for (const goal of undone.goals) {
      const found = yield* ofGoal(goal, undone.since ?? 0)
      if (found === undefined) unknownGoals.push(goal)
      else effects.push(...found)
    }
    if (unknownGoals.length === undone.goals.length) {
      return { state: "unknown" as const, reason: "The undone commits name no goal of this authority." }
    }
    effects.sort((a, b) => a.dispatchedAt - b.dispatchedAt || (a.id < b.id ? -1 : 1))
    const { complete, withoutGoal } = undone
    return { state: "known" as const, complete, effects, withoutGoal, unknownGoals }
  }).pipe(
    Effect.catch((error) =>
      Effect.succeed({ state: "unknown" as const, reason: `The authority could not be read (${error.code}).` })
    )
  )

/** The same provider, whose `reset` and `undo` look into the authority. */
export const namingEffects = (provider: WorkspaceProvider, authority: Authority["Service"]): WorkspaceProvider => {
  const named = (moved: MovedHead): Effect.Effect<MovedHead> =>
    moved.undone.commits === 0
      ? Effect.succeed(moved)
      : effectsOf(moved.undone).pipe(
          Effect.map((effects) => ({ ...moved, effects })),
          Effect.provideService(Authority, authority)
        )
  return {
    ...provider,
    reset: (branch, options) => Effect.flatMap(provider.reset(branch, options), named),
    undo: (branch, options) => Effect.flatMap(provider.undo(branch, options), named)
  }
}
