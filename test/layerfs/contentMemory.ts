/**
 * Objects in memory: what the content code needs of a store, with a count of what was written and read.
 * Promise: an object is its id, as in the real store. Seeded bytes, so that a failing run can be repeated.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { idOf } from "../../src/base/DigestBytes.ts"
import type { Like, ObjectKind, ObjectStore } from "../../providers/layerfs/ObjectStore.ts"

export class MemoryObjects implements ObjectStore {
  readonly objects = new Map<
    Digest,
    { readonly kind: ObjectKind; readonly bytes: Buffer; readonly like: Like | undefined }
  >()
  /** Ids in the order in which they were written and read since the last `forget`. */
  written: Digest[] = []
  reads: Digest[] = []

  forget(): void {
    this.written = []
    this.reads = []
  }
  bytesWritten(): number {
    return this.written.reduce((sum, id) => sum + this.objects.get(id)!.bytes.length, 0)
  }
  has(id: Digest): boolean {
    return this.objects.has(id)
  }
  read(id: Digest): Buffer {
    const found = this.objects.get(id)
    if (found === undefined) throw new Error(`no object ${id}`)
    this.reads.push(id)
    return found.bytes
  }
  size(id: Digest): number {
    return this.read(id).length
  }
  write(kind: ObjectKind, bytes: Buffer, like?: Like): Digest {
    const id = idOf(bytes)
    this.writeKnown(kind, id, bytes, like)
    return id
  }
  writeKnown(kind: ObjectKind, id: Digest, bytes: Buffer, like?: Like): void {
    if (idOf(bytes) !== id) throw new Error("an object under another id than its own")
    if (this.objects.has(id)) return
    this.objects.set(id, { kind, bytes, like })
    this.written.push(id)
  }
  flush(): readonly [] {
    return []
  }
  abandon(): void {}
  verify(): number {
    return this.objects.size
  }
}

/** Bytes that look random and are always the same for one seed (xorshift32, Marsaglia 2003). */
export const seeded = (seed: number, length: number): Buffer => {
  const bytes = Buffer.allocUnsafe(length + 4)
  let x = (seed * 2654435761 + 1) | 0 || 1
  for (let at = 0; at < length; at += 4) {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    bytes.writeInt32LE(x, at)
  }
  return bytes.subarray(0, length)
}
