/**
 * Looks at a file operation before anything is touched: callers without a type checker pass undefined and numbers too.
 * Promise: what is no operation is `PathError` with reason `invalid`, and nothing was opened, made or cut for it. Rules: W4.
 */
import { types } from "node:util"
import { fromInput, type PathInput } from "../../base/PathBytes.ts"
import type { FileOperation } from "../WorkspaceProvider.ts"
import { pathError } from "./Lookup.ts"

/** Its bytes were given away (`postMessage` with a transfer list): it looks like an empty one. */
export const isDetached = ({ buffer }: ArrayBufferView): boolean =>
  "detached" in buffer && (buffer as { readonly detached: boolean }).detached

const isInput = (value: unknown): boolean =>
  typeof value === "string" || (types.isUint8Array(value) && !isDetached(value))
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
const isPlain = (value: unknown): boolean => plain.has(typeof value) || value === null || types.isUint8Array(value)

const looksRight = (operation: unknown): boolean => {
  if (typeof operation !== "object" || operation === null) return false
  const given = operation as Readonly<Record<string, unknown>>
  const { op } = given
  const wanted = isText(op) && Object.hasOwn(fields, op) ? fields[op as FileOperation["op"]] : undefined
  if (wanted === undefined || !Object.values(given).every(isPlain)) return false
  return Object.entries(wanted).every(([field, fits]) => fits(given[field]))
}

/** Undefined where looking throws. */
export const attempt = <A>(look: () => A): A | undefined => {
  try {
    return look()
  } catch {
    return undefined
  }
}

/** What cannot even be looked at (a getter or proxy that throws) is none. */
export const isOperation = (operation: unknown): boolean => attempt(() => looksRight(operation)) === true

/** Throws `PathError`. */
export const checkOperation = (operation: FileOperation): void => {
  if (isOperation(operation)) return
  const given = operation as unknown as Record<string, unknown> | null | undefined
  const named = attempt(() => given?.["path"] ?? given?.["to"])
  throw pathError("invalid", isInput(named) ? fromInput(named as PathInput) : "")
}
