/**
 * The calls of the worker as Effects.
 * Promise: a typed error stays the call's error, anything else is a defect; a cancelled call ends in the worker too.
 * Rules: 01 "Errors"; W14. A class, because types that are generic over every call are
 * too large for the compiler to compare.
 */
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import type { CallOptions, LayerStore } from "./LayerStore.ts"
import type { Calls, FailureOf } from "./StoreCalls.ts"

/** A typed error stays an error; anything else is a bug and ends the fiber. */
export const orDie = <E>(error: unknown): Effect.Effect<never, E> =>
  isCoppiceError(error) ? Effect.fail(error as E) : Effect.die(error)

export class StoreCaller {
  readonly #store: LayerStore

  constructor(store: LayerStore) {
    this.#store = store
  }

  /** One call of the worker. */
  readonly call = <K extends keyof Calls>(
    name: K,
    input: Parameters<Calls[K]>[0],
    callOptions: CallOptions = {}
  ): Effect.Effect<Awaited<ReturnType<Calls[K]>>, FailureOf<K>> =>
    Effect.callback((resume) => {
      void this.#store.call(name, input, callOptions).then(
        (value) => resume(Effect.succeed(value)),
        (error) => resume(orDie(error))
      )
    })

  /** One call that looks whether it is still wanted. Interruption cancels it, and waits until nothing of it is left. */
  readonly cancellable = <K extends keyof Calls>(
    name: K,
    input: Parameters<Calls[K]>[0],
    callOptions: CallOptions = {}
  ): Effect.Effect<Awaited<ReturnType<Calls[K]>>, FailureOf<K>> =>
    Effect.callback((resume) => {
      const controller = new AbortController()
      const done = this.#store.call(name, input, { ...callOptions, signal: controller.signal }).then(
        (value) => resume(Effect.succeed(value)),
        (error) => resume(orDie(error))
      )
      return Effect.promise(() => {
        controller.abort()
        return done
      })
    })
}
