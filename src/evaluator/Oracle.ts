/**
 * The oracle: a separate process that judges a patch on a clean checkout with clean dependencies and held-out tests.
 * Promise: it judges the exact patch and nothing of the workspace it came from; its own files are hashed before and after,
 * and a change voids the verdict; a timeout is inconclusive, never failed; it is itself proven (red on the base, green on
 * independent fixes, red on each known wrong route) before its word counts. Rules: E16, G71, C115.
 */
import { lstat, mkdir, readFile, readlink, rm, writeFile } from "node:fs/promises"
import { basename, isAbsolute } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { git } from "../base/Command.ts"
import { type Digest, digestJson, sha256 } from "../base/Digest.ts"
import { newId } from "../base/Id.ts"
import { publicOr } from "../governance/PublicText.ts"
import type { TurnEnvironment } from "../host/TurnEnvironment.ts"
import { applyPatch, CheckoutFailed, type CheckoutOptions, cleanCheckout } from "../workspace/CleanCheckout.ts"
import {
  type DependencySpec,
  dependencyKey,
  type Provision,
  provideDependencies,
  removeDependencies
} from "./CleanDependencies.ts"
import { directoryDigest, layOver } from "./HeldOut.ts"
import { type JudgeRun, runJudge } from "./JudgeProcess.ts"

/** G71. `progress`: better than the base, and not enough. */
export const VerdictOutcome = Schema.Literals(["passed", "progress", "failed", "inconclusive", "unavailable"])
export type VerdictOutcome = typeof VerdictOutcome.Type

export const Verdict = Schema.Struct({
  id: Schema.String,
  oracle: Schema.String,
  outcome: VerdictOutcome,
  /** One public-safe sentence: why. */
  reason: Schema.String,
  /** Named checks as the judge printed them; empty when it printed none. */
  checks: Schema.Array(Schema.Struct({ name: Schema.String, passed: Schema.Boolean })),
  base: Schema.String,
  /** How the checkout got its dependencies; null when the spec declares none. */
  dependencies: Schema.NullOr(Schema.Literals(["installed", "copied", "failed"])),
  /** Null when the base itself was judged. */
  patch: Schema.NullOr(Schema.String),
  candidate: Schema.NullOr(Schema.String),
  validator: Schema.Struct({ before: Schema.String, after: Schema.String }),
  exitCode: Schema.NullOr(Schema.Number),
  wallMs: Schema.Number,
  at: Schema.Number
})
export type Verdict = typeof Verdict.Type

/** The digest of a verdict: what the settlement names as evidence. */
export const verdictDigest = (verdict: Verdict): Digest => digestJson({ ...verdict })

/** A step that makes a clean checkout judgeable, run inside it before the judge. */
export interface PrepareStep {
  readonly argv: readonly [string, ...string[]]
  /**
   * What it means when the step fails: the machine's fault (`unavailable`), or the candidate's (`failed`). `compare` finds out:
   * the steps run on the base too, and whoever fails there as well is not to blame.
   */
  readonly blame: "machine" | "candidate" | "compare"
}

export interface OracleSpec {
  readonly name: string
  /** The repository that is cloned, and the commit that every candidate is a patch against. */
  readonly repository: string
  readonly base: string
  /** Where the source stood beside that commit: uncommitted work, submodules, nested repositories. */
  readonly standing?: NonNullable<CheckoutOptions["standing"]>
  /** How a clean checkout gets its dependencies; without it, `prepare` does all of it each time. */
  readonly dependencies?: DependencySpec
  readonly prepare: readonly PrepareStep[]
  /** Runs in the checkout. A last line of JSON may name `checks`. */
  readonly judge: readonly [string, ...string[]]
  /**
   * What its exit code says. `verdict` (default): 0 passed, 1 failed, 2 progress, anything else inconclusive. `plain`, for a
   * command that knows nothing of us: 0 passed, 126 and 127 (not to be run, not found) unavailable, any other failed.
   */
  readonly exitCodes?: "verdict" | "plain"
  /**
   * The directory of the judge's own files. Solvers must not be able to read it. Null when there are none: then the verdict
   * rests on files that a candidate may have changed.
   */
  readonly heldOut: string | null
  /** Lay those files over each checkout, after the patch, before `prepare` and again before the judge. */
  readonly layOver?: boolean
  /** A text that stands in the held-out files only; a patch that carries it proves that they were read (C115). */
  readonly canary?: string
  /** Milliseconds for each command. */
  readonly timeLimitMs: number
  /** Where clean checkouts are made; each is removed after its verdict. */
  readonly scratch: string
  /** How commands are started in a directory (`plainDirectory` of the host room). */
  readonly environment: (directory: string) => TurnEnvironment
}

