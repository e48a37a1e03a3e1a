/**
 * One call of the promise entry: an effect run to its end on the services of an open store.
 * Promise: ends with its value or throws a plain error; its own signal and the closing of what it belongs to both end it,
 * and closing waits for it. Rules: 01 "Errors"; W14.
 */
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as ManagedRuntime from "effect/ManagedRuntime"
import * as Option from "effect/Option"
import type { Assembly } from "../assembly/Assembly.ts"
import type { Authority } from "../governance/Authority.ts"
import type { CommandHosts } from "../host/CommandHosts.ts"
import type { Workspaces } from "../workspace/WorkspaceProvider.ts"
import { badArgument, closed, thrown } from "./Failure.ts"
import type { CallOptions, Duration as PlainDuration } from "./Plain.ts"

/** What the presets offer. */
export type Services = Authority | Assembly | CommandHosts | Workspaces

/** Runs calls until it is closed. */
export interface Calls {
  readonly run: <A, E>(effect: Effect.Effect<A, E, Services>, options?: CallOptions) => Promise<A>
  /** Ends the calls that run, and waits for them; later ones throw `Closed`. */
  readonly close: () => Promise<void>
}

/** Throws `BadArgument`. */
export const signalOf = (signal: unknown): AbortSignal => {
  if (signal instanceof AbortSignal) return signal
  throw badArgument("signal", "The signal is no AbortSignal.", "Give that of an AbortController, or leave it out.")
}

export const makeCalls = (what: string, runtime: ManagedRuntime.ManagedRuntime<Services, unknown>): Calls => {
  const stop = new AbortController()
  const running = new Set<Promise<unknown>>()
  const run = async <A, E>(effect: Effect.Effect<A, E, Services>, options?: CallOptions | null): Promise<A> => {
    const signal = options?.signal
    if (stop.signal.aborted) throw closed(what)
    if (signal !== undefined) signalOf(signal)
    const ends = signal === undefined ? stop.signal : AbortSignal.any([stop.signal, signal])
    const exit = await runtime.runPromiseExit(effect, { signal: ends })
    if (Exit.isSuccess(exit)) return exit.value
    throw thrown(exit.cause, signal?.aborted === true ? signal.reason : undefined)
  }
  return {
    run: (effect, options) => {
      const call = run(effect, options)
      running.add(call)
      void Promise.allSettled([call]).then(() => running.delete(call))
      return call
    },
    close: async () => {
      stop.abort()
      while (running.size > 0) await Promise.allSettled(running)
    }
  }
}

/** Milliseconds of a duration as people write it. Throws `BadArgument`. */
export const milliseconds = (argument: string, duration: PlainDuration): number => {
  // Effect would take more kinds than the declarations name.
  const isTold = typeof duration === "number" || typeof duration === "string"
  const parsed = isTold ? Duration.fromInput(duration) : Option.none()
  const ms = Option.isSome(parsed) ? Duration.toMillis(parsed.value) : Number.NaN
  if (Number.isFinite(ms) && ms >= 0) return ms
  throw badArgument(
    argument,
    `The ${argument} is no duration.`,
    'For example "2 minutes", or a number of milliseconds.'
  )
}

/** The same options with the named durations in milliseconds. */
export const inMilliseconds = <Options extends object, Name extends keyof Options & string>(
  options: Options,
  names: readonly Name[]
): Omit<Options, Name> & { readonly [N in Name]?: number } => {
  const times = names.flatMap((name) => {
    const duration = options[name] as PlainDuration | undefined
    return duration === undefined ? [] : [[name, milliseconds(name, duration)]]
  })
  const { ...rest } = options
  for (const name of names) delete rest[name]
  return { ...rest, ...Object.fromEntries(times) }
}
