/**
 * Reads the titles of tests out of their source, with the titles of the describe blocks around them.
 * Promise: what vitest would report as the full title, as far as it is written down literally; a title that is computed
 * is given as undefined and never guessed. Rules: docs/spec/00-overview.md, "Reading this specification".
 */
import { closing, lineOf, literalAt, scanSource } from "./source-text.ts"

export interface TestTitle {
  /** Full title, holes of a template shown as `…`; undefined when no part of it is literal. */
  readonly title: string | undefined
  readonly line: number
}

interface Call {
  readonly kind: "test" | "group"
  readonly title: string | undefined
  readonly at: number
  readonly end: number
}

const callsOf = (source: string): readonly Call[] => {
  const text = scanSource(source)
  const calls: Call[] = []
  for (const match of text.code.matchAll(/(?<![.\w$])(test|it|describe|layer)(?=[.(])/g)) {
    // Follow `.each([...])`, `.skipIf(x)`, `.effect.prop` to the call whose first argument is the title.
    let at = match.index + match[0].length
    for (;;) {
      const name = /^\s*\.\s*\w+/.exec(text.code.slice(at))
      if (name !== null) {
        at += name[0].length
        continue
      }
      const open = /^\s*\(\s*/.exec(text.code.slice(at))
      if (open === null) break
      const end = closing(text.code, at + open[0].indexOf("("))
      const next = /^\s*[.(]/.test(text.code.slice(end + 1, end + 20))
      const literal = literalAt(text, at + open[0].length)
      if (literal !== undefined || !next) {
        const kind = match[1] === "describe" || match[1] === "layer" ? "group" : "test"
        // `test("x")` in a matcher's sense, such as /x/.test(s), is excluded by the look-behind; a bare `test(x)` stays.
        calls.push({ kind, title: literal?.text, at: match.index, end })
        break
      }
      at = end + 1
    }
  }
  return calls
}

/** Every test of a source file. */
export const testTitlesOf = (source: string): readonly TestTitle[] => {
  const calls = callsOf(source)
  return calls
    .filter((call) => call.kind === "test")
    .map((call) => {
      const around = calls.filter((other) => other.kind === "group" && other.at < call.at && other.end > call.end)
      const parts = [...around, call].flatMap((one) => (one.title === undefined ? [] : [one.title]))
      return { title: parts.length === 0 ? undefined : parts.join(" "), line: lineOf(source, call.at) }
    })
}