export interface JudgeInput {
  /** Null judges the base itself. */
  readonly patch: Uint8Array | null
  readonly candidate: string | null
  /** Gets the end of what each command of the judge printed. Private: it may name held-out tests. */
  readonly onOutput?: (command: string, output: string) => void
}

const Printed = Schema.Struct({
  checks: Schema.Array(Schema.Struct({ name: Schema.String, passed: Schema.Boolean }))
})

/** The checks in the last line of stdout, when it is JSON of the right shape. */
const printedChecks = (stdout: string): Verdict["checks"] => {
  const last = stdout.trimEnd().split("\n").at(-1) ?? ""
  try {
    return Schema.decodeUnknownSync(Printed)(JSON.parse(last)).checks.slice(0, 100)
  } catch {
    return []
  }
}

interface Judged {
  readonly outcome: VerdictOutcome
  readonly reason: string
  readonly checks: Verdict["checks"]
  readonly exitCode: number | null
  readonly dependencies: Provision | null
}

const judged = (outcome: VerdictOutcome, reason: string, exitCode: number | null = null): Judged => ({
  outcome,
  reason,
  checks: [],
  exitCode,
  dependencies: null
})

const leak = judged("failed", "The patch carries the canary of the held-out tests: they were read.")

/** Whether a file that the patch left in the checkout carries the canary; in a patch a binary file is compressed. */
const carriesCanary = (checkout: string, canary: string) =>
  Effect.gen(function* () {
    const options = ["--porcelain", "-z", "--untracked-files=all", "--ignored=traditional", "--no-renames"]
    const listed = yield* git(["status", ...options], { cwd: checkout })
    if (listed.code !== 0) {
      return yield* new CheckoutFailed({
        commit: null,
        message: `What the patch left in the checkout could not be listed: ${listed.stderr.split("\n")[0]}.`,
        remedy: "Judge again; whether the held-out tests were read was not found out."
      })
    }
    const paths = listed.stdout.toString("latin1").split("\0").slice(0, -1)
    for (const line of paths) {
      const path = Buffer.concat([Buffer.from(`${checkout}/`), Buffer.from(line.slice(3), "latin1")])
      const bytes = yield* Effect.promise(() => contentOf(path))
      if (bytes.includes(canary)) return true
    }
    return false
  })

/** What a name holds: a file's bytes, a link's target, nothing where it is gone. */
const contentOf = async (path: Buffer): Promise<Buffer> => {
  const stat = await lstat(path).catch(() => null)
  if (stat?.isSymbolicLink() === true) return readlink(path, "buffer")
  return stat?.isFile() === true ? readFile(path) : Buffer.alloc(0)
}

/** The judge's own files in the checkout, whatever is there. */
export const layHeldOut = (spec: OracleSpec, checkout: string) =>
  spec.heldOut === null || spec.layOver !== true
    ? Effect.void
    : Effect.tryPromise({
        try: () => layOver(spec.heldOut!, checkout),
        catch: () => ({
          message: "The judge's own files could not be laid over the checkout.",
          remedy: "Check that they can be read and that the disk has room."
        })
      })

