/**
 * Keeps the output of a command within bounds, however much of it there is.
 * Promise: all of it up to 1 MiB, else the first and the last half MiB; the whole of it, up to 64 MiB, in a spill file where
 * one is given; every byte is counted; the writer is never held back. Rules: W4.
 */
import * as fs from "node:fs"
import type { Captured } from "../WorkspaceProvider.ts"

const memoryCap = 1 << 20
const half = memoryCap / 2
const spillCap = 64 << 20

export class Capture {
  #total = 0
  #head: Buffer[] = []
  #headBytes = 0
  #tail: Buffer[] = []
  #tailBytes = 0
  #spill: number | undefined
  #spilled = 0
  #spillFailed = false
  readonly #spillPath: string | undefined

  constructor(spillPath?: string) {
    this.#spillPath = spillPath
  }

  add(chunk: Buffer): void {
    this.#total += chunk.length
    if (this.#spill !== undefined) this.#write(chunk)
    else if (this.#total > memoryCap && this.#spillPath !== undefined && !this.#spillFailed) this.#openSpill(chunk)
    const room = Math.max(0, half - this.#headBytes)
    if (room > 0) {
      const part = chunk.subarray(0, room)
      this.#head.push(part)
      this.#headBytes += part.length
    }
    const rest = chunk.subarray(room)
    if (rest.length === 0) return
    this.#tail.push(rest)
    this.#tailBytes += rest.length
    while (this.#tail.length > 1 && this.#tailBytes - this.#tail[0]!.length >= half) {
      this.#tailBytes -= this.#tail.shift()!.length
    }
  }

  #openSpill(chunk: Buffer): void {
    try {
      const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants
      this.#spill = fs.openSync(this.#spillPath!, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    } catch {
      // A spill is a convenience; without one the rest is counted and dropped, which `truncated` and `spill: null` say.
      this.#spillFailed = true
      return
    }
    for (const part of [...this.#head, ...this.#tail, chunk]) this.#write(part)
  }

  /** Synchronous on purpose: nothing queues up in memory when the disk is slower than the command. */
  #write(chunk: Buffer): void {
    const part = chunk.subarray(0, Math.max(0, spillCap - this.#spilled))
    if (part.length === 0 || this.#spillFailed) return
    try {
      this.#spilled += fs.writeSync(this.#spill!, part)
    } catch {
      this.#spillFailed = true
    }
  }

  finish(): Captured {
    if (this.#spill !== undefined) fs.closeSync(this.#spill)
    const truncated = this.#total > memoryCap
    const head = Buffer.concat(this.#head)
    const all = Buffer.concat(this.#tail)
    const tail = truncated ? all.subarray(all.length - half) : all
    const left = this.#total - head.length - tail.length
    const text = truncated ? `${head.toString()}\n[${left} bytes left out]\n${tail.toString()}` : undefined
    const bytes = Buffer.concat([head, tail])
    return {
      bytes,
      text: text ?? bytes.toString(),
      totalBytes: this.#total,
      truncated,
      spill: this.#spill === undefined || this.#spillFailed ? null : this.#spillPath!
    }
  }
}
