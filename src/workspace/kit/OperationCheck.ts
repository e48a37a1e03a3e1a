/**
 * Looks at a file operation before anything is touched: callers without a type checker pass undefined and numbers too.
 * Promise: what is no operation is `PathError` with reason `invalid`, and nothing was opened, made or cut for it. Rules: W4.
 */
import { fromInput, type PathInput } from "../../base/PathBytes.ts"
import type { FileOperation } from "../WorkspaceProvider.ts"
import { pathError } from "./Lookup.ts"

const isInput = (value: unknown): boolean => typeof value === "string" || value instanceof Uint8Array
const isCount = (value: unknown): boolean => typeof value === "number" && Number.isSafeInteger(value) && value >= 0
const isText = (value: unknown): value is string => typeof value === "string"

const fields: Readonly<Record<FileOperation["op"], Readonly<Record<string, (value: unknown) => boolean>>>> = {
  write: { path: isInput, bytes: isInput },
  splice: { path: isInput, offset: isCount, deleteCount: isCount, bytes: isInput },
  edit: { path: isInput, find: isText, replace: isText },
  remove: { path: isInput },
  move: { from: isInput, to: isInput },
  copy: { from: isInput, to: isInput },
  mkdir: { path: isInput },
  symlink: { path: isInput, target: isInput },
  chmod: { path: isInput }
}

const plain = new Set(["string", "number", "boolean", "bigint", "undefined"])
/** What can be sent to the worker whatever it means. */
const isPlain = (value: unknown): boolean => plain.has(typeof value) || value === null || value instanceof Uint8Array

export const isOperation = (operation: unknown): boolean => {
  if (typeof operation !== "object" || operation === null) return false
  const given = operation as Readonly<Record<string, unknown>>
  const { op } = given
  const wanted = isText(op) && Object.hasOwn(fields, op) ? fields[op as FileOperation["op"]] : undefined
  if (wanted === undefined || !Object.values(given).every(isPlain)) return false
  return Object.entries(wanted).every(([field, fits]) => fits(given[field]))
}

/** Throws `PathError`. */
export const checkOperation = (operation: FileOperation): void => {
  if (isOperation(operation)) return
  const given = operation as unknown as Record<string, unknown> | null | undefined
  const named = given?.["path"] ?? given?.["to"]
  throw pathError("invalid", isInput(named) ? fromInput(named as PathInput) : "")
}