/** A command as people name it: a line of shell by itself, a program without its directory. */
const shortName = (argv: readonly string[]): string =>
  (argv[0] === "sh" && argv[1] === "-c" ? argv.slice(2) : argv.slice(0, 3))
    .map((word) => (isAbsolute(word) ? basename(word) : word))
    .join(" ")
    .slice(0, 120)

/** Whether the steps that failed with a patch work without one. */
const worksOnBase = (spec: OracleSpec, steps: readonly PrepareStep[]) =>
  Effect.scoped(
    Effect.gen(function* () {
      const checkout = yield* cleanCheckout({ ...checkoutOf(spec), parent: spec.scratch, purpose: "verify" })
      yield* layHeldOut(spec, checkout)
      for (const step of steps) {
        const run = yield* runJudge(spec.environment(checkout), step.argv, { timeLimitMs: spec.timeLimitMs })
        if (run.exitCode !== 0) return false
      }
      return true
    })
  )

/** The checkout that a spec judges in. */
export const checkoutOf = ({ repository, base, standing }: OracleSpec) => ({
  repository,
  commit: base,
  ...(standing === undefined ? {} : { standing })
})

const outcomeOf = (spec: OracleSpec, run: JudgeRun): VerdictOutcome => {
  if (spec.exitCodes === "plain") {
    if (run.exitCode === 0) return "passed"
    if (run.exitCode === null) return "inconclusive"
    return run.exitCode === 126 || run.exitCode === 127 ? "unavailable" : "failed"
  }
  return run.exitCode === 0
    ? "passed"
    : run.exitCode === 1
      ? "failed"
      : run.exitCode === 2
        ? "progress"
        : "inconclusive"
}

const prepareAndJudge = (spec: OracleSpec, input: JudgeInput) =>
  Effect.scoped(
    Effect.gen(function* () {
      const checkout = yield* cleanCheckout({ ...checkoutOf(spec), parent: spec.scratch, purpose: "verify" })
      const environment = spec.environment(checkout)
      const watched = (argv: readonly [string, ...string[]]) =>
        Effect.tap(runJudge(environment, argv, { timeLimitMs: spec.timeLimitMs }), (run) =>
          Effect.sync(() => input.onOutput?.(argv.join(" "), run.output))
        )
      const { dependencies } = spec
      const install =
        dependencies === undefined
          ? Effect.succeed(true)
          : Effect.map(watched(dependencies.install), (run) => run.exitCode === 0)
      // Before the patch is there: what a template holds comes from the base alone.
      const before = dependencies === undefined ? "" : yield* dependencyKey(dependencies, checkout)
      let provision: Provision | null =
        dependencies === undefined ? null : yield* provideDependencies(dependencies, checkout, spec.scratch, install)
      if (input.patch !== null) {
        const file = `${checkout}.patch`
        yield* Effect.acquireRelease(
          Effect.promise(() => writeFile(file, input.patch!)),
          () => Effect.promise(() => rm(file, { force: true }))
        )
        const applied = yield* Effect.result(applyPatch(checkout, file))
        if (applied._tag === "Failure") {
          return applied.failure._tag === "PatchRefused"
            ? judged("failed", `The patch does not apply to a clean checkout: ${applied.failure.detail}`)
            : yield* applied.failure
        }
        if (spec.canary !== undefined && (yield* carriesCanary(checkout, spec.canary))) return leak
      }
      if (dependencies !== undefined && (yield* dependencyKey(dependencies, checkout)) !== before) {
        // The candidate changed what is to be installed: it gets an install of its own, and lends it to nobody.
        yield* removeDependencies(dependencies, checkout)
        provision = (yield* install) ? "installed" : "failed"
      }
      if (provision === "failed") {
        return {
          ...judged("unavailable", "The dependencies of the checkout could not be installed on this machine."),
          dependencies: provision
        }
      }
      yield* layHeldOut(spec, checkout)
      for (const [index, step] of spec.prepare.entries()) {
        const run = yield* watched(step.argv)
        const name = shortName(step.argv)
        if (run.timedOut) return judged("inconclusive", `Preparing the checkout (${name}) ran out of time.`)
        if (run.exitCode !== 0) {
          const candidate =
            step.blame === "candidate" ||
            (step.blame === "compare" &&
              input.patch !== null &&
              (yield* worksOnBase(spec, spec.prepare.slice(0, index + 1))))
          return candidate
            ? judged("failed", `${name} fails with this patch.`, run.exitCode)
            : judged("unavailable", `Preparing the checkout (${name}) failed on this machine.`, run.exitCode)
        }
      }
      yield* layHeldOut(spec, checkout)
      const run = yield* watched(spec.judge)
      if (run.timedOut) return judged("inconclusive", "The judge ran out of time.")
      const checks = printedChecks(run.stdout)
      const failing = checks.filter((check) => !check.passed).map((check) => check.name)
      const because = failing.length === 0 ? "" : `: ${failing.slice(0, 3).join(", ")}`
      const outcome = outcomeOf(spec, run)
      const reason = {
        passed: "Every check passed.",
        failed:
          spec.exitCodes === "plain"
            ? `${shortName(spec.judge)} ended with ${run.exitCode}${because}`
            : `Checks failed${because}`,
        progress: `Better than the base, and not enough${because}`,
        inconclusive: "The judge ended without a verdict.",
        unavailable: "The judge's command cannot be run on this machine."
      }[outcome]
      return {
        outcome,
        reason: reason.slice(0, 500),
        checks,
        exitCode: run.exitCode,
        dependencies: provision
      } satisfies Judged
    })
  )

