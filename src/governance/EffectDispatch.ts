/**
 * Planning an external effect, and handing it over.
 * Promise: journaled before the provider is called; one id names one operation, and another one under it is refused; nothing is
 * handed over that may have been carried out, unless its kind says that this is safe. Rules: G10, G35, G60, G61, G62, G63.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { digestJson, type Json } from "../base/Digest.ts"
import { driverOf, effectInFlight, observerOf } from "./EffectDriver.ts"
import { stopRefused } from "./EffectEnd.ts"
import { EffectBlocked, RetryUnsafe, SupervisionRequired } from "./EffectError.ts"
import { changed, type EffectRecord, effectState, effectTable, knownEffect } from "./EffectRecord.ts"
import { DigestText, Fence, IdText, Ids, Summary } from "./Field.ts"
import { type GateRecord, loadGates, occasionOf, passGates } from "./GateRecord.ts"
import { activeGoal, type GoalRecord, loadGoal } from "./Goal.ts"
import { IdentityConflict, LeaseLost, notFound } from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler, rows } from "./Handler.ts"
import { type LeaseRecord, loadLease, passFence, passWayOut } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { OperationKind } from "./OperationProvider.ts"
import { type TodoRecord, todoState, todoTable } from "./TodoRecord.ts"

/** Digest under which an operation is known: two that agree in provider, kind and content are the same one. */
export const operationDigest = (provider: string, kind: string, operation: Json): string =>
  digestJson({ provider, kind, operation })

// --- planning --------------------------------------------------------------------------------------------------------

export const PlanEffect = Schema.Struct({
  effect: IdText,
  goal: IdText,
  todo: Schema.optional(IdText),
  fence: Schema.optional(Fence),
  provider: IdText,
  kind: OperationKind,
  operation: DigestText,
  summary: Summary,
  after: Schema.optional(Ids)
})
export type PlanEffect = typeof PlanEffect.Type

interface Planned {
  readonly known: EffectRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly todo: TodoRecord | undefined
  readonly lease: LeaseRecord | undefined
  readonly after: readonly (EffectRecord | undefined)[]
}

function* loadPlanned(input: PlanEffect): Load<Planned> {
  const after: (EffectRecord | undefined)[] = []
  for (const id of input.after ?? []) after.push(yield* effectTable.first("id = ?", id))
  return {
    known: yield* effectTable.first("id = ?", input.effect),
    goal: yield* loadGoal(input.goal),
    todo: input.todo === undefined ? undefined : yield* todoTable.first("id = ?", input.todo),
    lease: input.todo === undefined ? undefined : yield* loadLease(input.todo),
    after
  }
}

const otherOperation = (effect: EffectRecord): IdentityConflict =>
  new IdentityConflict({
    message: `Effect ${effect.id} names another operation.`,
    remedy: "Read it with Effects.get. Another operation, or the same one for other work, has another effect id.",
    kind: "effect",
    id: effect.id
  })

export const plan: Handlers = handler({
  type: "planEffect",
  payload: PlanEffect,
  load: loadPlanned,
  decide: (state, input, { now }) =>
    Result.gen(function* () {
      const { known } = state
      const after = input.after ?? []
      if (known !== undefined) {
        const same =
          known.operation === input.operation &&
          known.goal === input.goal &&
          known.todo === (input.todo ?? null) &&
          known.after.join("\n") === after.join("\n")
        return same ? decided([], { ...known, replayed: true }) : yield* Result.fail(otherOperation(known))
      }
      const goal = yield* activeGoal(state.goal, input.goal)
      if (input.todo !== undefined) {
        if (state.todo === undefined || state.todo.goal !== goal.id) {
          return yield* Result.fail(notFound("todo", input.todo))
        }
        if (state.todo.state !== "open") return yield* Result.fail(todoState(state.todo))
        yield* passWayOut(state.lease, input.fence, now)
      }
      const missing = after.find((_, i) => state.after[i]?.goal !== goal.id)
      if (missing !== undefined) return yield* Result.fail(notFound("effect", missing))
      const effect: EffectRecord = {
        id: input.effect,
        goal: goal.id,
        todo: input.todo ?? null,
        agent: null,
        provider: input.provider,
        kind: input.kind.name,
        declared: input.kind,
        operation: input.operation,
        summary: input.summary,
        after,
        state: "planned",
        attempts: 0,
        earlierOpen: false,
        driver: null,
        supervisor: null,
        claim: null,
        lastReadBack: null,
        outcome: null,
        stop: null,
        ended: { model: null, process: null },
        unresolved: false,
        plannedAt: now,
        dispatchedAt: null,
        changedAt: now
      }
      return decided([fact("effect.planned", effect.id, effect)], effect)
    })
})

// --- handing over ----------------------------------------------------------------------------------------------------

export const DispatchEffect = Schema.Struct({
  effect: IdText,
  operation: DigestText,
  fence: Schema.optional(Fence),
  supervisor: Schema.optional(IdText)
})
export type DispatchEffect = typeof DispatchEffect.Type

interface Dispatched {
  readonly effect: EffectRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly lease: LeaseRecord | undefined
  readonly waits: EffectBlocked["waits"]
  readonly todo: TodoRecord | undefined
  readonly gates: readonly GateRecord[]
}

