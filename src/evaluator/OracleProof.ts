/**
 * The proof of an oracle: its verdicts on patches whose worth is known beforehand.
 * Promise: an oracle is proven only when every expectation held; each one that did not is named. Rules: E16.
 */
import * as Effect from "effect/Effect"
import { judge, type OracleSpec, type Verdict } from "./Oracle.ts"

/** Patches whose verdict is known beforehand: at least two independently written fixes, and each known wrong route. */
export interface OracleKnown {
  readonly fixes: readonly { readonly name: string; readonly patch: Uint8Array }[]
  readonly wrong: readonly { readonly name: string; readonly patch: Uint8Array }[]
}

/** What an oracle showed about itself. `proven` is true only when every expectation held. */
export interface OracleProof {
  readonly proven: boolean
  readonly base: Verdict
  readonly fixes: readonly { readonly name: string; readonly verdict: Verdict }[]
  readonly wrong: readonly { readonly name: string; readonly verdict: Verdict }[]
  /** Each expectation that did not hold, in words. */
  readonly broken: readonly string[]
}

/**
 * Proves the oracle before it is believed (E16): red on the base, green on at least two independently written fixes, red on
 * each known wrong route. Verdicts run `concurrency` at a time.
 */
export const prove = (
  spec: OracleSpec,
  known: OracleKnown,
  options: { readonly concurrency?: number; readonly onVerdict?: (name: string, verdict: Verdict) => void } = {}
): Effect.Effect<OracleProof> =>
  Effect.gen(function* () {
    const inputs = [
      { name: "base", patch: null },
      ...known.fixes.map((fix) => ({ name: fix.name, patch: fix.patch })),
      ...known.wrong.map((route) => ({ name: route.name, patch: route.patch }))
    ]
    const verdicts = yield* Effect.forEach(
      inputs,
      (input) =>
        Effect.tap(judge(spec, { patch: input.patch, candidate: null }), (verdict) =>
          Effect.sync(() => options.onVerdict?.(input.name, verdict))
        ),
      { concurrency: options.concurrency ?? 2 }
    )
    const base = verdicts[0]!
    const fixes = known.fixes.map((fix, i) => ({ name: fix.name, verdict: verdicts[1 + i]! }))
    const wrong = known.wrong.map((route, i) => ({ name: route.name, verdict: verdicts[1 + fixes.length + i]! }))
    const red = (verdict: Verdict) => verdict.outcome === "failed" || verdict.outcome === "progress"
    const broken = [
      ...(fixes.length < 2 ? ["fewer than two independent fixes were given"] : []),
      ...(red(base) ? [] : [`the base is ${base.outcome}, not red`]),
      ...fixes.filter((f) => f.verdict.outcome !== "passed").map((f) => `the fix ${f.name} is ${f.verdict.outcome}`),
      ...wrong.filter((w) => !red(w.verdict)).map((w) => `the wrong route ${w.name} is ${w.verdict.outcome}`)
    ]
    return { proven: broken.length === 0, base, fixes, wrong, broken }
  })
