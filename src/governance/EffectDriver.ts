/**
 * Which process hands an effect over, and whether it may still be at it.
 * Promise: what one process notes of an effect never overtakes another that is still handing it over; a process that cannot be
 * shown dead is unknown, never dead. Rules: G61; G81 does the same for turns.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Json } from "../base/Digest.ts"
import type { ProcessIdentity } from "../base/Spawn.ts"
import { type CoppiceError } from "../base/CoppiceError.ts"
import { Authority, type Keyed, writeObserved } from "./Authority.ts"
import { EffectInFlight } from "./EffectError.ts"
import { type EffectRecord, effectTable } from "./EffectRecord.ts"
import { sameProcess, thisProcess } from "./TurnFence.ts"

/** Observed beside a command: who asks, and whether the process that handed the effect over last still runs. */
interface Observed {
  readonly process: ProcessIdentity
  readonly driver: ProcessIdentity | null
  readonly alive: boolean | "unknown"
}

/** A write about one effect, with what this process sees of the one that handed it over. */
export const observing =
  <Input extends { readonly effect: string }, Reply extends object, E extends CoppiceError>(type: string) =>
  (input: Input & Keyed) =>
    Effect.gen(function* () {
      const authority = yield* Authority
      // An input that is none is told by the write, which names the call.
      const id = typeof input === "object" && input !== null && typeof input.effect === "string" ? input.effect : ""
      const { value: effect } = yield* authority.read(() => effectTable.first("id = ?", id))
      const process = thisProcess()
      const driver = effect?.driver ?? null
      const sight = yield* authority.look([driver])
      const observed: Observed = { process, driver, alive: driver !== null && sight(driver) }
      return yield* writeObserved<Input, Reply, E>("work", type, input, observed as unknown as Json)
    })

export const observerOf = (observed: Json | undefined): ProcessIdentity | null =>
  (observed as unknown as Observed | undefined)?.process ?? null

/** Whether the process that handed the effect over may still be at it; `mine` when it is the one that asks. */
export const driverOf = (effect: EffectRecord, observed: Json | undefined): boolean | "unknown" | "mine" => {
  const seen = observed as unknown as Observed | undefined
  if (effect.driver === null) return false
  if (seen === undefined) return "unknown"
  if (sameProcess(effect.driver, seen.process)) return "mine"
  // What was seen of an earlier driver says nothing of this one.
  return seen.driver !== null && sameProcess(seen.driver, effect.driver) ? seen.alive : "unknown"
}

export const effectInFlight = (effect: EffectRecord, alive: boolean | "unknown"): EffectInFlight =>
  new EffectInFlight({
    message:
      alive === "unknown"
        ? `Effect ${effect.id} was handed over by a process that cannot be seen from here.`
        : `Effect ${effect.id} is being handed over by another call.`,
    remedy:
      alive === "unknown"
        ? "Read it back where that process runs, or let a person who looked say what became of it with Effects.resolve."
        : "Wait until that call has ended, then read the effect again.",
    effect: effect.id,
    alive
  })

/** Passes when nobody but the caller's own process can be handing the effect over. */
export const nobodyElse = (
  effect: EffectRecord,
  observed: Json | undefined
): Result.Result<undefined, EffectInFlight> => {
  const alive = driverOf(effect, observed)
  return effect.state === "dispatched" && alive !== "mine" && alive !== false
    ? Result.fail(effectInFlight(effect, alive))
    : Result.succeed(undefined)
}
