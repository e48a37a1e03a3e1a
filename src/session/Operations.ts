/**
 * The driver of external effects: activates a provider, hands operations over, and brings each to a known state.
 * Promise: journaled before the provider is called; a lost answer is read back, never guessed; after a crash nothing is handed over
 * blindly. Off until it is activated: no code of a provider, no row, no timer. Rules: G10, G60, G61, G62, G63; J8, V9, A3.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { crashPoint } from "../base/CrashPoint.ts"
import type { Json } from "../base/Digest.ts"
import {
  Authority,
  EffectInFlight,
  type EffectRecord,
  Effects,
  type Fence,
  InvalidInput,
  mayHandOver,
  type OperationKind,
  type OperationProvider
} from "../governance/index.ts"
import { askBack, type Asking, called, passInterlocks, pursueStop, told } from "./OperationAsk.ts"
import { ProviderBusy, ProviderInactive, UnknownOperation } from "./OperationError.ts"

export type { Asking } from "./OperationAsk.ts"
export * from "./OperationError.ts"

export interface OperationsOptions extends Asking {
  /** How often one call of `run` hands an effect over at most, where its kind allows more than once; 3 unless told. */
  readonly tries?: number
}

/** An operation to be carried out. */
export interface OperationSpec {
  /** The effect's id: the same after a crash, unique over every store that uses the provider. See `Effects.plan`. */
  readonly effect: string
  readonly goal: string
  readonly todo?: string
  /** Of the lease on the todo; needed where there is one. */
  readonly fence?: Fence
  /** Name of one of the provider's kinds. */
  readonly kind: string
  readonly operation: Json
  /** What it does, in public words. */
  readonly summary: string
  /** Effects that must be confirmed before it. */
  readonly after?: readonly string[]
  /** Who watches, for kinds under supervision. */
  readonly supervisor?: string
}

/** Ids of effects that this process is busy with, by authority: the journal tells processes apart, not calls of one. */
const busy = new WeakMap<Authority["Service"], Set<string>>()

const busyWith = (authority: Authority["Service"]): Set<string> => {
  const ids = busy.get(authority) ?? new Set<string>()
  busy.set(authority, ids)
  return ids
}

/** One call at a time for an effect. */
const alone = <A, E, R>(
  ids: readonly Set<string>[],
  effect: string,
  work: Effect.Effect<A, E, R>
): Effect.Effect<A, E | EffectInFlight, R> =>
  Effect.suspend((): Effect.Effect<A, E | EffectInFlight, R> => {
    if (ids.some((set) => set.has(effect))) {
      return Effect.fail(
        new EffectInFlight({
          message: `Effect ${effect} is being handed over or read back by another call.`,
          remedy: "Wait until that call has ended, then read the effect again.",
          effect,
          alive: true
        })
      )
    }
    for (const set of ids) set.add(effect)
    return Effect.ensuring(
      work,
      Effect.sync(() => {
        for (const set of ids) set.delete(effect)
      })
    )
  })

/**
 * Hands the effect over once and journals what came of it. An interruption reaches the provider, and what it leaves behind is
 * journaled as unknown before it goes on.
 */
const handOver = (provider: OperationProvider, options: OperationsOptions, spec: OperationSpec, supervisor?: string) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const sent = yield* Effects.dispatch({
        effect: spec.effect,
        operation: spec.operation,
        ...(spec.fence === undefined ? {} : { fence: spec.fence }),
        ...(supervisor === undefined ? {} : { supervisor })
      })
      crashPoint("effect.dispatched")
      const request = () =>
        provider.dispatch({
          effectId: sent.id,
          attempt: sent.attempts,
          kind: sent.kind,
          operation: spec.operation
        })
      const exit = yield* Effect.exit(restore(called(provider, options, request, ["confirmed", "refused"])))
      crashPoint("effect.answered")
      const known = yield* Effects.answer(
        Exit.isSuccess(exit)
          ? { effect: sent.id, attempt: sent.attempts, answer: exit.value.state, ...told(exit.value) }
          : { effect: sent.id, attempt: sent.attempts, answer: "lost" }
      )
      crashPoint("effect.recorded")
      return known
    })
  )

/** Whether handing over again is worth it: it is allowed, and nothing that was sent before is known to be on its way. */
const worthAgain = (effect: EffectRecord): boolean =>
  mayHandOver(effect) &&
  effect.stop === null &&
  (effect.state === "planned" ||
    effect.declared.readBack === "no" ||
    effect.lastReadBack === "notFound" ||
    effect.lastReadBack === "notExecuted")

const carryOut = (
  provider: OperationProvider,
  kind: OperationKind,
  options: OperationsOptions,
  { supervisor, ...spec }: OperationSpec
) =>
  Effect.gen(function* () {
    const { tries = 3 } = options
    yield* Effects.plan({ ...spec, provider: provider.name, kind })
    crashPoint("effect.planned")
    let effect: EffectRecord = yield* Effects.get({ effect: spec.effect })
    for (let handed = 0; ; handed += 1) {
      if (effect.state === "dispatched" || effect.state === "unknown") {
        effect = yield* askBack(provider, options, effect)
      }
      if (handed >= tries || !worthAgain(effect)) return effect
      yield* passInterlocks(provider, options, effect)
      effect = yield* handOver(provider, options, spec, supervisor)
    }
  })

/**
 * Activates a provider for as long as the scope lasts: acquires it, reads every effect of it back whose fate an earlier process left
 * open, and asks again for the stops that it left unconfirmed. Nothing is handed over by this.
 *
 * ```ts
 * const stage = yield* activate(connectStage(port))
 * const moved = yield* stage.run({ effect: `${goal}/move-1`, goal, kind: "move", operation: { to: 40 }, summary: "move to 40" })
 * if (moved.state === "unknown") …  // nothing that depends on it goes on; a rerun reads it back, a person may resolve it
 * ```
 *
 * Errors: those of `acquire`, and of the store.
 */