function* loadDispatched(input: DispatchEffect): Load<Dispatched> {
  const effect = yield* effectTable.first("id = ?", input.effect)
  if (effect === undefined) return { effect, goal: undefined, lease: undefined, waits: [], todo: undefined, gates: [] }
  const waits: EffectBlocked["waits"][number][] = []
  for (const id of effect.after) {
    const other = yield* effectTable.first("id = ?", id)
    if (other?.state !== "confirmed" || other.unresolved) {
      waits.push({ effect: id, state: other?.state ?? "planned", why: "after" })
    }
  }
  if (effect.declared.retry !== "safe") {
    // An equal operation whose fate is open may have happened: under another id it would happen again.
    const equal = yield* rows(
      "SELECT id, state FROM external_effect WHERE operation = ? AND state IN ('dispatched', 'unknown') AND id <> ? " +
        "ORDER BY id LIMIT 100",
      effect.operation,
      effect.id
    )
    for (const other of equal) {
      waits.push({ effect: String(other["id"]), state: String(other["state"]), why: "sameOperation" })
    }
  }
  return {
    effect,
    goal: yield* loadGoal(effect.goal),
    lease: effect.todo === null ? undefined : yield* loadLease(effect.todo),
    waits,
    todo: effect.todo === null ? undefined : yield* todoTable.first("id = ?", effect.todo),
    gates: yield* loadGates(effect.goal, effect.todo)
  }
}

const fenced = (effect: EffectRecord, lease: LeaseRecord | undefined, fence: Fence | undefined, now: number) => {
  if (effect.todo === null) return Result.succeed(undefined)
  if (fence !== undefined && fence.todo === effect.todo) return passFence(lease, fence, now)
  return Result.fail(
    new LeaseLost({
      message: `Effect ${effect.id} belongs to todo ${effect.todo}, and no fence of its lease was shown.`,
      remedy: "Pass the fence of the lease on that todo.",
      todo: effect.todo,
      epoch: fence?.epoch ?? 0,
      currentEpoch: lease?.epoch ?? 0,
      why: "none"
    })
  )
}

/**
 * Whether handing it over cannot make it happen twice: it never was, it is known that nothing came of it, or doing it again under
 * its id is doing it once. Not observed is not the same as not executed: `notFound` allows nothing by itself.
 */
export const mayHandOver = (effect: EffectRecord): boolean =>
  effect.state === "planned" ||
  (effect.state === "unknown" &&
    (effect.lastReadBack === "notExecuted" || (effect.declared.retry !== "unsafe" && effect.claim === null)))

export const dispatch: Handlers = handler({
  type: "dispatchEffect",
  payload: DispatchEffect,
  load: loadDispatched,
  decide: (state, input, { now }, observed) =>
    Result.gen(function* () {
      const effect = yield* knownEffect(state.effect, input.effect)
      if (effect.operation !== input.operation) return yield* Result.fail(otherOperation(effect))
      if (effect.state === "dispatched") {
        const alive = driverOf(effect, observed)
        return yield* alive === false
          ? Result.fail(effectState(effect, "Read it back first: its process died while it was handed over."))
          : Result.fail(effectInFlight(effect, alive === "mine" ? true : alive))
      }
      if (effect.state === "confirmed" || effect.state === "refused") {
        return yield* Result.fail(effectState(effect, "That is final: a further operation has another effect id."))
      }
      if (effect.stop !== null) return yield* Result.fail(stopRefused(effect))
      yield* activeGoal(state.goal, effect.goal)
      const lease = yield* fenced(effect, state.lease, input.fence, now)
      const passed = yield* passGates(
        effect.goal,
        state.gates,
        {
          agent: lease?.owner ?? effect.agent,
          action: "effect",
          todo: state.todo ?? null,
          occasion: lease === undefined ? effect.id : occasionOf(lease.todo, lease.epoch)
        },
        now
      )
      if (!mayHandOver(effect)) {
        return yield* Result.fail(
          new RetryUnsafe({
            message: `Effect ${effect.id} may have been carried out, and its kind is ${effect.declared.retry}.`,
            remedy: "Read it back, or let a person who looked say what became of it with Effects.resolve.",
            effect: effect.id,
            retry: effect.declared.retry
          })
        )
      }
      if (state.waits.length > 0) {
        return yield* Result.fail(
          new EffectBlocked({
            message: `Effect ${effect.id} waits for ${state.waits.map((w) => `${w.effect} (${w.state})`).join(", ")}.`,
            remedy: "Bring these to a known state first; one that was refused takes what comes after it along.",
            effect: effect.id,
            waits: state.waits
          })
        )
      }
      const supervisor = input.supervisor ?? null
      if (effect.declared.supervision === "required" && supervisor === null) {
        return yield* Result.fail(
          new SupervisionRequired({
            message: `Operations of kind ${effect.kind} are watched by a person.`,
            remedy: "Name the person who watches as `supervisor`.",
            effect: effect.id,
            kind: effect.kind
          })
        )
      }
      const next = changed(
        "dispatched",
        effect,
        {
          state: "dispatched",
          attempts: effect.attempts + 1,
          earlierOpen: effect.state === "unknown" && effect.lastReadBack !== "notExecuted",
          driver: observerOf(observed),
          agent: lease?.owner ?? effect.agent,
          supervisor,
          claim: null,
          lastReadBack: null,
          dispatchedAt: now
        },
        now
      )
      return decided([...passed, next.event], next.effect)
    })
})
