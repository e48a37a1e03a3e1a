/**
 * What the promise entry throws: plain Error objects that carry everything of a typed failure.
 * Promise: `_tag`, `code`, `message`, `remedy` and the failure's own fields; nothing of Effect is left in them; a bug stays
 * the error that it was. Matched by `_tag` or `code`, never by `instanceof`. Rules: 01 "Errors"; A6.
 */
import * as Cause from "effect/Cause"
import { type CoppiceError, isCoppiceError } from "../base/CoppiceError.ts"
import type { Failure } from "./Plain.ts"

const plain = (fields: CoppiceError & { readonly [field: string]: unknown }): Failure => {
  const { _tag, code, message, remedy, ...rest } = fields
  const error = new Error(message)
  // As on any Error, `message`, `name` and `cause` do not show up among the fields; `toJSON` gives the whole for a log.
  const hidden = { name: _tag, toJSON: () => ({ _tag, code, message, remedy, ...rest }) }
  for (const [key, value] of Object.entries(hidden)) Object.defineProperty(error, key, { value, writable: true })
  return Object.assign(error, { _tag, code, remedy, ...rest }) as Failure
}

/** A typed failure as a plain error; anything else, a bug, as it is. */
export const toFailure = (error: unknown): unknown => {
  if (!isCoppiceError(error)) return error
  // Own enumerable properties are the fields of the class; its message is not one of them on every engine.
  return plain({ ...(error as object), ...pick(error) })
}
const pick = ({ _tag, code, message, remedy }: CoppiceError): CoppiceError => ({ _tag, code, message, remedy })

/** The call was ended by its signal, or by closing what it belonged to. What it had acknowledged stays. */
const cancelled = (reason: unknown): Failure => {
  const error = plain({
    _tag: "Cancelled",
    code: "CANCELLED",
    message: "The call was cancelled.",
    remedy:
      "What it had acknowledged stays. A call that writes may have taken effect just before it ended: `findOperation` tells, when it was given an `operationId`. Call again to go on."
  })
  // The name that other cancelled calls of the platform have, so that a host's own handling finds it.
  Object.defineProperty(error, "name", { value: "AbortError" })
  if (reason !== undefined) Object.defineProperty(error, "cause", { value: reason })
  return error
}

export const closed = (what: string): Failure =>
  plain({ _tag: "Closed", code: "CLOSED", message: `The ${what} is closed.`, remedy: "Open it again." })

/** An argument that cannot be meant. Nothing was started. */
export const badArgument = (argument: string, message: string, remedy: string): Failure =>
  plain({ _tag: "BadArgument", code: "BAD_ARGUMENT", message, remedy, argument })

/** What a failed run is thrown as. */
export const thrown = (cause: Cause.Cause<unknown>, reason: unknown): unknown =>
  Cause.hasInterruptsOnly(cause) ? cancelled(reason) : toFailure(Cause.squash(cause))
