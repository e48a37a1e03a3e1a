/**
 * Write scopes: which relative paths a piece of work may write, and when two of them overlap.
 * Promise: an overlap is never missed. A scope covers its path and everything below it; `.` covers all; a pattern (`*`, `?`,
 * `[`, `{`) covers what lies below the last directory in front of it, so `src/**` is `src`, and `*.md` is everything. Rules: G34.
 */

const isPattern = (segment: string): boolean => /[*?[{]/.test(segment)

/** The directory or file that a scope surely stays within, as path segments. */
const prefixOf = (scope: string): readonly string[] => {
  const segments = scope.split("/").filter((segment) => segment !== "" && segment !== ".")
  const pattern = segments.findIndex(isPattern)
  return pattern < 0 ? segments : segments.slice(0, pattern)
}

/** Whether something may lie within both scopes. Names are compared byte for byte. */
export const scopesOverlap = (a: string, b: string): boolean => {
  const [one, other] = [prefixOf(a), prefixOf(b)]
  const shorter = Math.min(one.length, other.length)
  return one.slice(0, shorter).every((segment, index) => segment === other[index])
}
