/** The target of an export. Promise: nothing that was there is written over. Rules: W3, W16. */
import { mkdirSync, openSync, readdirSync, rmdirSync, rmSync, unlinkSync } from "node:fs"
import { ExportRefused } from "../WorkspaceError.ts"
import { inStretches, type Steps } from "./Steps.ts"

const slash = Buffer.from("/")

/** Whoever owns the target may have removed something of it. */
const unlessGone = <A>(done: () => A): A | undefined => {
  try {
    return done()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw error
  }
}

/** Removes what lies in a directory that an export wrote. Synchronous calls in steps: a fifth of the time of asynchronous ones. */
function* emptied(directory: Buffer): Steps<void> {
  const entries = unlessGone(() => readdirSync(directory, { withFileTypes: true, encoding: "buffer" })) ?? []
  for (const entry of entries) {
    const at = Buffer.concat([directory, slash, entry.name])
    if (entry.isDirectory()) yield* emptied(at)
    unlessGone(() => (entry.isDirectory() ? rmdirSync(at) : unlinkSync(at)))
    yield
  }
}

/** Makes the target, or takes an empty one. Returns how to undo, with a turn for other calls every some milliseconds. Throws `ExportRefused`. */
export const claimTarget = (target: Buffer): (() => Promise<void>) => {
  const empty = (): Promise<void> => inStretches(emptied(target), () => false)
  const refuse = (message: string, remedy: string): ExportRefused =>
    new ExportRefused({ message, remedy, path: target.toString("utf8") })
  try {
    mkdirSync(target, { mode: 0o700 })
    return async () => {
      await empty()
      unlessGone(() => rmdirSync(target))
    }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code !== "EEXIST") {
      throw refuse(
        `The target directory cannot be made (${code}).`,
        "Give a path in an existing directory that this user can write to."
      )
    }
  }
  let names: string[]
  try {
    names = readdirSync(target)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    throw refuse(`The target is not a directory that can be read (${code}).`, "Give a new or empty directory.")
  }
  if (names.length > 0) throw refuse("The target directory is not empty.", "Give a new or empty directory.")
  return empty
}

/** Makes the file of an export. Returns its descriptor, and how to undo. Throws `ExportRefused`. */
export const claimFile = (target: Buffer): { readonly descriptor: number; readonly undo: () => void } => {
  try {
    return { descriptor: openSync(target, "wx", 0o600), undo: () => rmSync(target, { force: true }) }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    throw new ExportRefused({
      message: code === "EEXIST" ? "Something lies at the target already." : `The target cannot be made (${code}).`,
      remedy: "Give a path that is free, in an existing directory that this user can write to.",
      path: target.toString("utf8")
    })
  }
}
