/**
 * Lines of a file that a regular expression matches: the same for an open workspace and for a stored state.
 * Promise: a binary file has no lines, an empty one neither, and a line feed at the end begins none; the text is read as UTF-8; where an expression was left by an earlier match plays no part.
 * Rules: W4, L3.
 */

/** A file is binary when its first 8,000 bytes hold a NUL, as for git (`buffer_is_binary`, xdiff-interface.c). */
export const isBinary = (bytes: Uint8Array): boolean => bytes.subarray(0, 8000).includes(0)

/** The expression without the flags under which it would go on from its last match. */
export const lineExpression = (pattern: RegExp): RegExp =>
  new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ""))

/** Calls `found` for each line that matches, from the one behind `skip` lines on, until it answers false. */
export const grepLines = (
  expression: RegExp,
  bytes: Buffer,
  skip: number,
  found: (line: number, text: string) => boolean
): void => {
  const lines = bytes.toString("utf8").split("\n")
  if (lines.at(-1) === "") lines.pop()
  for (let index = skip; index < lines.length; index += 1) {
    if (expression.test(lines[index]!) && !found(index + 1, lines[index]!)) return
  }
}
