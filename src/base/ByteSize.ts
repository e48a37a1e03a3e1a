/**
 * Sizes as people write them: a whole number of bytes, or a number with a unit of 1,024 (`64 MiB`).
 * Promise: what is not certainly a size is undefined, never a limit that nobody meant. Rules: W15; C56.
 */

/** Bytes, or text such as `"64 MiB"`; units `B`, `KiB`, `MiB`, `GiB`, `TiB`. */
export type ByteSize = number | string

const units: Readonly<Record<string, number>> = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 }

/** The size in bytes; undefined when it is not a whole number of bytes from 0 up. */
export const parseByteSize = (size: unknown): number | undefined => {
  if (typeof size === "number") return Number.isSafeInteger(size) && size >= 0 ? size : undefined
  if (typeof size !== "string") return undefined
  const [, amount, unit] = /^(\d+(?:\.\d+)?) ?([KMGT]?i?B)$/.exec(size) ?? []
  const factor = unit === undefined ? undefined : units[unit]
  const bytes = factor === undefined ? undefined : Math.floor(Number(amount) * factor)
  return bytes !== undefined && Number.isSafeInteger(bytes) ? bytes : undefined
}
