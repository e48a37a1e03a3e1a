/**
 * Lines of a file that a regular expression matches: the same for an open workspace and for a stored state.
 * Promise: a binary file has no lines, an empty one neither, and a line feed at the end begins none; the text is read as UTF-8; where an expression was left by an earlier match plays no part.
 * Rules: W4, L3.
 */

/** A file is binary when its first 8,000 bytes hold a NUL, as for git (`buffer_is_binary`, xdiff-interface.c). */
export const isBinary = (bytes: Uint8Array): boolean => bytes.subarray(0, 8000).includes(0)

/** Bytes that become text at once. V8 has no string of 512 MiB, and a split text takes a multiple of its bytes. */
const pieceBytes = 1024 * 1024
/** Of a longer line only its beginning is looked at. */
export const longestLine = 64 * 1024 * 1024
const lineFeed = 0x0a

/** Behind the last line that ends within a piece from `start`; a line longer than a piece is one of its own. */
const pieceEnd = (bytes: Buffer, start: number): number => {
  if (bytes.length - start <= pieceBytes) return bytes.length
  const last = bytes.lastIndexOf(lineFeed, start + pieceBytes - 1)
  if (last >= start) return last + 1
  const next = bytes.indexOf(lineFeed, start)
  return next < 0 ? bytes.length : next + 1
}

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
  let before = 0
  for (let start = 0; start < bytes.length; ) {
    const end = pieceEnd(bytes, start)
    const lines = bytes.toString("utf8", start, Math.min(end, start + longestLine)).split("\n")
    if (bytes[end - 1] === lineFeed && lines.at(-1) === "") lines.pop()
    for (let index = Math.max(0, skip - before); index < lines.length; index += 1) {
      if (expression.test(lines[index]!) && !found(before + index + 1, lines[index]!)) return
    }
    before += lines.length
    start = end
  }
}
