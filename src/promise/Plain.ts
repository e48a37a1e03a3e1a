/**
 * Words that every part of the promise entry uses. No Effect: these are its public declarations.
 * Promise: durations are told as people tell them; whatever takes long can be watched and cancelled. Rules: W14; 10 "Qualities".
 */

type Unit = "millis" | "second" | "seconds" | "minute" | "minutes" | "hour" | "hours"

/** For example `"2 minutes"`; a number is milliseconds. */
export type Duration = number | `${number} ${Unit}`

/** What is thrown for everything that a caller can act on: match `_tag` or `code`, read `remedy`. */
export interface Failure extends Error {
  readonly _tag: string
  readonly code: string
  readonly remedy: string
  /** What the failure is about, by name: `path`, `goal`, `expected` … */
  readonly [field: string]: unknown
}

/** What every call takes. An aborted call throws `Cancelled`, whose `name` is `AbortError`; what it had acknowledged stays. */
export interface CallOptions {
  readonly signal?: AbortSignal
}

/**
 * A call that takes long: a promise of its result that can be watched.
 *
 * ```ts
 * const run = coppice.repairRepository(options)
 * for await (const step of run.progress) console.error(step.text)
 * const report = await run.result
 * ```
 */
export interface Task<Result, Step> extends Promise<Result> {
  /** The promise itself, under a name. */
  readonly result: Promise<Result>
  /**
   * The steps, from the first one on; ends with the task and throws what it throws. When nobody reads, only the newest 1,000
   * are kept. Meant for one reader: each step goes to whoever asks first.
   */
  readonly progress: AsyncIterable<Step>
  /** Ends the task as its signal would. */
  readonly cancel: () => void
}
