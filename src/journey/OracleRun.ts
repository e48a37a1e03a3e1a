/**
 * The oracle of one run: made from the run's options, and shown to be worth something before its word counts.
 * Promise: with known patches it is proven (E16); without them the base is judged all the same, and an oracle that cannot
 * judge even that ends the run instead of refusing every attempt. Rules: E16, G71, J2.
 */
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { digestJson, sha256 } from "../base/Digest.ts"
import { directoryDigest } from "../evaluator/HeldOut.ts"
import { judge, type OracleSpec, type Verdict } from "../evaluator/Oracle.ts"
import { type OracleKnown, prove } from "../evaluator/OracleProof.ts"
import { networkVariables, plainDirectory } from "../host/PlainDirectory.ts"
import type { CheckoutOptions } from "../workspace/CleanCheckout.ts"
import { stateDigest } from "../workspace/SourceState.ts"
import { limitOf, type Scene } from "./Attempt.ts"
import { OracleNotProven, type RepairOptions } from "./RepairPlan.ts"
import type { RunRecord } from "./RunRecord.ts"

/** The oracle of this run: judged in clean checkouts of where the source stood, below the record. */
export const oracleOf = (
  options: RepairOptions,
  base: string,
  standing: NonNullable<CheckoutOptions["standing"]>
): OracleSpec => {
  const { judge, heldOut, layOver, exitCodes, canary, dependencies, name, prepare, passEnv, timeLimit } = options.oracle
  return {
    name: name ?? "oracle",
    repository: options.source,
    base,
    standing,
    prepare: prepare ?? [],
    judge,
    heldOut: heldOut ?? null,
    timeLimitMs: limitOf(timeLimit),
    scratch: join(options.record, "scratch"),
    environment: (directory) => plainDirectory(directory, { passEnv: [...networkVariables, ...(passEnv ?? [])] }),
    ...(layOver === undefined ? {} : { layOver }),
    ...(exitCodes === undefined ? {} : { exitCodes }),
    ...(canary === undefined ? {} : { canary }),
    ...(dependencies === undefined ? {} : { dependencies })
  }
}

const proofFile = "verdicts/oracle-proof.json"

/** What a proof is a proof of: this judge with these files, where the source stood, against these patches. */
const proofKey = (spec: OracleSpec, known: OracleKnown) =>
  Effect.map(
    Effect.promise(async () => (spec.heldOut === null ? null : directoryDigest(spec.heldOut))),
    (heldOut) => {
      const digests = (patches: OracleKnown["fixes"]) => patches.map(({ name, patch }) => [name, sha256(patch)])
      return digestJson({
        heldOut,
        base: spec.base,
        standing: spec.standing === undefined ? null : stateDigest(spec.standing.state),
        judge: spec.judge,
        prepare: spec.prepare.map((step) => step.argv),
        fixes: digests(known.fixes),
        wrong: digests(known.wrong)
      })
    }
  )

/** What was shown of an oracle. Without known patches only the base was judged. */
export interface Shown {
  readonly spec: OracleSpec
  readonly base: Verdict
}

interface Recorded {
  readonly key?: string
  readonly proven?: boolean
  readonly base?: Verdict
}

const red = (verdict: Verdict): boolean => verdict.outcome === "failed" || verdict.outcome === "progress"

const showWith = (spec: OracleSpec, known: OracleKnown | undefined, say: Scene["say"], keep: (log: string) => void) => {
  const onVerdict = (name: string, verdict: Verdict) =>
    say(null, "oracle", `${name}: ${verdict.outcome}${red(verdict) ? "" : `. ${verdict.reason}`}`)
  if (known !== undefined) return prove(spec, known, { concurrency: 2, onVerdict })
  const onOutput = (command: string, output: string) => keep(`$ ${command}\n${output}\n`)
  return Effect.map(judge(spec, { patch: null, candidate: null, onOutput }), (base) => {
    onVerdict("the base", base)
    const judgeable = base.outcome === "passed" || red(base)
    return {
      proven: judgeable,
      base,
      broken: judgeable ? [] : [`the base is ${base.outcome}: ${base.reason.replace(/\.$/, "")}`]
    }
  })
}

/**
 * Proves the oracle in the background, or judges the base where nothing is known to prove it with; whoever judges waits for it.
 * A rerun uses what the record holds if it is of the same things.
 */
export const proveOracle = (options: RepairOptions, spec: OracleSpec, record: RunRecord, say: Scene["say"]) =>
  Effect.gen(function* () {
    const known = options.oracle.proof
    const key = yield* proofKey(spec, known ?? { fixes: [], wrong: [] })
    const earlier = yield* record.read(proofFile)
    const found = earlier === null ? null : (JSON.parse(earlier.toString("utf8")) as Recorded)
    if (found?.key === key && found.proven === true && found.base !== undefined) {
      return { spec, base: found.base } satisfies Shown
    }
    const printed: string[] = []
    const proof = yield* showWith(spec, known, say, (log) => printed.push(log))
    if (printed.length > 0) yield* record.write("verdicts/base.log", printed.join(""))
    yield* record.write(proofFile, `${JSON.stringify({ key, ...proof }, null, 2)}\n`)
    if (proof.proven) return { spec, base: proof.base } satisfies Shown
    return yield* new OracleNotProven({
      broken: proof.broken,
      message: `The oracle ${spec.name} is not proven: ${proof.broken.join("; ")}.`,
      remedy:
        known === undefined
          ? "Make the commands of the judge run on the source as it is; verdicts/base.log in the record has what they printed."
          : "Correct the oracle or the known patches; its word would prove nothing."
    })
  })
