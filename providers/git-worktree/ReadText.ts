/**
 * Small files that another process may take away at any moment.
 * Promise: what is gone is `undefined`, whenever it went; any other failure is thrown. Rules: GW3.
 */
import { type Dirent, readdirSync, readFileSync } from "node:fs"

const unlessGone = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined
    throw error
  }
}

export const readText = (path: string): string | undefined => unlessGone(() => readFileSync(path, "utf8"))

/** Entries of a directory; none when it is gone. */
export const entriesOf = (path: string): readonly Dirent[] =>
  unlessGone(() => readdirSync(path, { withFileTypes: true })) ?? []
