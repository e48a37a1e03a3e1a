/**
 * The provider's door: looks at the arguments of every call before anything of it begins, because plain JavaScript passes anything.
 * Promise: what is of another kind than the contract says is a typed error that names the argument and what is wrong with it, and nothing was done; what gets past
 * it can be sent to the worker. What an argument means (a ref that exists, a mode, a range) is for the call; what no machine could do with it
 * (a variable without a name, a spill into no directory) is for the door. Rules: V3, W3, W4.
 */
import { statSync } from "node:fs"
import { types } from "node:util"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { CoppiceError } from "../../base/CoppiceError.ts"
import { didYouMean } from "../../base/Nearest.ts"
import { Candidate } from "../Candidate.ts"
import { ArgumentInvalid, type QueryInvalid } from "../WorkspaceError.ts"
import type { Workspace, WorkspaceProvider } from "../WorkspaceProvider.ts"
import { invalid, isText } from "./Invalid.ts"
import { pathError } from "./Lookup.ts"
import { attempt, isDetached, isOperation } from "./OperationCheck.ts"
import { compileGlob } from "./Glob.ts"

interface Fits {
  (value: unknown): boolean
  /** True for what is at least of the right kind. Absent where that says it all. */
  readonly kind?: (value: unknown) => boolean
}
/** A value of a kind, and more than that. */
const within = (kind: (value: unknown) => boolean, fits: (value: never) => boolean): Fits =>
  Object.assign((value: unknown) => kind(value) && fits(value as never), { kind })
const kindOf = (fits: Fits): ((value: unknown) => boolean) => fits.kind ?? fits
/** `fits` made of others the same way as its `kind` is. */
const madeOf = (make: (part: (fits: Fits) => (value: unknown) => boolean) => (value: unknown) => boolean): Fits =>
  Object.assign(
    make((fits) => fits),
    { kind: make(kindOf) }
  )

interface Wrong {
  readonly argument: string
  readonly problem: ArgumentInvalid["problem"]
  /** What the call takes instead of one that is unknown. */
  readonly known?: readonly string[]
}
/** What is wrong with a value; else the value that the call gets. */
type Look = (value: unknown) => { readonly wrong: Wrong } | { readonly value: unknown }

const isBytes = within(ArrayBuffer.isView, (value: ArrayBufferView) => !isDetached(value))
const isInput: Fits = (value) => isText(value) || types.isUint8Array(value)
/** A path of the machine: no name of it can hold a NUL. None at all is no place: a setting left empty must not mean where the caller stands. */
const isPlace = within(
  isInput,
  (value: string | Uint8Array) => value.length > 0 && !(isText(value) ? value.includes("\0") : value.includes(0))
)
const isPlaceText = within(isText, (value: string) => !value.includes("\0"))
/** Absolute, as the machine means it: against which directory would a relative one of an agent's workspace be meant? */
const isAbsolute = within(isText, (value: string) => value.startsWith("/") && !value.includes("\0"))
/** Of the tree: relative to its root, and not out of it. */
const isBelow = within(
  isText,
  (value: string) => !value.startsWith("/") && !value.includes("\0") && !value.split("/").includes("..")
)
const isDirectory = within(isText, (value: string) => attempt(() => statSync(value).isDirectory()) === true)
/** What execve(2) can tell a program from a value. */
const isVariable = within(isText, (value: string) => value !== "" && !/[=\0]/.test(value))
const isAnything: Fits = () => true
const isFlag: Fits = (value) => typeof value === "boolean"
const isAnyNumber: Fits = (value) => typeof value === "number"
const isNumber = within(isAnyNumber, (value: number) => !Number.isNaN(value))
const isBound = within(isAnyNumber, (value: number) => value >= 0)
const isFunction: Fits = (value) => typeof value === "function"
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const maybe = (fits: Fits): Fits => madeOf((part) => (value) => value === undefined || part(fits)(value))
const either = (...all: readonly Fits[]): Fits => madeOf((part) => (value) => all.some((fits) => part(fits)(value)))
const listOf = (fits: Fits): Fits =>
  madeOf(
    (part) => (value) => Array.isArray(value) && Array.from(value as readonly unknown[]).every((one) => part(fits)(one))
  )
