/**
 * Repair any repository (journey J2 with plain commands): each attempt is a command, the judge is a command, and nobody has to
 * know a protocol.
 * Promise: what `exploreRepair` promises, for a repository that was not made for it: it is taken as it stands, prepared by the
 * owner's own command, judged in clean checkouts by the owner's own command. Rules: J2, E16, W13, W16, W17.
 */
import { basename, resolve } from "node:path"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { sha256 } from "../base/Digest.ts"
import { realPathOf } from "../base/RealPath.ts"
import { didYouMean } from "../base/Nearest.ts"
import { CommandHosts, type CommandLine } from "../host/CommandHosts.ts"
import { publicOr } from "../governance/index.ts"
import type { Host } from "../host/Host.ts"
import { exploreRepair } from "./ExploreRepair.ts"
import { RepairOptionsError, type RepairOptions, type RepairProgress, type Route } from "./RepairPlan.ts"

export type { CommandLine } from "../host/CommandHosts.ts"

/** One attempt. Its command runs in a workspace of its own, in the root of the repository. */
export interface CommandAttempt {
  /** Short and stable; `a1`, `a2` … by their order unless given. */
  readonly id?: string
  /** In words; the command itself unless given. */
  readonly title?: string
  /** Told to the command as `COPPICE_INSTRUCTION`, and in the request on its stdin. */
  readonly instruction?: string
  /** Exit code 0 says that the work is done, any other that it failed. Or a host of your own: see `coppice/host`. */
  readonly command: CommandLine | Host
  /** The most that it may cost, in US dollars. A plain command costs what this says: 0 unless given. */
  readonly usd?: number
  readonly timeLimit?: Duration.Input
}

export interface RepairRepositoryOptions {
  /** The root of a git repository, in whatever state: only read. */
  readonly repository: string
  /** What makes a copy workable, for example `npm ci`. Runs once for all attempts, and in every clean checkout. */
  readonly prepare?: CommandLine
  readonly attempts: readonly (CommandAttempt | CommandLine)[]
  /** Runs in a clean checkout with the attempt's patch: exit code 0 accepts it. */
  readonly verify: CommandLine
  /**
   * Files that attempts never see and that lie over the checkout when it is judged, at the same paths: `tests/hidden_test.py`
   * in this directory becomes `tests/hidden_test.py` there. Without it an attempt may change what it is judged by.
   */
  readonly heldOut?: string
  /** Where the record goes: patch, verdicts, logs. Outside the repository; the same directory goes on with a run that was killed. */
  readonly record: string
  /** Names the run in the store. Default: `repair-` and a digest of the record's path, so that one store serves many records. */
  readonly run?: string
  readonly title?: string
  /** Default: what the attempts may cost together, and two turns for each. */
  readonly budget?: { readonly usd: number; readonly slots: number }
  /** Default 10 minutes an attempt; `verify`, and `prepare` in a checkout, get 30 minutes each. */
  readonly timeLimit?: Duration.Input
  readonly verifyTimeLimit?: Duration.Input
  readonly prepareTimeLimit?: Duration.Input
  /** How many attempts run at a time. Default: all. */
  readonly workers?: number
  /** Names of this process's variables that attempts, `prepare` and `verify` may see (an agent's API key, for example). */
  readonly passEnv?: readonly string[]
  /** Apply the accepted patch once more in a fresh clone and run both commands there. Default true. */
  readonly replay?: boolean
  readonly base?: string
  readonly hide?: readonly string[]
  readonly show?: readonly string[]
  readonly retryInterrupted?: boolean
  readonly onProgress?: (event: RepairProgress) => void
}

const known = new Set(
  (
    "repository prepare attempts verify heldOut record run title budget timeLimit verifyTimeLimit prepareTimeLimit workers " +
    "passEnv replay base hide show retryInterrupted onProgress"
  ).split(" ")
)

const argvOf = (line: CommandLine): readonly [string, ...string[]] =>
  typeof line === "string" ? ["sh", "-c", line] : line
const textOf = (line: CommandLine): string => (typeof line === "string" ? line : line.join(" "))
const isLine = (value: unknown): value is CommandLine =>
  (typeof value === "string" && value.trim() !== "") ||
  (Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string") && value[0] !== "")
const isHost = (value: unknown): value is Host =>
  typeof value === "object" && value !== null && "turn" in value && "descriptor" in value

const wrong = (option: string, message: string, remedy: string) =>
  Effect.fail(new RepairOptionsError({ option, message, remedy }))

/** The attempts, each with an id and a command that is one. */
const attemptsOf = ({ attempts }: RepairRepositoryOptions) =>
  Effect.gen(function* () {
    if (!Array.isArray(attempts) || attempts.length === 0) {
      return yield* wrong("attempts", "There is no attempt to run.", "Give at least one command that tries the work.")
    }
    const all: (CommandAttempt & { readonly id: string })[] = []
    for (const [index, given] of attempts.entries()) {
      const attempt: CommandAttempt = isLine(given) ? { command: given } : (given as CommandAttempt)
      if (!isLine(attempt?.command) && !isHost(attempt?.command)) {
        return yield* wrong(
          "attempts",
          `Attempt ${index + 1} has no command.`,
          'Give a line for the shell, or an argv such as ["node", "agent.js"].'
        )
      }
      const { id, title, instruction } = attempt
      if ([id, title, instruction].some((text) => text !== undefined && typeof text !== "string")) {
        return yield* wrong(
          "attempts",
          `Attempt ${index + 1} has an id, title or instruction that is no text.`,
          "Give texts."
        )
      }
      all.push({ ...attempt, id: id ?? `a${index + 1}` })
    }
    return all
  })

const passed = (names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]!]])))

