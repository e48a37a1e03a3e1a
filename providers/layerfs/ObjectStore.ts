/**
 * Content-addressed, immutable objects: the floor of LayerFS.
 * Promise: an object is its id; nothing is handed out that does not hash to it (L10); what `flush` returned from survives
 * kill -9 and, at durability `full`, power loss (L8). Rules: L8, L10, L14; 01 "On disk". Runs in the LayerFS worker.
 */
import type { Digest } from "../../src/base/Digest.ts"

/**
 * `blob`: content of a file, or one block of a large one. `list`: the ids of the blocks of a file above 4 MiB (its own id is
 * then the file's W6 content digest). `tree`: hashed entries of a directory. `times`: mtimes beside a tree, never hashed into it.
 * `chunk`: a piece of a large file, stored as a frame of its own, so that reading it decodes nothing else (C21).
 */
export type ObjectKind = "blob" | "tree" | "times" | "list" | "chunk"

/** What an object is probably similar to: one other, or several, one behind the other, as where two pieces became one. */
export type Like = Digest | readonly Digest[]

export interface ObjectStore {
  readonly has: (id: Digest) => boolean
  /** The whole object, checked against its id before a byte is returned. Throws `ObjectDamaged`, `StorageFailure`. */
  readonly read: (id: Digest) => Buffer
  /** Length of the object's content without reading it. */
  readonly size: (id: Digest) => number
  /**
   * Adds an object to the open group; nothing is durable before `flush`. Returns its id.
   * An object already stored (or already in the group) costs a hash and a lookup. `like` names an object that is probably
   * similar (the version before of the same path, the directory before the edit, the chunk at the same place): a hint, which
   * changes at most how the object is stored. None of them need exist.
   */
  readonly write: (kind: ObjectKind, bytes: Buffer, like?: Like) => Digest
  /** Same, for content whose id is already known (computed while streaming). */
  readonly writeKnown: (kind: ObjectKind, id: Digest, bytes: Buffer, like?: Like) => void
  /**
   * Makes everything written since the last flush durable: pack bytes, fsync of the pack (and its directory when new).
   * The rows that index them are returned for the caller's one SQLite commit, which also moves the head.
   */
  readonly flush: () => readonly PackedObject[]
  /** Forgets what was written since the last flush. */
  readonly abandon: () => void
}

/** Where an object lies: a pack, the group inside it, and the place in the group. */
export interface Place {
  readonly pack: number
  readonly groupOffset: number
  readonly groupLength: number
  /** A group of frames: `offset` is where the object's frame begins. Else the group is solid, and `offset` counts in what it decompresses to. */
  readonly framed: boolean
  readonly offset: number
  /** Of the object itself, however it is stored. */
  readonly length: number
}

export interface PackedObject extends Place {
  readonly id: Digest
  readonly kind: ObjectKind
}