/** An object of nothing but its fields. */
const recordOf = (fits: Fits): Fits =>
  madeOf((part) => (value) => {
    if (!isObject(value)) return false
    const above = Object.getPrototypeOf(value) as object | null
    const isPlain = above === null || Object.getPrototypeOf(above) === null
    return isPlain && Object.values(value).every((one) => part(fits)(one))
  })
const isEnvironment = within(recordOf(isText), (value: object) => Object.keys(value).every((name) => isVariable(name)))
const oneOf = (...values: readonly unknown[]): Fits =>
  within(
    (value) => values.some((one) => typeof one === typeof value),
    (value) => values.includes(value)
  )
const isGlob = within(isText, (value: string) => attempt(() => compileGlob(value)) !== undefined)

/** What cannot even be looked at (a getter or proxy that throws) is of no kind. */
const problemOf = (fits: Fits, value: unknown): Wrong["problem"] =>
  value === undefined ? "missing" : attempt(() => kindOf(fits)(value)) === true ? "value" : "kind"

const is =
  (name: string, fits: Fits): Look =>
  (value) =>
    attempt(() => fits(value)) === true ? { value } : { wrong: { argument: name, problem: problemOf(fits, value) } }
/** An option that nobody knows is a typing error: what it was meant to ask for would be missing in silence. */
const unknown = (
  fields: Readonly<Record<string, Fits>>,
  value: Readonly<Record<string, unknown>>
): string | undefined => Object.keys(value).find((field) => !Object.hasOwn(fields, field) && value[field] !== undefined)
/**
 * An object with these fields and no others, `options` where it is none. Each is read once: the call gets what was looked
 * at. What cannot even be looked at (a getter or proxy that throws) does not fit.
 */
const given =
  (fields: Readonly<Record<string, Fits>>): Look =>
  (value) => {
    if (attempt(() => isObject(value)) !== true)
      return { wrong: { argument: "options", problem: problemOf(isObject, value) } }
    const from = value as Readonly<Record<string, unknown>>
    const taken: Record<string, unknown> = {}
    for (const [field, fits] of Object.entries(fields)) {
      const read = attempt(() => ({ one: from[field] }))
      if (read === undefined) return { wrong: { argument: field, problem: "kind" } }
      const looked = is(field, fits)(read.one)
      if ("wrong" in looked) return looked
      if (read.one !== undefined) taken[field] = read.one
    }
    const more = attempt(() => ({ unknown: unknown(fields, from) }))
    if (more === undefined) return { wrong: { argument: "options", problem: "kind" } }
    if (more.unknown === undefined) return { value: taken }
    return { wrong: { argument: more.unknown, problem: "unknown", known: Object.keys(fields) } }
  }
const options =
  (fields: Readonly<Record<string, Fits>>): Look =>
  (value) =>
    value === undefined ? { value } : given(fields)(value)

