/**
 * File names as bytes: Linux names are any bytes but NUL and `/`, so paths inside a tree are byte strings.
 * Promise: no name is changed on its way through; a name that is not UTF-8 is shown with its bytes beside it. (01; C18; L15)
 *
 * Inside Coppice a tree path is a `TreePath`: a latin1 ("binary") string with one character per byte, relative to the
 * tree's root, parts joined by `/`, the root itself being "". Such strings compare, hash and key maps by their bytes,
 * in plain byte order, at native speed. They are converted at the edges only.
 */
import { isUtf8 } from "node:buffer"

/** A path inside a tree, one character per byte. See the file's head. */
export type TreePath = string & { readonly TreePath?: never }

/** A path as a caller may give it: text (UTF-8) or bytes. */
export type PathInput = string | Uint8Array

/** How a path is shown in JSON: text, and the exact bytes in base64 when the text is not the whole truth. */
export interface ShownPath {
  readonly path: string
  readonly pathBytes?: string
}

/** The tree path of a caller's input. Does not normalise: see the provider's resolution rules (W21). */
export const fromInput = (input: PathInput): TreePath =>
  typeof input === "string" ? Buffer.from(input, "utf8").toString("latin1") : Buffer.from(input).toString("latin1")

/** The bytes of a tree path, as the `fs` functions take them. */
export const toBytes = (path: TreePath): Buffer => Buffer.from(path, "latin1")

/** Text for people and JSON. Invalid UTF-8 is replaced, and the bytes are given beside it. */
export const show = (path: TreePath): ShownPath => {
  const bytes = toBytes(path)
  if (isUtf8(bytes)) return { path: bytes.toString("utf8") }
  return { path: bytes.toString("utf8"), pathBytes: bytes.toString("base64") }
}

/** Joins two tree paths. */
export const join = (parent: TreePath, name: TreePath): TreePath => (parent === "" ? name : `${parent}/${name}`)

/** Whether a path lies below another, absolute ones or two of one tree. */
export const isBelow = (path: TreePath, ancestor: TreePath): boolean =>
  ancestor === "/" ? path !== "/" : path.startsWith(`${ancestor}/`)

/** The parent directory of a tree path; the root's parent is the root. */
export const parent = (path: TreePath): TreePath => {
  const slash = path.lastIndexOf("/")
  return slash < 0 ? "" : path.slice(0, slash)
}

/** True when a path, by a slash or dot at its end, can only mean a directory (path_resolution(7), "Final entry"). */
export const meansDirectory = (path: TreePath): boolean => /\/\.?$|(^|\/)\.\.?$/.test(path)

/** Permission bits as a call may give them; anything else would be cut down to other bits in silence. */
export const isMode = (mode: number): boolean => Number.isInteger(mode) && mode >= 0 && mode <= 0o7777

/** The last part of a tree path. */
export const basename = (path: TreePath): TreePath => path.slice(path.lastIndexOf("/") + 1)

/** Byte order, for sorting: plain comparison of the latin1 strings. */
export const compare = (a: TreePath, b: TreePath): number => (a < b ? -1 : a > b ? 1 : 0)
