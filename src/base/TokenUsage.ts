/**
 * What a provider says of the tokens of its messages, and what that comes to in four disjoint buckets.
 * Promise: no token stands in two buckets; what is missing is unknown and never zero; a message that is reported twice counts
 * once; a report that contradicts itself is unknown, not bent. Pure. Rules: G56; C69.
 */
import * as Schema from "effect/Schema"

/** The most tokens of one field and of one report: sums of many reports stay far below what a number holds exactly (2^53). */
const mostTokens = 1_000_000_000_000
const Tokens = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0), Schema.isLessThanOrEqualTo(mostTokens))
const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))

/** One message of a provider, as its own record tells it. A field that the record lacks is left out, never filled with 0. */
export const ReportedUsage = Schema.Struct({
  /** The provider's id of the message: what makes a repetition known. */
  id: Schema.optionalKey(Name),
  provider: Schema.optionalKey(Name),
  model: Schema.optionalKey(Name),
  /** `inInput`: the cached tokens are part of `input`. `apart`: they stand beside it. */
  cached: Schema.Literals(["inInput", "apart"]),
  input: Schema.optionalKey(Tokens),
  cacheRead: Schema.optionalKey(Tokens),
  cacheWrite: Schema.optionalKey(Tokens),
  output: Schema.optionalKey(Tokens),
  /** The provider's record as it came. Kept by digest, and whole where it is short and public. */
  raw: Schema.optionalKey(Schema.Unknown)
})
export type ReportedUsage = typeof ReportedUsage.Type

export const buckets = ["inputUncached", "cacheRead", "cacheWrite", "output"] as const
export type Bucket = (typeof buckets)[number]

/** Tokens that are known, and how many messages did not say. The known ones are a lower bound while `unknown` is not 0. */
export interface BucketCount {
  readonly known: number
  readonly unknown: number
}

export interface NormalisedUsage extends Readonly<Record<Bucket, BucketCount>> {
  /** All four together. It may be known where a bucket is not: how much of an input was cached does not change its sum. */
  readonly total: BucketCount
  /** Messages that counted. */
  readonly messages: number
  /** Messages that had been counted before and added nothing. */
  readonly repeated: number
  /** Messages whose record contradicts itself (more cached than there was), and all of a report that exceeds every use. */
  readonly inconsistent: number
  /** The keys of the messages that counted, where they have ids. */
  readonly keys: readonly string[]
}

/** What makes a message the same one: ids of two providers have nothing to do with each other. */
export const usageKey = ({ provider, id }: Pick<ReportedUsage, "provider" | "id">): string | undefined =>
  id === undefined ? undefined : `${provider ?? ""}/${id}`

type Counts = { readonly [B in Bucket | "total"]: number | null }

const plus = (...parts: readonly (number | undefined | null)[]): number | null =>
  parts.some((part) => typeof part !== "number") ? null : parts.reduce<number>((sum, part) => sum + part!, 0)

const nothingKnown: Counts = { inputUncached: null, cacheRead: null, cacheWrite: null, output: null, total: null }

/** The buckets of one message; undefined when its record contradicts itself. */
const countsOf = ({ cached, input, cacheRead, cacheWrite, output }: ReportedUsage): Counts | undefined => {
  const side = { cacheRead: cacheRead ?? null, cacheWrite: cacheWrite ?? null, output: output ?? null }
  if (cached === "apart") {
    return { ...side, inputUncached: input ?? null, total: plus(input, cacheRead, cacheWrite, output) }
  }
  const within = plus(cacheRead, cacheWrite)
  if (input !== undefined && (cacheRead ?? 0) + (cacheWrite ?? 0) > input) return undefined
  return {
    ...side,
    inputUncached: input === undefined || within === null ? null : input - within,
    total: plus(input, output)
  }
}

/** No report of work says so much: nothing of it is believed, rather than a part of it. */
const beyond = (messages: readonly (Counts | undefined)[]): boolean =>
  ([...buckets, "total"] as const).some(
    (name) => messages.reduce((all, message) => all + (message?.[name] ?? 0), 0) > mostTokens
  )

/** Two accounts of one message: the later one corrects, and what it leaves out stays. */
const corrected = (before: ReportedUsage | undefined, after: ReportedUsage): ReportedUsage => ({ ...before, ...after })

/**
 * The buckets of what was reported. `counted` holds the keys of messages that count already; within the report itself the last
 * account of a message stands (a stream tells of one message many times). Linear in the number of messages.
 */
export const normaliseUsage = (
  reported: readonly ReportedUsage[],
  counted: ReadonlySet<string> = new Set()
): NormalisedUsage => {
  const known = new Map<string, ReportedUsage>()
  const nameless: ReportedUsage[] = []
  let repeated = 0
  for (const message of reported) {
    const key = usageKey(message)
    if (key === undefined) nameless.push(message)
    else {
      if (counted.has(key) || known.has(key)) repeated += 1
      if (!counted.has(key)) known.set(key, corrected(known.get(key), message))
    }
  }
  const said = [...known.values(), ...nameless].map(countsOf)
  const messages = beyond(said) ? said.map(() => undefined) : said
  const sum = (name: Bucket | "total"): BucketCount => {
    const counts = messages.map((message) => (message ?? nothingKnown)[name])
    return {
      known: counts.reduce<number>((all, count) => all + (count ?? 0), 0),
      unknown: counts.filter((count) => count === null).length
    }
  }
  return {
    inputUncached: sum("inputUncached"),
    cacheRead: sum("cacheRead"),
    cacheWrite: sum("cacheWrite"),
    output: sum("output"),
    total: sum("total"),
    messages: messages.length,
    repeated,
    inconsistent: messages.filter((message) => message === undefined).length,
    keys: [...known.keys()]
  }
}
