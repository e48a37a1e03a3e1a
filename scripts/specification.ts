/**
 * Reads the rule ids out of the specification, and out of any text that uses them.
 * Promise: an id is what docs/spec defines (a bullet that opens with the bold id, or the first cell of a table row), in the
 * order of its family and number; nothing else is an id. Rules: docs/spec/00-overview.md, "Reading this specification".
 */
import { readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"

/** The families of ids, in the order in which they are listed. */
export const families = ["G", "S", "W", "K", "L", "GW", "RL", "E", "P", "C", "A", "V", "M", "F", "J"] as const

export interface Definition {
  readonly id: string
  readonly file: string
  readonly line: number
}

export interface Specification {
  /** Every id that is defined, sorted. */
  readonly ids: readonly string[]
  /** Every place that defines an id: more places than ids means that one is defined twice. */
  readonly definitions: readonly Definition[]
}

const family = (id: string): string => id.replace(/\d+$/, "")
const rank = (id: string): number => families.indexOf(family(id) as (typeof families)[number])
const number = (id: string): number => Number(/\d+$/.exec(id)?.[0])

/** By family, then by number: `G2` before `G10`, governance before cases. */
export const compareIds = (a: string, b: string): number => rank(a) - rank(b) || number(a) - number(b)

/** The ids in a text, without repetition, of known families only: `UTF8` and `H2` are none. */
export const idsIn = (text: string): readonly string[] => [
  ...new Set((text.match(/\b[A-Z]{1,2}\d+\b/g) ?? []).filter((id) => rank(id) >= 0))
]

/** Like `idsIn`, and `G20 to G23` stands for the defined ids between the two as well. For prose, not for test titles. */
export const idsAndRangesIn = (text: string, spec: Specification): readonly string[] => {
  const found = new Set(idsIn(text))
  for (const [, from = "", to = ""] of text.matchAll(/\b([A-Z]{1,2}\d+)\s+to\s+([A-Z]{1,2}\d+)\b/g)) {
    if (family(from) !== family(to)) continue
    for (const id of spec.ids) {
      if (family(id) === family(from) && number(id) >= number(from) && number(id) <= number(to)) found.add(id)
    }
  }
  return [...found].sort(compareIds)
}

/** Reads every Markdown file of a directory as specification. */
export const readSpecification = (directory: string): Specification => {
  const definitions: Definition[] = []
  for (const file of readdirSync(directory).sort()) {
    if (!file.endsWith(".md")) continue
    const lines = readFileSync(join(directory, file), "utf8").split("\n")
    for (const [index, line] of lines.entries()) {
      const id = (/^- \*\*([A-Z]{1,2}\d+)\*\*/.exec(line) ?? /^\| ([A-Z]{1,2}\d+) \|/.exec(line))?.[1]
      if (id !== undefined && rank(id) >= 0) definitions.push({ id, file, line: index + 1 })
    }
  }
  return { ids: [...new Set(definitions.map((d) => d.id))].sort(compareIds), definitions }
}

export interface Gap {
  readonly file: string
  readonly ids: readonly string[]
}

/** Reads the gap files: their ids open the file's name (`G54-C57-title.md`) or stand in an `ids:` line at the top. */
export const readGaps = (directory: string): readonly Gap[] => {
  let files: readonly string[]
  try {
    files = readdirSync(directory).sort()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return []
    throw error
  }
  return files
    .filter((file) => file.endsWith(".md") && file !== "README.md")
    .map((file) => {
      const named = /^(?:[A-Z]{1,2}\d+(?:-(?=[A-Z]{1,2}\d+\b)|(?=[-.])))+/.exec(file)?.[0] ?? ""
      const head = readFileSync(join(directory, file), "utf8").split("\n", 6)
      const front = head.find((line) => line.startsWith("ids:")) ?? ""
      return { file, ids: idsIn(`${named} ${front}`) }
    })
}
