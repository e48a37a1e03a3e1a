/**
 * The shape that every failure of Coppice has.
 * Promise: a failure that a caller can act on is a tagged Schema error with a stable `code`, a `message` about one
 * named thing and a `remedy` sentence. Errors are matched by `_tag` or `code`, never by `instanceof`. (01, Errors; G6)
 */
import * as Schema from "effect/Schema"

/**
 * The three fields that every error class spreads into its own:
 *
 * ```ts
 * class HeadMoved extends Schema.TaggedError<HeadMoved>()("HeadMoved", {
 *   ...errorFields("HEAD_MOVED"), expected: Schema.String, actual: Schema.String
 * }) {}
 * new HeadMoved({ message: "…", remedy: "…", expected, actual })   // `code` fills itself in
 * ```
 *
 * `message` and `remedy` never carry a stack, an absolute path, a credential or a transcript: they may reach a public
 * projection (G6). A path that the caller itself supplied may stand in a field of its own.
 */
export const errorFields = <const Code extends string>(code: Code) => ({
  code: Schema.tag(code),
  message: Schema.String,
  remedy: Schema.String
})

/** What every Coppice error can be read as, whatever its class. */
export interface CoppiceError {
  readonly _tag: string
  readonly code: string
  readonly message: string
  readonly remedy: string
}

/** True when `value` is one of our errors: tagged, with a code and a remedy. Works across copies of the classes. */
export const isCoppiceError = (value: unknown): value is CoppiceError =>
  typeof value === "object" &&
  value !== null &&
  typeof (value as CoppiceError)._tag === "string" &&
  typeof (value as CoppiceError).code === "string" &&
  typeof (value as CoppiceError).remedy === "string"