export const activate = <E, R>(acquire: Effect.Effect<OperationProvider, E, R>, options: OperationsOptions = {}) =>
  Effect.gen(function* () {
    const authority = yield* Authority
    const scope = yield* Scope.fork(yield* Effect.scope)
    const provider = yield* Scope.provide(acquire, scope)
    const own = new Set<string>()
    const ids = [own, busyWith(authority)]
    let active = true
    const whileActive = <A, E2, R2>(work: Effect.Effect<A, E2, R2>): Effect.Effect<A, E2 | ProviderInactive, R2> =>
      Effect.suspend(
        (): Effect.Effect<A, E2 | ProviderInactive, R2> =>
          active
            ? work
            : Effect.fail(
                new ProviderInactive({
                  message: `${provider.name} is not active.`,
                  remedy: "Activate it again.",
                  provider: provider.name
                })
              )
      )

    const readBack = (effect: EffectRecord) => alone(ids, effect.id, askBack(provider, options, effect))

    /** What an earlier process left. One that another process is still at is that one's. */
    const left = (found: EffectRecord) =>
      Effect.gen(function* () {
        const open = found.state === "dispatched" || found.state === "unknown"
        const effect: EffectRecord = open
          ? yield* readBack(found).pipe(Effect.catchTag(["EffectInFlight", "EffectState"], () => Effect.succeed(found)))
          : found
        if (effect.stop === null || effect.stop.state === "confirmed") return effect
        return yield* pursueStop(provider, options, effect).pipe(
          Effect.catchTag("EffectState", () => Effect.succeed(effect))
        )
      })

    const { items } = yield* Effects.unresolved({ provider: provider.name })
    const recovered: readonly EffectRecord[] = yield* Effect.forEach(items, left, { concurrency: 8 })

    return {
      provider: provider.name,
      kinds: provider.kinds,
      /** The effects that earlier processes had left open, as they stand now. */
      recovered,
      /**
       * Carries out an operation, or finds out what became of it when it was handed over before: the effect as it is known at the
       * end. `confirmed` and `refused` are final. `unknown` is an answer, too: everything was asked that could be, and nothing
       * that depends on the effect may go on. Calling it again under the same id repeats nothing that may have happened.
       *
       * Errors: `UnknownOperation`, `InterlockEngaged` (nothing was handed over), `ProviderInactive`, `EffectInFlight`, and those of
       * `Effects.plan` and `Effects.dispatch`, above all `IdentityConflict`, `EffectBlocked`, `Gated`, `GoalNotActive`, `LeaseLost`.
       */
      run: (spec: OperationSpec) =>
        whileActive(
          Effect.gen(function* () {
            if (typeof spec?.effect !== "string" || typeof spec.kind !== "string") {
              return yield* new InvalidInput({
                command: "run",
                message: "run: `effect` and `kind` of an operation are texts",
                remedy: "Give an operation as it is declared. Nothing was changed."
              })
            }
            const kind = provider.kinds.find(({ name }) => name === spec.kind)
            if (kind === undefined) {
              return yield* new UnknownOperation({
                message: `${provider.name} has no operations of kind ${spec.kind}.`,
                remedy: `Use one of ${provider.kinds.map(({ name }) => name).join(", ")}.`,
                provider: provider.name,
                kind: spec.kind,
                known: provider.kinds.map(({ name }) => name)
              })
            }
            return yield* alone(ids, spec.effect, carryOut(provider, kind, options, spec))
          })
        ),
      /** Asks what became of an effect. Errors: `EffectInFlight`, `EffectState` (nothing is open), `ProviderInactive`, `NotFound`. */
      readBack: (input: { readonly effect: string }) => whileActive(Effect.flatMap(Effects.get(input), readBack)),
      /**
       * Stops what runs under an effect: journaled, asked for, and then confirmed by the device itself, or unknown (`stop.state`).
       * Allowed on a paused goal, without a lease, and while the effect is being handed over. Kinds whose stop a person confirms
       * stay `requested` until `Effects.confirmStopped`. Errors: `EffectState`, `InvalidInput` (it cannot be stopped),
       * `ProviderInactive`, `NotFound`.
       */
      stop: (input: { readonly effect: string; readonly by: string; readonly reason: string }) =>
        whileActive(
          Effect.gen(function* () {
            const effect = yield* Effects.requestStop(input)
            crashPoint("effect.stopRequested")
            return effect.stop?.state === "confirmed" ? effect : yield* pursueStop(provider, options, effect)
          })
        ),
      /**
       * Lets go of the provider. Refused while an effect of it is unresolved in any goal of the store: only the provider can say
       * what became of it. Errors: `ProviderBusy`, which names them.
       */
      deactivate: Effect.gen(function* () {
        yield* whileActive(Effect.void)
        // Nothing new starts while this is found out.
        active = false
        const { items: open } = yield* Effects.unresolved({ provider: provider.name }).pipe(
          Effect.onError(() =>
            Effect.sync(() => {
              active = true
            })
          )
        )
        const effects = [...new Set([...own, ...open.map(({ id }) => id)])]
        if (effects.length > 0) {
          active = true
          return yield* new ProviderBusy({
            message: `${provider.name} stays active: what became of ${effects.join(", ")} is not known.`,
            remedy: "Read them back, or let a person who looked say so with Effects.resolve or Effects.confirmStopped.",
            provider: provider.name,
            effects
          })
        }
        yield* Scope.close(scope, Exit.void)
      })
    }
  })

/** An active provider. */
export type Operations = Effect.Success<ReturnType<typeof activate<never, never>>>