const actor = { actor: maybe(recordOf(maybe(isText))) }
const named = { name: maybe(isText), operationId: maybe(isText) }
const commit = { message: maybe(isText), operationId: maybe(isText), ...actor }
const page = { limit: maybe(isNumber), after: maybe(isText) }
const pageOfPath = { ...page, path: maybe(isInput) }
const watched = { onProgress: maybe(isFunction) }
const move = { expectedHead: isText, reason: maybe(isText), operationId: maybe(isText), ...actor }
const spawn = { cwd: maybe(isText), env: maybe(isEnvironment) }
const exec = {
  ...spawn,
  passEnv: maybe(listOf(isVariable)),
  stdin: maybe(either(isText, isBytes)),
  timeLimitMs: maybe(isAnyNumber),
  onOutput: maybe(isFunction),
  endProcesses: maybe(isFlag),
  spillDirectory: maybe(isDirectory),
  gitDefaults: maybe(isFlag)
}
const checkpoint = { ...commit, quiesce: maybe(isFlag), allowLive: maybe(isFlag), keepTimes: maybe(isFlag) }
const isCandidate = Schema.is(Candidate)
const open = {
  projection: maybe(oneOf("auto", "overlay", "lazy", "copy", "reflink", "worktree")),
  mountPath: maybe(isPlaceText),
  ownDirs: maybe(listOf(isBelow)),
  hide: maybe(listOf(isAbsolute)),
  readOnlyPaths: maybe(listOf(isAbsolute)),
  isolation: maybe(
    either(
      oneOf("default", "off"),
      within(isObject, (value: object) => "value" in given({ network: maybe(oneOf("host", "none")) })(value))
    )
  ),
  residentShell: maybe(isFlag),
  ...actor,
  guard: maybe(Effect.isEffect),
  as: maybe(
    within(
      isObject,
      (value: Readonly<Record<string, unknown>>) =>
        isCandidate(value["candidate"]) &&
        maybe(isText)(value["environment"]) &&
        maybe(isText)(value["allowEnvironment"])
    )
  ),
  ...watched
}
const ref = is("ref", isText)
const branch = is("branch", isText)
const path = is("path", isInput)
const command = is("command", either(isText, listOf(isText)))
const isRegExp: Fits = types.isRegExp

const providerCalls: Readonly<Partial<Record<keyof WorkspaceProvider, readonly Look[]>>> = {
  createEmpty: [options({ name: maybe(isText) })],
  importDirectory: [given({ source: isPlace, ...named, ...watched })],
  fork: [is("from", isText), options(named)],
  open: [branch, options(open)],
  branch: [is("id", isText)],
  commit: [ref],
  branches: [ref, options(page)],
  log: [is("ref", either(isText, listOf(isText))), options(pageOfPath)],
  diff: [is("from", isText), is("to", isText), options(pageOfPath)],
  blame: [ref, path, options(page)],
  readAt: [ref, path, options({ offset: maybe(isNumber), length: maybe(isNumber) })],
  listAt: [ref, path],
  statAt: [ref, path],
  globAt: [ref, is("pattern", isText), options(page)],
  grepAt: [ref, is("pattern", isRegExp), options({ ...pageOfPath, glob: maybe(isText) })],
  merge: [
    is("from", isText),
    is("into", isText),
    options({ ...commit, expectedHead: maybe(isText), dryRun: maybe(isFlag) })
  ],
  rewind: [branch, given({ to: isText, ...named })],
  reset: [branch, given({ to: isText, ...move })],
  undo: [branch, given({ number: maybe(isNumber), ...move })],
  undoLog: [branch, options(page)],
  applyTo: [branch, is("operations", listOf(isOperation)), options(commit)],
  execOn: [branch, command, options({ ...exec, ...commit, ...open })],
  candidate: [ref, given({ environment: isText, parent: either(isText, oneOf(null)) })],
  pin: [
    is(
      "key",
      within(isText, (value: string) => value !== "")
    ),
    ref
  ],
  unpin: [is("key", isText)],
  findOperation: [is("operationId", isText)],
  exportDirectory: [ref, is("target", isPlace), options(watched)],
  exportTar: [ref, is("target", isPlace), options(watched)],
  exportPatch: [given({ from: isText, to: isText, paths: maybe(listOf(isInput)) })],
  recover: [is("workspace", isText), options(commit)],
  discardLeft: [is("workspace", isText), is("reason", isText)],
  exportBundle: [given({ ref: isText, target: isPlace, history: maybe(isFlag), ...watched })],
  importBundle: [given({ source: isPlace, ...watched })],
  compact: [options({ maxMs: maybe(isBound), maxBytes: maybe(isBound), ...watched })],
  verify: [options(watched)]
}

/** Paths, bytes and modes are looked at where they are used: there every call of the tree comes by. */
const workspaceCalls: Readonly<Partial<Record<keyof Workspace, readonly Look[]>>> = {
  apply: [is("operations", listOf(isAnything))],
  write: [is("path", isAnything), is("bytes", isAnything), options({ mode: isAnything })],
  glob: [is("pattern", isGlob)],
  grep: [is("pattern", isRegExp), options({ glob: maybe(isGlob), limit: maybe(isNumber) })],
  exec: [command, options(exec)],
  start: [is("command", listOf(isText)), options(spawn)],
  enter: [
    is("command", listOf(isText)),
    options({ ...spawn, passEnv: maybe(listOf(isVariable)), gitDefaults: maybe(isFlag) })
  ],
  checkpoint: [options(checkpoint)],
  discard: [is("reason", isText)]
}

