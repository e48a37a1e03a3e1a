/**
 * Glob patterns over tree paths: `*`, `?`, `[a-z]`, `{a,b}` within a name, `**` across names.
 * Promise: matches whole paths, byte by byte; a name that starts with a dot needs no special care. Rules: W4.
 */
import { fromInput, type TreePath } from "../../../src/base/PathBytes.ts"

/** A test for tree paths. A pattern without a slash matches names at the root only, as the shell does. */
export const compileGlob = (pattern: string): ((path: TreePath) => boolean) => {
  const glob = fromInput(pattern)
  let out = ""
  let depth = 0
  for (let i = 0; i < glob.length; i += 1) {
    const c = glob[i]!
    if (c === "*" && glob[i + 1] === "*") {
      const whole = (i === 0 || glob[i - 1] === "/") && glob[i + 2] === "/"
      out += whole ? "(?:[^]*/)?" : "[^]*"
      i += whole ? 2 : 1
    } else if (c === "*") out += "[^/]*"
    else if (c === "?") out += "[^/]"
    else if (c === "[" && glob.indexOf("]", i + 2) > 0) {
      const end = glob.indexOf("]", i + 2)
      const body = glob
        .slice(i + 1, end)
        .replace(/\\/g, "\\\\")
        .replace(/^!/, "^")
      out += `[${body}]`
      i = end
    } else if (c === "{") {
      depth += 1
      out += "(?:"
    } else if (c === "}" && depth > 0) {
      depth -= 1
      out += ")"
    } else if (c === "," && depth > 0) out += "|"
    else out += c.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")
  }
  const expression = new RegExp(`^${out}${")".repeat(depth)}$`)
  return (path) => expression.test(path)
}
