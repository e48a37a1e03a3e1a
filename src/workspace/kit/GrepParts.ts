/**
 * A large text in parts that end with a line each, for a search of lines.
 * Promise: memory is bounded whatever the size of the file and of its lines; every line is in one part, of one that is longer than 64 MiB
 * its beginning. Rules: W4, L3.
 */
import * as fs from "node:fs"
import { promisify } from "node:util"
import { longestLine } from "./Grep.ts"

const read = promisify(fs.read)
const lineFeed = 0x0a

/** Bytes that are read at once: a file up to this size is one part. */
export const partBytes = 16 * 1024 * 1024

export interface TextPart {
  readonly bytes: Buffer
  /** Lines in front of it. */
  readonly before: number
}

const linesIn = (bytes: Buffer): number => {
  let lines = 0
  for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, at + 1)) lines += 1
  return lines
}

export async function* partsOf(descriptor: number): AsyncGenerator<TextPart> {
  let before = 0
  /** The beginning of a line that has not ended yet. */
  let begun: Buffer[] = []
  let length = 0
  const part = (bytes: Buffer, lines: number): TextPart => {
    const found = { bytes, before }
    before += lines
    begun = []
    length = 0
    return found
  }
  const buffer = Buffer.allocUnsafeSlow(partBytes)
  for (;;) {
    const { bytesRead } = await read(descriptor, buffer, 0, partBytes, null)
    if (bytesRead === 0) break
    let bytes = buffer.subarray(0, bytesRead)
    const first = bytes.indexOf(lineFeed)
    if (first >= 0 && length > longestLine) {
      yield part(Buffer.concat(begun), 1)
      bytes = bytes.subarray(first + 1)
    }
    const end = bytes.lastIndexOf(lineFeed) + 1
    if (end > 0) {
      const whole = Buffer.concat([...begun, bytes.subarray(0, end)])
      yield part(whole, linesIn(whole))
      bytes = bytes.subarray(end)
    }
    // Of what goes on for too long, nobody looks at more.
    if (length <= longestLine) begun.push(Buffer.from(bytes))
    length += bytes.length
  }
  if (length > 0) yield part(Buffer.concat(begun), 1)
}
