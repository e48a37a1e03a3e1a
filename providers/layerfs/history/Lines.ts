/**
 * Files as lines, and which lines of two versions are the same.
 * Promise: lines are compared byte by byte, without their line feed; the algorithm is that of the `diff` package (Myers, 1986); where
 * two versions differ by more than its bound, the answer says so instead of taking minutes. Rules: L3; 01 "never write by hand".
 */
import { diffArrays } from "diff"

/** The largest file that is taken apart into lines. */
export const largestText = 4 * 1024 * 1024

/** The lines of a text as byte strings, without their line feeds; a feed at the end begins no line. */
export const linesOf = (bytes: Buffer): string[] => {
  const lines = bytes.toString("latin1").split("\n")
  if (lines.at(-1) === "") lines.pop()
  return lines
}

/**
 * Edits (lines gone plus lines new, between what both versions begin and end with) up to which lines are matched. The work of
 * Myers' algorithm grows with the square: at this bound it is a second or two.
 */
const editsAtMost = 5000

export interface Matched {
  /** For each line of the newer version its line in the older one, or -1. */
  readonly before: Int32Array
  /** More differs than is compared: between the parts that are equal at both ends, every line counts as new. */
  readonly coarse: boolean
}

export const matchLines = (older: readonly string[], newer: readonly string[]): Matched => {
  const before = new Int32Array(newer.length).fill(-1)
  const shorter = Math.min(older.length, newer.length)
  let head = 0
  while (head < shorter && older[head] === newer[head]) {
    before[head] = head
    head += 1
  }
  let tail = 0
  while (tail < shorter - head && older[older.length - 1 - tail] === newer[newer.length - 1 - tail]) {
    tail += 1
    before[newer.length - tail] = older.length - tail
  }
  const a = older.slice(head, older.length - tail)
  const b = newer.slice(head, newer.length - tail)
  if (a.length === 0 || b.length === 0) return { before, coarse: false }
  const steps = diffArrays(a, b, { maxEditLength: editsAtMost })
  if (steps === undefined) return { before, coarse: true }
  let i = head
  let j = head
  for (const { added, removed, count } of steps) {
    if (removed) i += count
    else if (added) j += count
    else {
      for (let n = 0; n < count; n += 1) before[j + n] = i + n
      i += count
      j += count
    }
  }
  return { before, coarse: false }
}

/** Which part of the larger version's lines the other one has too, each as often as it is there, from 0 to 1. */
export const likeness = (a: readonly string[], b: readonly string[]): number => {
  const counts = new Map<string, number>()
  for (const line of a) counts.set(line, (counts.get(line) ?? 0) + 1)
  let same = 0
  for (const line of b) {
    const left = counts.get(line) ?? 0
    if (left === 0) continue
    counts.set(line, left - 1)
    same += 1
  }
  return same / Math.max(a.length, b.length, 1)
}