/**
 * Runs, or goes on with, a repair of any repository. Gives the report of `exploreRepair`; `requireAccepted` turns one in which
 * nothing was accepted into `NothingAccepted`.
 *
 * Errors: those of `exploreRepair`. `RepairOptionsError` and `SourceUnusable` mean that nothing was started.
 *
 * ```ts
 * const report = yield* repairRepository({
 *   repository: ".",
 *   prepare: "npm ci",
 *   attempts: ["my-agent --fix", "sed -i 's/<=/</' src/limit.js"],
 *   verify: "npm test",
 *   record: "/var/tmp/repair-1"
 * })
 * ```
 */
export const repairRepository = (options: RepairRepositoryOptions) =>
  Effect.gen(function* () {
    const unknown = Object.keys(options).find((name) => !known.has(name))
    if (unknown !== undefined) {
      return yield* wrong(unknown, `There is no option called ${unknown}.`, didYouMean(unknown, known, "Use"))
    }
    const attempts = yield* attemptsOf(options)
    if (!isLine(options.verify)) {
      return yield* wrong(
        "verify",
        "There is no command to verify with.",
        "Give one that ends with 0 when all is well."
      )
    }
    const { prepare, verify, passEnv = [] } = options
    if (prepare !== undefined && !isLine(prepare)) {
      return yield* wrong("prepare", "The command to prepare with is empty.", "Give one, or leave it out.")
    }
    if (!Array.isArray(passEnv) || passEnv.some((name) => typeof name !== "string")) {
      return yield* wrong("passEnv", "The names of variables are no list of texts.", 'Give for example ["API_KEY"].')
    }
    for (const name of ["repository", "record"] as const) {
      if (typeof options[name] !== "string" || options[name] === "") {
        return yield* wrong(name, `The option ${name} is missing.`, "Give the path of a directory.")
      }
    }
    const hosts = yield* CommandHosts
    const env = passed(passEnv)
    const routes: Route[] = []
    for (const { id, command, title, instruction, usd = 0, timeLimit } of attempts) {
      const name = title ?? (isHost(command) ? id : textOf(command))
      const limit = timeLimit ?? options.timeLimit
      routes.push({
        id,
        // A command line may hold what must not stand in the journal (G6): then the attempt goes by its id.
        title: publicOr(name.replace(/\s+/g, " "), id).slice(0, 120),
        instruction: instruction ?? name,
        host: isHost(command) ? command : yield* hosts.make(command, { usd, env }),
        usd,
        ...(limit === undefined ? {} : { timeLimit: limit })
      })
    }
    const checkoutLimit = options.verifyTimeLimit ?? ("30 minutes" as const)
    const steps = prepare === undefined ? [] : [{ argv: argvOf(prepare), blame: "compare" as const }]
    const plan: RepairOptions = {
      run: options.run ?? `repair-${sha256(realPathOf(resolve(options.record))).slice(7, 19)}`,
      title: options.title ?? publicOr(`repair of ${basename(resolve(options.repository))}`, "repair").slice(0, 120),
      budget: options.budget ?? {
        usd: routes.reduce((sum, route) => sum + 2 * route.usd, 0),
        slots: 2 * routes.length
      },
      source: options.repository,
      routes,
      oracle: {
        name: "verify",
        judge: argvOf(verify),
        exitCodes: "plain",
        prepare: steps,
        passEnv,
        timeLimit: checkoutLimit,
        ...(options.heldOut === undefined ? {} : { heldOut: options.heldOut, layOver: true })
      },
      record: options.record,
      ...(prepare === undefined
        ? {}
        : { prepare: { argv: argvOf(prepare), passEnv, timeLimit: options.prepareTimeLimit ?? "30 minutes" } }),
      ...(options.replay === false
        ? {}
        : {
            replay: [
              ...steps.map((step) => ({ ...step, blame: "machine" as const })),
              { argv: argvOf(verify), blame: "candidate" as const }
            ]
          }),
      ...(options.base === undefined ? {} : { base: options.base }),
      ...(options.workers === undefined ? {} : { workers: options.workers }),
      ...(options.hide === undefined ? {} : { hide: options.hide }),
      ...(options.show === undefined ? {} : { show: options.show }),
      ...(options.retryInterrupted === undefined ? {} : { retryInterrupted: options.retryInterrupted }),
      ...(options.onProgress === undefined ? {} : { onProgress: options.onProgress })
    }
    return yield* exploreRepair(plan)
  })
