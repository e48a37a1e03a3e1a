/**
 * Whether a directory may become the record of a run. Promise: says no before anything is written where something else lies.
 */
import { existsSync, readdirSync, statSync } from "node:fs"
import { join } from "node:path"

/** Why not, in words for the person who named it; undefined when it may. `marks` are names of which a record of this kind has one. */
export const notARecord = (record: string, marks: readonly string[]): string | undefined => {
  if (!existsSync(record) || marks.some((name) => existsSync(join(record, name)))) return undefined
  const holds = statSync(record).isDirectory() ? readdirSync(record) : ["it is a file"]
  return holds.length === 0
    ? undefined
    : `${record} is no record of such a run (${holds.slice(0, 3).join(", ")}). Nothing was written. Name an empty directory, or one that does not exist.`
}
