/**
 * Reads the one JSON object that a host may print: bytes in, a checked `TurnResult` or the name of the failed check out.
 * Promise: pure and strict; nothing is repaired, guessed or skipped, and no text of the host is repeated. Rules: S51, C89.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { limits, protocolVersion, TurnResult } from "../../src/host/TurnProtocol.ts"

/** The checks that a result can fail, in the order in which they are made. */
export type ResultCheck =
  | "stdout-size"
  | "stdout-empty"
  | "utf8"
  | "nul"
  | "truncated"
  | "two-objects"
  | "prose"
  | "not-json"
  | "version"
  | "shape"
  | "unknown-field"
  | "turn-key"

/** The index after the JSON object that starts at 0, or -1 when it does not end. Strings and escapes are respected. */
const endOfObject = (text: string): number => {
  let depth = 0
  let inString = false
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index]
    if (inString) {
      if (character === "\\") index += 1
      else if (character === '"') inString = false
    } else if (character === '"') inString = true
    else if (character === "{") depth += 1
    else if (character === "}") {
      depth -= 1
      if (depth === 0) return index + 1
    }
  }
  return -1
}

const decodeLoose = Schema.decodeUnknownResult(TurnResult)
const decodeStrict = Schema.decodeUnknownResult(TurnResult, { onExcessProperty: "error" })

/** Checks a value that claims to be the result of the turn `turnKey`. */
export const checkResult = (value: unknown, turnKey: string): Result.Result<TurnResult, ResultCheck> => {
  const fields = value as { readonly protocol?: unknown; readonly version?: unknown }
  if (fields.protocol !== "coppice.turn" || fields.version !== protocolVersion) return Result.fail("version")
  if (Result.isFailure(decodeLoose(value))) return Result.fail("shape")
  const decoded = decodeStrict(value)
  if (Result.isFailure(decoded)) return Result.fail("unknown-field")
  return decoded.success.turnKey === turnKey ? Result.succeed(decoded.success) : Result.fail("turn-key")
}

/** Checks everything a host has printed on stdout. One line end may follow the object; nothing else may stand around it. */
export const readResult = (bytes: Uint8Array, turnKey: string): Result.Result<TurnResult, ResultCheck> => {
  if (bytes.length > limits.resultBytes) return Result.fail("stdout-size")
  if (bytes.length === 0) return Result.fail("stdout-empty")
  let text: string
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return Result.fail("utf8")
  }
  if (text.includes("\0")) return Result.fail("nul")
  text = text.replace(/\r?\n$/, "")
  if (text.trim() === "") return Result.fail("stdout-empty")
  if (!text.startsWith("{")) return Result.fail("prose")
  const end = endOfObject(text)
  if (end < 0) return Result.fail("truncated")
  const rest = text.slice(end)
  if (rest !== "") return Result.fail(rest.trim().startsWith("{") ? "two-objects" : "prose")
  try {
    return checkResult(JSON.parse(text), turnKey)
  } catch {
    return Result.fail("not-json")
  }
}

/** True when the bytes hold a whole object: then a host that does not end is given a bounded time, not the whole limit. */
export const isWhole = (bytes: Uint8Array): boolean => {
  const text = Buffer.from(bytes).toString("latin1")
  return text.startsWith("{") && endOfObject(text) > 0
}
