/**
 * What is checked before a repair runs: its options, and that the record is this run's.
 * Promise: a wrong option is a typed refusal that names it, before anything is started or written. Rules: principle 4, G2, W13.
 */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { isAbsolute, join, resolve } from "node:path"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { type Digest, digestJson } from "../base/Digest.ts"
import { liesInside } from "../base/RealPath.ts"
import { Goals } from "../governance/index.ts"
import { ImportRefused } from "../workspace/WorkspaceError.ts"
import { RepairOptionsError, type RepairOptions } from "./RepairPlan.ts"
import { privateDirectories, recordFiles, type RunRecord } from "./RunRecord.ts"

export const wrong = (option: string, message: string, remedy: string) =>
  Effect.fail(new RepairOptionsError({ option, message, remedy }))

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== ""
const areTexts = (value: unknown): boolean => value === undefined || (Array.isArray(value) && value.every(isText))
const isLimit = (value: unknown): boolean => {
  if (value === undefined) return true
  const limit = Duration.fromInput(value as Duration.Input)
  return Option.isSome(limit) && Duration.toMillis(limit.value) > 0
}

/** Undefined where it is no directory that can be listed. */
const namesIn = (directory: string): readonly string[] | undefined => {
  try {
    return readdirSync(directory)
  } catch {
    return undefined
  }
}

/** What TypeScript would have refused: the first option whose value is of another kind, in words. */
const wrongKind = (given: RepairOptions): readonly [option: string, wanted: string] | undefined => {
  const { oracle, budget, prepare } = given
  for (const option of ["source", "record", "run", "title"] as const)
    if (!isText(given[option])) return [option, "a text"]
  for (const option of ["hide", "show"] as const) {
    const paths = given[option]
    if (!areTexts(paths) || paths?.some((path) => !isAbsolute(path)) === true) return [option, "absolute paths"]
  }
  if (oracle.heldOut !== undefined && !isText(oracle.heldOut)) return ["oracle.heldOut", "the path of a directory"]
  if (!areTexts(oracle.passEnv) || !areTexts(prepare?.passEnv)) return ["passEnv", "a list of names"]
  if (!(budget?.usd >= 0) || !(budget.slots >= 0)) return ["budget", "two numbers of at least 0, `usd` and `slots`"]
  if (!isLimit(oracle.timeLimit)) return ["oracle.timeLimit", 'a duration such as "5 minutes"']
  if (!isLimit(prepare?.timeLimit)) return ["prepare.timeLimit", 'a duration such as "5 minutes"']
  for (const route of given.routes) {
    if (!isText(route.title) || !isText(route.instruction))
      return ["routes", "a title and an instruction for each route"]
    if (!(route.usd >= 0)) return ["routes", "a `usd` of at least 0 for each route"]
  }
  return undefined
}

/** Paths as absolute ones, and everything checked that can be checked before anything runs or is written (principle 4). */
export const checked = (given: RepairOptions) => {
  const kind = wrongKind(given)
  if (kind !== undefined) return wrong(kind[0], `The option ${kind[0]} has no usable value.`, `Give ${kind[1]}.`)
  const source = resolve(given.source)
  const record = resolve(given.record)
  const heldOut = given.oracle.heldOut === undefined ? undefined : resolve(given.oracle.heldOut)
  if (liesInside(record, source)) {
    return Effect.fail(
      new ImportRefused({
        reason: "storeInside",
        path: given.record,
        message: "The record would lie inside the source that is imported.",
        remedy: "Give a `record` outside the source's directory."
      })
    )
  }
  if (heldOut !== undefined && !(existsSync(heldOut) && statSync(heldOut).isDirectory())) {
    return wrong(
      "oracle.heldOut",
      "The held-out directory does not exist.",
      "Give the directory of the judge's own files."
    )
  }
  const held = heldOut === undefined ? undefined : namesIn(heldOut)
  if (heldOut !== undefined && (held === undefined || held.length === 0)) {
    return wrong(
      "oracle.heldOut",
      held === undefined
        ? "The held-out directory cannot be read."
        : "The held-out directory is empty: nothing would be judged that an attempt cannot see.",
      "Give a readable directory with the judge's own files, or leave the option out."
    )
  }
  if (heldOut !== undefined && liesInside(heldOut, source)) {
    return wrong(
      "oracle.heldOut",
      "The held-out files lie inside the source: every attempt would have them in its own tree.",
      "Keep them outside the repository that is repaired."
    )
  }
  if (given.routes.length === 0) return wrong("routes", "There is no route to try.", "Give at least one.")
  const routes = [...given.routes, ...(given.receiver === undefined ? [] : [given.receiver])]
  const ids = new Set<string>()
  for (const route of routes) {
    if (!/^[A-Za-z0-9_.-]{1,40}$/.test(route.id) || ids.has(route.id)) {
      return wrong(
        "routes",
        `The route id "${route.id}" is used twice or is no short plain name.`,
        "Letters, digits, . _ - only, each id once."
      )
    }
    ids.add(route.id)
    if (!isLimit(route.timeLimit)) {
      return wrong("timeLimit", `The time limit of route ${route.id} is no duration.`, 'For example "5 minutes".')
    }
    if (!(route.usd <= given.budget.usd)) {
      return wrong(
        "budget",
        `Route ${route.id} may cost more than the whole budget.`,
        "Raise `budget.usd`, or lower the route's `usd`."
      )
    }
  }
  const { workers } = given
  if (workers !== undefined && !(Number.isSafeInteger(workers) && workers >= 1)) {
    return wrong(
      "workers",
      "The number of workers is not a whole number of at least 1.",
      "Leave it out for all at once."
    )
  }
  if (given.oracle.judge.length === 0 || given.oracle.judge[0].trim() === "") {
    return wrong("oracle.judge", "There is no command to judge with.", 'Give one, for example ["npm", "test"].')
  }
  if (given.oracle.layOver === true && heldOut === undefined) {
    return wrong(
      "oracle.layOver",
      "There are no held-out files to lay over.",
      "Give `heldOut`, or leave `layOver` out."
    )
  }
  const oracle = { ...given.oracle, ...(heldOut === undefined ? {} : { heldOut }) }
  return Effect.succeed({ ...given, source, record, oracle } satisfies RepairOptions)
}

