/** How a call about a lease ended: `ok`, or its code with why the lease is lost. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Authority } from "../../src/governance/index.ts"
import type { Bench } from "./authority.ts"

export const leaseCode = async (bench: Bench, effect: Effect.Effect<unknown, any, Authority>) => {
  const result = await bench.run(Effect.result(effect))
  return Result.isFailure(result)
    ? `${result.failure.code}${result.failure.why === undefined ? "" : `:${result.failure.why}`}`
    : "ok"
}
