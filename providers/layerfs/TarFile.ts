/**
 * An archive as a file: takes what a tar would take. Promise: flushed when it ends; what the disk refuses is Node's own error. Rules: W16, L15.
 */
import * as fs from "node:fs"
import { promisify } from "node:util"
import { tarEnd } from "./TarStream.ts"

const writev = promisify(fs.writev)

/** Bytes that are put together before they go to the disk. */
const piece = 1024 * 1024
/** Buffers that one call takes (IOV_MAX). */
const atOnce = 1024

export class TarFile {
  readonly #descriptor: number
  #parts: Buffer[] = []
  #size = 0

  /** The descriptor is the caller's to close. */
  constructor(descriptor: number) {
    this.#descriptor = descriptor
  }

  async write(bytes: Buffer): Promise<void> {
    this.#parts.push(bytes)
    this.#size += bytes.length
    if (this.#size >= piece || this.#parts.length >= atOnce) await this.drain()
  }

  async drain(): Promise<void> {
    let rest: Buffer[] = this.#parts
    this.#parts = []
    this.#size = 0
    while (rest.length > 0) {
      let { bytesWritten } = await writev(this.#descriptor, rest)
      const left: Buffer[] = []
      for (const part of rest) {
        if (bytesWritten < part.length) left.push(part.subarray(bytesWritten))
        bytesWritten = Math.max(0, bytesWritten - part.length)
      }
      rest = left
    }
  }

  async end(): Promise<void> {
    await this.write(tarEnd)
    await this.drain()
    await promisify(fs.fsync)(this.#descriptor)
  }
}
