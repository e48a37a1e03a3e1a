/**
 * Decoded groups in a file without a name: a tree is read by path, and its groups lie by kind and name, so that each would be decoded again and again.
 * Promise: the memory is the kernel's, which takes it back when it needs it; the file goes with its descriptor, by whatever end; where none can be made, or the disk is full,
 * groups are decoded again. What comes out is checked by whoever reads it (L10). Rules: 01 (bounded memory), W15.
 */
import * as fs from "node:fs"

/** O_TMPFILE (open(2), Linux 3.11): Node has no name for it. */
const O_TMPFILE = 0o20200000

/** Of the disk, for one served tree. */
const mostBytes = 2 * 1024 * 1024 * 1024

export class Spill {
  #file: number | undefined
  readonly #places = new Map<string, { readonly at: number; readonly length: number }>()
  #end = 0

  constructor(directory: string) {
    try {
      this.#file = fs.openSync(directory, O_TMPFILE | fs.constants.O_RDWR, 0o600)
    } catch {
      this.#file = undefined
    }
  }

  /** False when it is not kept. */
  put(key: string, bytes: Buffer): boolean {
    if (this.#file === undefined || this.#end + bytes.length > mostBytes) return false
    try {
      if (fs.writeSync(this.#file, bytes, 0, bytes.length, this.#end) < bytes.length) return false
    } catch {
      this.close()
      return false
    }
    this.#places.set(key, { at: this.#end, length: bytes.length })
    this.#end += bytes.length
    return true
  }

  /** A part of what was put under a key, in `into` where that has the room; undefined when it is not here. */
  get(key: string, offset: number, length: number, into?: Buffer): Buffer | undefined {
    const place = this.#places.get(key)
    if (place === undefined || this.#file === undefined || offset + length > place.length) return undefined
    const bytes = into !== undefined && length <= into.length ? into.subarray(0, length) : Buffer.allocUnsafe(length)
    return fs.readSync(this.#file, bytes, 0, length, place.at + offset) === length ? bytes : undefined
  }

  close(): void {
    if (this.#file !== undefined) fs.closeSync(this.#file)
    this.#file = undefined
    this.#places.clear()
  }
}