const questions: ReadonlySet<string> = new Set(["branches", "log", "diff", "blame", "globAt", "grepAt", "undoLog"])
const parts: Readonly<Record<string, QueryInvalid["field"]>> = {
  ref: "ref",
  from: "ref",
  to: "ref",
  branch: "ref",
  path: "path",
  pattern: "pattern",
  glob: "pattern",
  limit: "limit",
  after: "after"
}

/** What an argument has to be beyond its kind. */
const remedies: Readonly<Record<string, string>> = {
  env: "Give texts by names that are not empty and hold neither `=` nor NUL.",
  passEnv: "Give names that are not empty and hold neither `=` nor NUL.",
  spillDirectory: "Give a directory that exists.",
  hide: "Give absolute paths.",
  readOnlyPaths: "Give absolute paths.",
  ownDirs: "Give directories relative to the root, without `..`.",
  projection: "Give `auto`, or a projection that `probe` lists.",
  isolation: 'Give `"default"`, `"off"`, or `{ network: "none" }` or `{ network: "host" }`.',
  key: "Give a text that is not empty."
}

const messages: Readonly<Record<Wrong["problem"], (call: string, argument: string) => string>> = {
  missing: (call, argument) => `${call}: the argument \`${argument}\` is missing.`,
  kind: (call, argument) => `${call}: the argument \`${argument}\` is of another kind than the call takes.`,
  value: (call, argument) => `${call}: the argument \`${argument}\` has a value that the call cannot take.`,
  unknown: (call, argument) => `${call} takes no argument \`${argument}\`.`
}

const remedyOf = ({ argument, problem, known = [] }: Wrong): string => {
  if (problem === "unknown") return didYouMean(argument, known, "Leave it out, or give")
  return Object.hasOwn(remedies, argument) ? remedies[argument]! : "Give it as the declaration of the call says."
}

/** The error that the room has for such an argument. */
const refusal = (call: string, wrong: Wrong): CoppiceError => {
  const { argument, problem } = wrong
  const field = questions.has(call) && Object.hasOwn(parts, argument) ? parts[argument] : undefined
  if (field !== undefined) return invalid(field)
  if (argument === "path" || argument === "operations") return pathError("invalid", "")
  const message = messages[problem](call, argument)
  return new ArgumentInvalid({ message, remedy: `${remedyOf(wrong)} Nothing was done.`, call, argument, problem })
}

type Call = (...args: readonly unknown[]) => Effect.Effect<unknown, unknown, unknown>

/** The same calls behind the door. */
const behind = <Service extends object>(
  service: Service,
  calls: Readonly<Partial<Record<keyof Service, readonly Look[]>>>
): Service => {
  const checked = { ...service } as Record<string, unknown>
  for (const [name, looks] of Object.entries(calls) as [string, readonly Look[]][]) {
    const call = checked[name] as Call
    const guarded: Call = (...args) => {
      const taken = [...args]
      for (const [place, look] of looks.entries()) {
        const looked = look(args[place])
        if ("wrong" in looked) return Effect.fail(refusal(name, looked.wrong))
        if (place < args.length) taken[place] = looked.value
      }
      return call(...taken)
    }
    checked[name] = guarded
  }
  return checked as Service
}

/** Of the options of a call that does several things, those that one of them takes. */
export const partOf = (options: object, which: "exec" | "checkpoint"): object => {
  const fields = which === "exec" ? exec : checkpoint
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(fields, name)))
}

export const checkedProvider = (provider: WorkspaceProvider): WorkspaceProvider => behind(provider, providerCalls)
export const checkedWorkspace = (workspace: Workspace): Workspace => behind(workspace, workspaceCalls)
