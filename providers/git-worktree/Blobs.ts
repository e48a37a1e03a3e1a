/**
 * Reads contents out of a repository of ours by `git cat-file --batch`.
 * Promise: not a byte of an object is handed out before all of it was held against its id; what is missing or damaged is
 * `ObjectDamaged`; memory is bounded whatever an object's size. Rules: L10, GW2.
 */
import { createHash } from "node:crypto"
import type { Readable } from "node:stream"
import { ObjectDamaged } from "../../src/workspace/WorkspaceError.ts"
import { type GitOptions, type RunningGit, saysNo, startGit } from "./Git.ts"

/** A part of one of the objects that were asked for; `last` ends it. */
export interface BlobPart {
  /** Which one, by its place in the question. */
  readonly index: number
  readonly bytes: Buffer
  readonly last: boolean
}

/** Objects up to this size are checked in memory; larger ones are read twice. */
const inMemory = 8 << 20

export const damaged = (object: string): ObjectDamaged =>
  new ObjectDamaged({
    message: "What is kept of this object is missing or is not what was kept.",
    remedy: "Restore the store's directory from a backup, or import the directory again.",
    object
  })

const algorithmOf = (id: string): "sha1" | "sha256" => (id.length === 40 ? "sha1" : "sha256")

class Reader {
  readonly #parts: AsyncIterator<Buffer>
  #rest: Buffer = Buffer.alloc(0)
  constructor(stream: Readable) {
    this.#parts = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  }
  async #more(): Promise<boolean> {
    const next = await this.#parts.next()
    if (next.done === true) return false
    this.#rest = this.#rest.length === 0 ? next.value : Buffer.concat([this.#rest, next.value])
    return true
  }
  /** Up to the line feed; undefined at the end. */
  async line(): Promise<string | undefined> {
    for (;;) {
      const end = this.#rest.indexOf(10)
      if (end >= 0) {
        const line = this.#rest.toString("latin1", 0, end)
        this.#rest = this.#rest.subarray(end + 1)
        return line
      }
      if (!(await this.#more())) return undefined
    }
  }
  /** At most `most` bytes, at least one; undefined at the end. */
  async some(most: number): Promise<Buffer | undefined> {
    if (this.#rest.length === 0 && !(await this.#more())) return undefined
    const bytes = this.#rest.subarray(0, most)
    this.#rest = this.#rest.subarray(bytes.length)
    return bytes
  }
}

interface Found {
  readonly id: string
  readonly index: number
  readonly size: number
}

/** Why there is no more: what git cannot read is damaged, and of a git that was ended nothing is known. */
const noMore = async ({ ended }: RunningGit, id: string): Promise<ObjectDamaged> => {
  await ended.catch((error) => {
    if (!saysNo(error)) throw error
  })
  return damaged(id)
}

async function* body(running: RunningGit, reader: Reader, { id, index, size }: Found): AsyncGenerator<BlobPart> {
  const hash = createHash(algorithmOf(id)).update(`blob ${size}\0`)
  const parts: Buffer[] = []
  let left = size
  while (left > 0) {
    const bytes = await reader.some(left)
    if (bytes === undefined) throw await noMore(running, id)
    hash.update(bytes)
    left -= bytes.length
    if (size <= inMemory) parts.push(bytes)
    else yield { index, bytes, last: false }
  }
  const end = await reader.line()
  if (end === undefined) throw await noMore(running, id)
  if (hash.digest("hex") !== id || end !== "") throw damaged(id)
  yield { index, bytes: parts.length === 1 ? parts[0]! : Buffer.concat(parts), last: true }
}

/**
 * The objects of `ids`, in that order. `asTheyCome`: the parts of a large object come before it is held against its id, for a caller who
 * takes back what he did with them when this throws.
 */
export async function* blobs(
  repository: string,
  ids: readonly string[],
  options: GitOptions & { readonly asTheyCome?: boolean } = {}
): AsyncGenerator<BlobPart> {
  if (ids.length === 0) return
  const running = startGit(["cat-file", "--batch", "--buffer"], { ...options, gitDir: repository })
  running.stdin.end(`${ids.join("\n")}\n`)
  const reader = new Reader(running.stdout)
  try {
    for (const [index, id] of ids.entries()) {
      const header = await reader.line()
      if (header === undefined) throw await noMore(running, id)
      const size = Number(/^[0-9a-f]+ blob (\d+)$/.exec(header)?.[1] ?? Number.NaN)
      if (Number.isNaN(size)) throw damaged(id)
      if (size > inMemory && options.asTheyCome !== true) {
        for await (const _ of blobs(repository, [id], { ...options, asTheyCome: true }));
      }
      yield* body(running, reader, { id, index, size })
    }
  } finally {
    await running.stop()
  }
}
