/**
 * Typed errors across a thread: taken apart on one side, rebuilt as their class on the other.
 * Promise: whoever catches a store's error sees the same `_tag`, `code`, fields, message and remedy as where it was thrown;
 * an operating system's error becomes `FileSystemFailure`, anything else stays the defect that it is. Rules: 01 "Errors".
 */
import { isCoppiceError } from "../../base/CoppiceError.ts"
import { Busy, isUnreadableNumber, StorageFailure, StoreMoved, toStorageFailure } from "../../sqlite/Database.ts"
import { FileSystemFailure, workspaceErrors } from "../WorkspaceError.ts"

const classes: Readonly<Record<string, new (fields: never) => Error>> = {
  ...workspaceErrors,
  Busy,
  StorageFailure,
  StoreMoved
} as never

/** The error of a failed system call, without the path that Node puts in its message. */
export const systemFailure = (error: NodeJS.ErrnoException): FileSystemFailure =>
  new FileSystemFailure({
    message: `The operating system refused ${error.syscall ?? "a call"}: ${error.code}.`,
    remedy:
      error.code === "ENOSPC" || error.code === "EDQUOT"
        ? "Free space on the disk that holds the store, then repeat the same call; nothing acknowledged was lost."
        : "Check owner, mode and health of the file system, then repeat the same call.",
    syscallCode: error.code ?? "UNKNOWN"
  })

/** What a thrown value means to a caller: itself when typed, the typed form of a system or SQLite error, else a defect. */
export const typed = (error: unknown): unknown => {
  if (isCoppiceError(error)) return error
  const code = (error as NodeJS.ErrnoException)?.code
  if (code === "ERR_SQLITE_ERROR" || isUnreadableNumber(error)) return toStorageFailure(error)
  if (typeof code === "string" && (error as NodeJS.ErrnoException).syscall !== undefined) {
    return systemFailure(error as NodeJS.ErrnoException)
  }
  return error
}

/** A value that postMessage can carry. */
export const encodeError = (error: unknown): unknown => {
  const known = typed(error)
  if (isCoppiceError(known)) return { ...known, message: known.message }
  const defect = known instanceof Error ? known : new Error(String(known))
  return { message: defect.message, stack: defect.stack }
}

export const decodeError = (encoded: unknown): unknown => {
  const fields = encoded as { _tag?: string; message: string; stack?: string }
  const Class = fields._tag === undefined ? undefined : classes[fields._tag]
  if (Class !== undefined) return new Class(fields as never)
  const defect = new Error(fields.message)
  if (fields.stack !== undefined) defect.stack = fields.stack
  return defect
}
