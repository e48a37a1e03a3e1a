/**
 * Operations with a provider of plain async functions.
 * Promise: adds no rule; it is the session's own driver, run on the open store. Rules: G60 to G63; W14.
 */
import * as Effect from "effect/Effect"
import { OperationLost, type OperationProvider } from "../governance/index.ts"
import { activate } from "../session/Operations.ts"
import { type Calls, milliseconds } from "./Calls.ts"
import type { OperationCalls, OperationProvider as PlainProvider } from "./Effects.ts"
import { badArgument } from "./Failure.ts"

const asked = ["dispatch", "readBack", "interlocks", "requestStop", "confirmStopped"] as const

const adapted = (provider: PlainProvider): OperationProvider => {
  const ask = <A>(call: (signal: AbortSignal) => Promise<A>) =>
    Effect.tryPromise({
      try: call,
      catch: () =>
        new OperationLost({
          provider: provider.name,
          message: `${provider.name} gave no answer.`,
          remedy: "Nothing is known of the operation: read it back."
        })
    })
  return {
    name: provider.name,
    kinds: provider.kinds,
    dispatch: (call) => ask((signal) => provider.dispatch(call as Parameters<PlainProvider["dispatch"]>[0], signal)),
    readBack: (call) => ask((signal) => provider.readBack(call, signal)),
    interlocks: ask((signal) => provider.interlocks(signal)),
    requestStop: (call) => ask((signal) => provider.requestStop(call, signal)),
    confirmStopped: (call) => ask((signal) => provider.confirmStopped(call, signal))
  }
}

export const operationCalls = (calls: Calls): OperationCalls => ({
  activate: async (provider, given) => {
    const { signal, timeLimit, backoff, ...options } = given ?? {}
    const missing = asked.find((name) => typeof provider?.[name] !== "function")
    const unnamed = typeof provider?.name !== "string" || provider.name === "" ? "name" : undefined
    const kinds: readonly unknown[] | undefined = Array.isArray(provider?.kinds) ? provider.kinds : undefined
    if (missing !== undefined || unnamed !== undefined || kinds === undefined) {
      throw badArgument(
        "provider",
        `The provider has no \`${missing ?? unnamed ?? "kinds"}\`.`,
        "See OperationProvider."
      )
    }
    if (!kinds.every((kind) => typeof (kind as { readonly name?: unknown } | null)?.name === "string")) {
      throw badArgument("provider", "A kind of the provider has no `name`.", "See OperationKind.")
    }
    // A plain provider is there already: nothing is acquired, and nothing ends with the scope.
    const active = await calls.run(
      Effect.scoped(
        activate(Effect.succeed(adapted(provider)), {
          ...options,
          ...(timeLimit === undefined ? {} : { timeLimitMs: milliseconds("timeLimit", timeLimit) }),
          ...(backoff === undefined ? {} : { backoff: milliseconds("backoff", backoff) })
        })
      ),
      signal === undefined ? {} : { signal }
    )
    return {
      provider: active.provider,
      kinds: active.kinds,
      recovered: active.recovered,
      run: (spec, call) => calls.run(active.run(spec), call),
      readBack: (input, call) => calls.run(active.readBack(input), call),
      stop: (input, call) => calls.run(active.stop(input), call),
      deactivate: (call) => calls.run(active.deactivate, call)
    }
  }
})
