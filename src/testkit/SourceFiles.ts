/**
 * Sources for the workspace suite, written down as one table of paths. Promise: each entry is made as it stands, parents included.
 * Rules: K1.
 */
import { chmodSync, linkSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { toBytes, type TreePath } from "../base/PathBytes.ts"

/**
 * By path, one character a byte: a string or bytes are a file's content, `null` an empty directory, `link` a symbolic link to that target,
 * `hard` another name of an earlier file. `mode` is set last.
 */
export type Files = Readonly<
  Record<
    TreePath,
    | string
    | Uint8Array
    | null
    | { readonly link: TreePath }
    | { readonly hard: TreePath }
    | { readonly bytes: string | Uint8Array; readonly mode: number }
    | { readonly directory: number }
  >
>

export const writeFiles = (root: string, files: Files): void => {
  const at = (path: TreePath): Buffer => Buffer.concat([Buffer.from(`${root}/`), toBytes(path)])
  const made: [Buffer, number][] = []
  for (const [path, what] of Object.entries(files)) {
    const slash = path.lastIndexOf("/")
    if (slash > 0) mkdirSync(at(path.slice(0, slash)), { recursive: true })
    if (typeof what === "string" || what instanceof Uint8Array) writeFileSync(at(path), what)
    else if (what === null) mkdirSync(at(path), { recursive: true })
    else if ("link" in what) symlinkSync(toBytes(what.link), at(path))
    else if ("hard" in what) linkSync(at(what.hard), at(path))
    else if ("directory" in what) {
      mkdirSync(at(path), { recursive: true })
      made.push([at(path), what.directory])
    } else {
      writeFileSync(at(path), what.bytes)
      made.push([at(path), what.mode])
    }
  }
  for (const [path, mode] of made.toReversed()) chmodSync(path, mode)
}
