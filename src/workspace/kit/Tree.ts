/**
 * What a tree consists of, and how the projections tell the store about changes.
 * Promise: entries carry everything a root must reproduce (L15); a change names its content by where the bytes lie, so that
 * harvesting an upper directory reads each changed file once. Rules: L14, L15, W6, W8, W22.
 */
import type { Digest } from "../../base/Digest.ts"
import type { TreePath } from "../../base/PathBytes.ts"

/** One entry of a directory. Names and targets are byte strings (see PathBytes). */
export interface TreeEntry {
  readonly name: TreePath
  readonly type: "file" | "directory" | "symlink"
  /** `mode & 0o7777`; 0 for a symlink. */
  readonly mode: number
  /** Nanoseconds since 1970. Kept beside the hashed entry, never in it (L14). */
  readonly mtimeNs: bigint
  readonly size: number
  /** Content of a file, or the subtree of a directory; null for a symlink. */
  readonly id: Digest | null
  readonly target: TreePath | null
  /** Path of the first name of this hard-link group, in byte order; null when the file has one name (W22). */
  readonly linkGroup: TreePath | null
}

/** Looks into one immutable root. Synchronous: it runs in the worker, beside the store. */
export interface TreeReader {
  readonly entry: (path: TreePath) => TreeEntry | undefined
  /** Entries of a directory in byte order; undefined when it is not a directory. */
  readonly list: (path: TreePath) => readonly TreeEntry[] | undefined
  /** The names of a hard-link group, which is known by its first. */
  readonly namesOf: (group: TreePath) => readonly TreePath[]
}

/**
 * How the bytes of a new file are found: an absolute path (byte string) to read without following links, the bytes, or what
 * the store already holds under an entry's id and size. `root` is a directory that the file lies below, whoever may be at work there: from it on no
 * link is followed (see PlacedFiles).
 */
export type ContentSource =
  | { readonly file: TreePath; readonly root?: TreePath }
  | { readonly bytes: Uint8Array }
  | { readonly id: Digest; readonly size: number }

/**
 * A change against a base tree. Applied in order; parents come before children.
 * `putDirectory` with `replace` empties what the base had below it; without, it only sets mode and mtime.
 */
export type TreeChange =
  | { readonly op: "remove"; readonly path: TreePath }
  | {
      readonly op: "putFile"
      readonly path: TreePath
      readonly mode: number
      readonly mtimeNs: bigint
      readonly content: ContentSource
      /** Equal keys within one change list are names of one inode (W22). */
      readonly inode?: string
    }
  | { readonly op: "putSymlink"; readonly path: TreePath; readonly target: TreePath; readonly mtimeNs: bigint }
  | {
      readonly op: "putDirectory"
      readonly path: TreePath
      readonly mode: number
      readonly mtimeNs: bigint
      readonly replace: boolean
    }
