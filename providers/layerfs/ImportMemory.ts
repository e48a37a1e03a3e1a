/**
 * What an import remembers of its source: size, times, inode, device and content id of each file, so that the next import of
 * the same place reads only what changed.
 * Promise: a file is taken as known only where all of these are equal and a change since would show in them (C5; see ImportTrust);
 * a damaged or half-written memory is as none, one of another store, place or machine too. Rules: W13, L10, L14; C5. It lies in
 * the store's cache and can be thrown away.
 *
 * On disk: `cache/import-<digest of the path>`: 32 bytes sha256 of the rest · zstd of (length u32 · JSON head · columns · paths).
 */
import { hash } from "node:crypto"
import { closeSync, lstatSync, openSync, readFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import type { TreePath } from "../../src/base/PathBytes.ts"
import type { ImportReading } from "./ImportReading.ts"
import type { ScannedFile } from "../../src/workspace/kit/ImportScan.ts"
import { type Sign, thisMachine } from "../../src/workspace/kit/ImportSigns.ts"
import { trusting } from "./ImportTrust.ts"
import { idFromBytes, idLength } from "../../src/base/DigestBytes.ts"

/** size, mtime, ctime, inode, device. */
const columns = 5
const digestLength = 32

interface Head {
  readonly version: 1
  readonly commit: string
  /** What the signs were seen on: another machine may find other binaries foreign. */
  readonly machine: string
  readonly count: number
  readonly signs: readonly (readonly [number, readonly Sign[]])[]
}

export interface Remembered {
  readonly id: Digest
  readonly signs: readonly Sign[]
}

const none: readonly Sign[] = []

const fileOf = (cache: string, source: TreePath): string =>
  join(cache, `import-${hash("sha256", Buffer.from(source, "latin1"), "hex").slice(0, 32)}`)

const machineName = (): string => JSON.stringify(thisMachine())

export class ImportMemory {
  readonly #at = new Map<TreePath, number>()
  readonly #numbers: BigInt64Array
  readonly #ids: Buffer
  readonly #signs: ReadonlyMap<number, readonly Sign[]>

  private constructor(paths: readonly TreePath[], numbers: BigInt64Array, ids: Buffer, signs: Head["signs"]) {
    for (const [n, path] of paths.entries()) this.#at.set(path, n)
    this.#numbers = numbers
    this.#ids = ids
    this.#signs = new Map(signs)
  }

  /** `isStored` says whether the commit stands in this store, and so everything that it names. */
  static open(cache: string, source: TreePath, isStored: (commit: string) => boolean): ImportMemory {
    const empty = new ImportMemory([], new BigInt64Array(), Buffer.alloc(0), [])
    try {
      const path = fileOf(cache, source)
      // A link, a device or a FIFO in its place is none of ours, and might never end.
      if (!lstatSync(path).isFile()) return empty
      const stored = readFileSync(path)
      const packed = stored.subarray(digestLength)
      if (!hash("sha256", packed, "buffer").equals(stored.subarray(0, digestLength))) return empty
      const bytes = zstdDecompressSync(packed)
      const headEnd = 4 + bytes.readUInt32LE(0)
      const head = JSON.parse(bytes.toString("utf8", 4, headEnd)) as Head
      if (head.version !== 1 || head.machine !== machineName() || !isStored(head.commit)) return empty
      const numbersEnd = headEnd + head.count * columns * 8
      const idsEnd = numbersEnd + head.count * idLength
      // Copied: a column of 64-bit numbers must begin at a multiple of eight.
      const numbers = new BigInt64Array(Uint8Array.from(bytes.subarray(headEnd, numbersEnd)).buffer)
      const paths = bytes.toString("latin1", idsEnd).split("\0")
      return new ImportMemory(paths, numbers, Buffer.from(bytes.subarray(numbersEnd, idsEnd)), head.signs)
    } catch {
      // Absent, unreadable or not one of ours: then everything is read, as the first time.
      return empty
    }
  }

  /** What is known of a file that nobody touched since. */
  find(file: ScannedFile): Remembered | undefined {
    const n = this.#at.get(file.path)
    if (n === undefined) return undefined
    for (const [column, value] of numbersOf(file).entries()) {
      if (this.#numbers[n * columns + column] !== value) return undefined
    }
    return { id: idFromBytes(this.#ids, n * idLength), signs: this.#signs.get(n) ?? none }
  }
}

/** Inode numbers use all 64 bits on some file systems. */
const numbersOf = (file: ScannedFile): readonly bigint[] => [
  BigInt(file.size),
  BigInt.asIntN(64, file.mtimeNs),
  BigInt.asIntN(64, file.ctimeNs),
  BigInt.asIntN(64, file.ino),
  BigInt.asIntN(64, file.device)
]

export interface ToRemember {
  readonly cache: string
  readonly source: TreePath
  readonly commit: string
  /** Milliseconds since 1970, before the first file was looked at. */
  readonly began: number
  /** How long before that a file must have changed last; undefined: no file is to be trusted. */
  readonly settlingNs: bigint | undefined
  readonly files: readonly ScannedFile[]
  readonly reading: ImportReading
}

/** Writes what the next import may trust. A failure is none of the import's, which stands already. */
export const remember = ({ cache, source, commit, began, settlingNs, files, reading }: ToRemember): void => {
  const isTrusted = settlingNs === undefined ? () => false : trusting(source, BigInt(began) * 1_000_000n - settlingNs)
  const kept: ScannedFile[] = []
  const signs: (readonly [number, readonly Sign[]])[] = []
  for (const [index, file] of files.entries()) {
    if (file.id === undefined || reading.isUnsure(index) || !isTrusted(file)) continue
    const found = reading.signs.get(index)
    if (found !== undefined) signs.push([kept.length, found])
    kept.push(file)
  }
  const packed = pack({ version: 1, commit, machine: machineName(), count: kept.length, signs }, kept)
  try {
    faultPoint("layerfs.import.remember")
    const fd = openSync(fileOf(cache, source), "w", 0o600)
    try {
      writeAll(fd, hash("sha256", packed, "buffer"))
      crashPoint("layerfs.import.remembering")
      writeAll(fd, packed)
    } finally {
      closeSync(fd)
    }
  } catch {
    // A full disk: what was written so far does not match its digest and is as none.
  }
}

/** One buffer, filled in place: an import of many files holds enough beside it. */
const pack = (head: Head, files: readonly ScannedFile[]): Buffer => {
  const headBytes = Buffer.from(JSON.stringify(head))
  const pathBytes = files.reduce((sum, file) => sum + file.path.length + 1, 0)
  const bytes = Buffer.allocUnsafeSlow(4 + headBytes.length + files.length * (columns * 8 + idLength) + pathBytes)
  bytes.writeUInt32LE(headBytes.length)
  let at = 4 + headBytes.copy(bytes, 4)
  for (const file of files) for (const value of numbersOf(file)) at = bytes.writeBigInt64LE(value, at)
  for (const file of files) at += bytes.write(file.id!.slice(7), at, "hex")
  for (const [n, file] of files.entries()) {
    if (n > 0) at = bytes.writeUInt8(0, at)
    at += bytes.write(file.path, at, "latin1")
  }
  return zstdCompressSync(bytes.subarray(0, at), { params: { [constants.ZSTD_c_compressionLevel]: 1 } })
}

const writeAll = (fd: number, bytes: Buffer): void => {
  let done = 0
  while (done < bytes.length) done += writeSync(fd, bytes, done)
}
