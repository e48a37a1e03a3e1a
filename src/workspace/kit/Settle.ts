/**
 * The edge between the projections' promises and Effect.
 * Promise: a typed error fails, a system error becomes `FileSystemFailure`, one of SQLite's `StorageFailure`, anything else is a defect; an interruption aborts
 * the signal and waits until the work has really stopped. Rules: 01 "Errors"; W9.
 */
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../../base/CoppiceError.ts"
import { toStorageFailure } from "../../sqlite/Database.ts"
import { FileSystemFailure } from "../WorkspaceError.ts"

const remedyOf = (code: string): string => {
  switch (code) {
    case "ENOSPC":
    case "EDQUOT":
      return "Free space on the store's disk, then repeat the call."
    case "EMFILE":
    case "ENFILE":
      return "Raise the limit of open files, or close workspaces."
    case "EROFS":
      return "Mount the file system that holds the store read-write, then repeat the call."
    case "EACCES":
    case "EPERM":
      return "Give the store's directories, and what the call names, back to this user, then repeat the call."
    case "EIO":
      return "Check the disk that holds the store: it reports an error. Then repeat the call."
    case "ENOENT":
    case "ENOTDIR":
    case "EEXIST":
      return "Somebody else has removed or replaced something that was in use. Where it was of the store: open the store again, then repeat the call."
    default:
      return "Look the code up in errno(3); the files are as the last successful call left them."
  }
}

/** The typed error that a thrown value stands for, or undefined when it is a bug. */
export const typedError = (error: unknown): unknown => {
  if (isCoppiceError(error)) return error
  const { code, syscall } = error as NodeJS.ErrnoException
  if (code === "ERR_SQLITE_ERROR") return toStorageFailure(error)
  if (typeof code !== "string" || typeof syscall !== "string") return undefined
  return new FileSystemFailure({
    message: `The operating system refused ${syscall.split(" ")[0]} with ${code}.`,
    remedy: remedyOf(code),
    syscallCode: code
  })
}

/** `E` is what the work is documented to reject with. */
export const settle = <A, E>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, E> =>
  Effect.callback<A, E>((resume, signal) => {
    const done = work(signal).then(
      (value) => resume(Effect.succeed(value)),
      (error) => {
        const known = typedError(error)
        resume(known === undefined ? Effect.die(error) : Effect.fail(known as E))
      }
    )
    return Effect.promise(() => done)
  })
