/** The target of an export. Promise: nothing that was there is written over. Rules: W3, W16. */
import { mkdirSync, openSync, readdirSync, rmSync } from "node:fs"
import { ExportRefused } from "../WorkspaceError.ts"

/** Makes the target, or takes an empty one. Returns how to undo. Throws `ExportRefused`. */
export const claimTarget = (target: Buffer): (() => void) => {
  const refuse = (message: string, remedy: string): ExportRefused =>
    new ExportRefused({ message, remedy, path: target.toString("utf8") })
  try {
    mkdirSync(target, { mode: 0o700 })
    return () => rmSync(target, { recursive: true, force: true })
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
  return () => {
    for (const name of readdirSync(target, { encoding: "buffer" })) {
      rmSync(Buffer.concat([target, Buffer.from("/"), name]), { recursive: true, force: true })
    }
  }
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