/** Stands for the judge's files where they cannot be read: not the digest of any directory. */
const unreadable = sha256("the judge's own files cannot be read")

/** Without files of its own, the judge is what its command says. */
const heldOutDigest = (spec: OracleSpec) =>
  spec.heldOut === null
    ? Effect.succeed(digestJson({ judge: spec.judge }))
    : Effect.promise(() => directoryDigest(spec.heldOut!).catch((): Digest => unreadable))

const makeScratch = (path: string) =>
  Effect.tryPromise({
    try: () => mkdir(path, { recursive: true, mode: 0o700 }),
    catch: () => ({
      message: "The directory for clean checkouts cannot be made.",
      remedy: "Pass a `scratch` that this process may write to."
    })
  })

/**
 * Judges a patch against the spec's base and gives a verdict with an id of its own. Never fails: what keeps the judge from
 * working is itself a verdict (`unavailable`), and the reason says what to do.
 */
export const judge = (spec: OracleSpec, input: JudgeInput): Effect.Effect<Verdict> =>
  Effect.gen(function* () {
    const at = yield* Clock.currentTimeMillis
    const start = yield* Clock.currentTimeNanos
    const before = yield* heldOutDigest(spec)
    const leaked = spec.canary !== undefined && input.patch !== null && Buffer.from(input.patch).includes(spec.canary)
    const found = leaked
      ? leak
      : before === unreadable
        ? judged("unavailable", "The judge's own files cannot be read. Restore the directory that `heldOut` names.")
        : yield* Effect.andThen(makeScratch(spec.scratch), prepareAndJudge(spec, input)).pipe(
            Effect.catch((error) => Effect.succeed(judged("unavailable", `${error.message} ${error.remedy}`)))
          )
    const after = yield* heldOutDigest(spec)
    const voided = before !== after
    const end = yield* Clock.currentTimeNanos
    return {
      id: newId("verdict"),
      oracle: spec.name,
      ...found,
      // A check, a tool or a command may name what is private; a reason reaches public records (G6).
      reason: publicOr(found.reason, `The verdict is ${found.outcome}.`),
      ...(voided
        ? {
            outcome: "inconclusive" as const,
            reason: "The judge's own files changed while it ran: the verdict is void."
          }
        : {}),
      base: spec.base,
      patch: input.patch === null ? null : sha256(input.patch),
      candidate: input.candidate,
      validator: { before, after },
      wallMs: Number(end - start) / 1e6,
      at
    }
  })