/** What a run is about, as one digest: what must be the same for a rerun to be the same run. */
export const aboutOf = (options: RepairOptions): Digest => {
  const routes = [...options.routes, ...(options.receiver === undefined ? [] : [options.receiver])]
  return digestJson({
    run: options.run,
    source: options.source,
    base: options.base ?? null,
    routes: routes.map(({ id, title, instruction, usd }) => ({ id, title, instruction, usd })),
    judge: options.oracle.judge,
    heldOut: options.oracle.heldOut ?? null
  })
}

interface About {
  readonly about?: string
  /** Of the store that the run is in. Records of before do not name it. */
  readonly goal?: string
}

const notARecord = (name: string, what: string) =>
  wrong(
    "record",
    `The directory of the record ${what}: ${name}.`,
    "Give an empty directory, or one that does not exist."
  )

const aboutIn = (bytes: Buffer): About | undefined => {
  try {
    return JSON.parse(bytes.toString("utf8")) as About
  } catch {
    return undefined
  }
}

const aboutAt = (path: string): About | undefined => {
  try {
    return aboutIn(readFileSync(path))
  } catch {
    return undefined
  }
}

/**
 * Refuses a directory that is no record and holds what a record would write over or sweep away, and one that is a store's. Writes
 * nothing: what stands there may be somebody's own.
 */
export const mayBeRecord = ({ record }: RepairOptions) =>
  Effect.suspend(() => {
    const at = (name: string) => join(record, name)
    if (!existsSync(record)) return Effect.void
    if (!statSync(record).isDirectory()) return notARecord(record, "is a file")
    const ofStore = ["authority.db", "layerfs"].find((name) => existsSync(at(name)))
    if (ofStore !== undefined) return notARecord(ofStore, "is that of a store")
    if (existsSync(at("about.json"))) {
      return typeof aboutAt(at("about.json"))?.about === "string"
        ? Effect.void
        : notARecord("about.json", "holds a file that is no record's")
    }
    // What cannot be listed is no empty directory either.
    const isTaken = (name: string): boolean => existsSync(at(name)) && namesIn(at(name))?.length !== 0
    const taken = [...recordFiles, ...privateDirectories].find(isTaken)
    return taken === undefined ? Effect.void : notARecord(taken, "holds what a record would write over")
  })

/** Refuses a record that was made for something else, or in another store: its results would be told as this run's. Writes nothing. */
export const sameRecord = (options: RepairOptions, record: RunRecord) =>
  Effect.gen(function* () {
    const bytes = yield* record.read("about.json")
    if (bytes === null) return
    const earlier = aboutIn(bytes)
    if (earlier?.about !== aboutOf(options)) {
      return yield* wrong(
        "run",
        `The record holds another run, or run ${options.run} with another source, base, oracle or other routes.`,
        "Give another `record` and `run` name; to go on with the old run, give its options again."
      )
    }
    if (earlier.goal === undefined) return
    yield* Goals.get({ goal: earlier.goal }).pipe(
      Effect.catchTag("NotFound", () =>
        wrong(
          "record",
          "The record belongs to a run in another store.",
          "Give the store that it was made with, or another `record`."
        )
      )
    )
  })

/** The store knows this name as another run: its goal, turns and settlements would be taken for this one's. */
export const otherRunInStore = (options: RepairOptions) =>
  wrong(
    "run",
    `The store holds a run called ${options.run} about something else, or with another title or budget.`,
    "Give another `run` name; to go on with the old run, give its options again."
  )
