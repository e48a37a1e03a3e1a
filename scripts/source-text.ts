/**
 * A blank-out scanner for TypeScript: enough to tell code from strings and comments, without a parser.
 * Promise: `code` has the length of the source, with every character of comments, string contents, template text and regular
 * expressions replaced by a space; quotes and the code inside `${}` stay. Rules: 01-architecture.md, "Arrows".
 */

export interface SourceText {
  readonly source: string
  /** The source with everything blank that is not code. Line breaks stay, so that lines can be counted. */
  readonly code: string
}

/** After these, a slash opens a regular expression; after anything else it divides. */
const beforeRegex = /(?:^|[(,=:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|do|else|void|delete|await|yield))$/

const endOfRegex = (source: string, start: number): number => {
  let inClass = false
  for (let i = start + 1; i < source.length; i++) {
    const c = source[i]
    if (c === "\\") i++
    else if (c === "\n") return start
    else if (c === "[") inClass = true
    else if (c === "]") inClass = false
    else if (c === "/" && !inClass) return i
  }
  return start
}

/** Blanks out what is not code. */
export const scanSource = (source: string): SourceText => {
  const out = source.split("")
  const blank = (from: number, to: number): void => {
    for (let i = from; i < to; i++) if (out[i] !== "\n") out[i] = " "
  }
  // Depth of braces for each template literal that is open at its `${`.
  const templates: number[] = []
  let depth = 0
  // The last bit of code seen, to tell a division from a regular expression.
  let tail = ""

  const template = (from: number): number => {
    let i = from
    for (; i < source.length; i++) {
      if (source[i] === "\\") i++
      else if (source[i] === "`") break
      else if (source[i] === "$" && source[i + 1] === "{") {
        blank(from, i)
        templates.push(depth)
        depth++
        tail = "{"
        return i + 2
      }
    }
    blank(from, Math.min(i, source.length))
    tail = "`"
    return i + 1
  }

  let i = 0
  while (i < source.length) {
    const c = source[i] as string
    const two = source.slice(i, i + 2)
    if (two === "//") {
      const end = source.indexOf("\n", i)
      blank(i, end < 0 ? source.length : end)
      i = end < 0 ? source.length : end
    } else if (two === "/*") {
      const end = source.indexOf("*/", i + 2)
      const stop = end < 0 ? source.length : end + 2
      blank(i, stop)
      i = stop
    } else if (c === '"' || c === "'") {
      let end = i + 1
      while (end < source.length && source[end] !== c && source[end] !== "\n") end += source[end] === "\\" ? 2 : 1
      blank(i + 1, Math.min(end, source.length))
      i = end + 1
      tail = c
    } else if (c === "`") {
      i = template(i + 1)
    } else if (c === "/" && beforeRegex.test(tail.trimEnd())) {
      const end = endOfRegex(source, i)
      if (end > i) blank(i, end + 1)
      i = end + 1
      tail = ")"
    } else {
      if (c === "{") depth++
      if (c === "}") {
        depth--
        if (templates.at(-1) === depth) {
          templates.pop()
          i = template(i + 1)
          continue
        }
      }
      if (!/\s/.test(c)) tail = (tail + c).slice(-12)
      else if (!tail.endsWith(" ")) tail = `${tail} `.slice(-12)
      i++
    }
  }
  return { source, code: out.join("") }
}

/** Index of the bracket that closes the one at `open`, or the end of the text. */
export const closing = (code: string, open: number): number => {
  let depth = 0
  for (let i = open; i < code.length; i++) {
    const c = code[i] as string
    if ("([{".includes(c)) depth++
    if (")]}".includes(c) && --depth === 0) return i
  }
  return code.length
}

/** The text of the string literal that starts at `at`, with template holes shown as `…`; undefined when there is none. */
export const literalAt = (
  text: SourceText,
  at: number
): { readonly text: string; readonly end: number } | undefined => {
  const quote = text.source[at]
  if (quote !== '"' && quote !== "'" && quote !== "`") return undefined
  let value = ""
  let i = at + 1
  while (i < text.source.length && text.source[i] !== quote) {
    if (quote === "`" && text.source[i] === "$" && text.source[i + 1] === "{") {
      i = closing(text.code, i + 1) + 1
      value += "…"
    } else {
      if (text.source[i] === "\\") i++
      value += text.source[i] ?? ""
      i++
    }
  }
  return { text: value, end: i }
}

/** The line, counted from 1, on which `index` lies. */
export const lineOf = (source: string, index: number): number => source.slice(0, index).split("\n").length
