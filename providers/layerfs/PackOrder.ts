/**
 * Reads the objects of many files in the order in which they lie in the packs.
 * Promise: each group is opened once, in memory that is freed before the next; every object is checked against its id, and one that
 * a compaction moved meanwhile is found where it lies now. Rules: L3, L10, L12.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { type GroupFiles, nothing } from "./GroupFiles.ts"
import { idOf } from "../../src/base/DigestBytes.ts"
import type { ObjectReader } from "./ObjectReader.ts"
import type { Place } from "./ObjectStore.ts"
import type { ObjectSource } from "./StoredTrees.ts"

export class PackOrder {
  readonly #reader: ObjectReader
  readonly #groups: GroupFiles
  #open: Place | undefined
  #take = nothing

  constructor(reader: ObjectReader, groups: GroupFiles) {
    this.#reader = reader
    this.#groups = groups
  }

  /** True when reading what lies there ends the bytes of what was read before. */
  opensAnother(place: Place): boolean {
    return !place.framed && (this.#open?.pack !== place.pack || this.#open.groupOffset !== place.groupOffset)
  }

  /** The object. Its bytes last until another group is opened. Throws `ObjectDamaged`. */
  read(id: Digest, place: Place): Buffer {
    // A frame may need others; the reader keeps those.
    if (place.framed) return this.#reader.readPlace(id, place)
    if (this.opensAnother(place)) {
      this.#take = this.#groups.open(place)
      this.#open = place
    }
    const bytes = this.#take(place.offset, place.length)
    return bytes?.length === place.length && idOf(bytes) === id ? bytes : this.#reader.readPlace(id, place)
  }

  /** Where a file of several objects is read from: its first one is taken from the open group. */
  startingAt(id: Digest, place: Place): ObjectSource {
    const first = Buffer.from(this.read(id, place))
    return { read: (wanted) => (wanted === id ? first : this.#reader.read(wanted)) }
  }
}
