/**
 * `apply`: several file operations as one.
 * Promise: all of a batch, or nothing: before a step, what it will touch is set aside; when a step is refused, everything is
 * put back and the error names the step. Rules: W4, W21.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { fromInput, type PathInput, type TreePath } from "../../base/PathBytes.ts"
import { EditRefused } from "../WorkspaceError.ts"
import type { FileOperation } from "../WorkspaceProvider.ts"
import { checkOperation } from "./OperationCheck.ts"
import { at, type Beneath } from "./Beneath.ts"
import * as Direct from "./DirectCalls.ts"
import { removeTree } from "./RemoveTree.ts"

type Undo = () => Promise<void>

/** Which names a step changes; the links on the way to a file's content are followed, as the step itself will. */
const touches = (operation: FileOperation): readonly { readonly path: PathInput; readonly follow: boolean }[] => {
  switch (operation.op) {
    case "write":
    case "splice":
    case "edit":
    case "chmod":
      return [{ path: operation.path, follow: true }]
    case "remove":
    case "mkdir":
    case "symlink":
      return [{ path: operation.path, follow: false }]
    case "copy":
      return [{ path: operation.to, follow: false }]
    case "move":
      return [
        { path: operation.from, follow: false },
        { path: operation.to, follow: false }
      ]
  }
}

const run = async (tree: Beneath, operation: FileOperation, index: number): Promise<void> => {
  switch (operation.op) {
    case "write":
      return Direct.writeFile(tree, operation.path, operation.bytes, operation.mode)
    case "splice": {
      const { path: file, offset, deleteCount, bytes: data } = operation
      return Direct.splice(tree, file, offset, deleteCount, typeof data === "string" ? Buffer.from(data) : data)
    }
    case "edit":
      return Direct.edit(tree, operation.path, operation.find, operation.replace, index)
    case "remove":
      return Direct.remove(tree, operation.path)
    case "move":
      return Direct.move(tree, operation.from, operation.to)
    case "copy":
      return Direct.copy(tree, operation.from, operation.to)
    case "mkdir":
      return Direct.makeDirectory(tree, operation.path, operation.mode)
    case "symlink":
      return Direct.makeLink(tree, operation.path, Buffer.from(fromInput(operation.target), "latin1"))
    case "chmod":
      return Direct.chmod(tree, operation.path, operation.mode)
  }
}

/** `work` is a private directory of the store, where copies wait until the batch has passed. */
export const applyBatch = async (tree: Beneath, operations: readonly FileOperation[], work: string): Promise<void> => {
  const aside = fs.mkdtempSync(path.join(work, "batch-"))
  const undo: Undo[] = []
  try {
    for (const [index, operation] of operations.entries()) {
      try {
        checkOperation(operation)
        for (const touched of touches(operation)) undo.push(await setAside(tree, touched, aside, undo.length))
        await run(tree, operation, index)
      } catch (error) {
        for (const back of undo.toReversed()) await back()
        throw atIndex(error, index)
      }
    }
  } finally {
    await removeTree(aside)
  }
}

/** A refused edit carries the step's index itself; other errors get it as a field, so that the caller can find the step. */
const atIndex = (error: unknown, index: number): unknown => {
  if (error instanceof EditRefused || typeof error !== "object" || error === null) return error
  return Object.assign(error, { index })
}

/** Remembers a name as it is, or the first missing directory above it. */
const setAside = async (
  tree: Beneath,
  touched: { readonly path: PathInput; readonly follow: boolean },
  aside: string,
  number: number
): Promise<Undo> => {
  const found = firstMissing(tree, touched)
  if ("missing" in found) {
    return async () => {
      const there = tree.resolve(found.missing, false, (place) => place.stat !== undefined)
      if (there) Direct.remove(tree, found.missing)
    }
  }
  const name = String(number)
  const copy = { directory: aside, name }
  await Direct.withHeld(tree, found.path, (place) => Direct.copyEntry(place, copy, true))
  const stat = fs.lstatSync(path.join(aside, name))
  return async () => {
    await Direct.withHeld(tree, found.path, async (place) => {
      const now = fs.lstatSync(at(place.directory, place.name), { throwIfNoEntry: false })
      // A file is restored in place: its other names and open descriptors go on seeing it.
      if (stat.isFile() && now?.isFile() === true) {
        fs.copyFileSync(path.join(aside, name), at(place.directory, place.name))
        fs.chmodSync(at(place.directory, place.name), stat.mode & 0o7777)
        fs.utimesSync(at(place.directory, place.name), stat.atime, stat.mtimeMs / 1000)
        return
      }
      if (now !== undefined) Direct.removeAt(place.directory, place.name)
      await Direct.copyEntry(copy, place, true)
    })
  }
}

const bytes = (path: TreePath): Buffer => Buffer.from(path, "latin1")

const firstMissing = (
  tree: Beneath,
  touched: { readonly path: PathInput; readonly follow: boolean }
): { readonly missing: Buffer } | { readonly path: Buffer } => {
  const parts = Direct.treePath(tree, touched.path).split("/")
  for (let count = 1; count <= parts.length; count += 1) {
    const last = count === parts.length
    const prefix = bytes(parts.slice(0, count).join("/"))
    const place = tree.resolve(prefix, !last || touched.follow, (found) => ({
      path: bytes(found.path),
      there: found.stat !== undefined
    }))
    if (!place.there) return { missing: place.path }
    if (last) return { path: place.path }
  }
  return { path: bytes("") }
}
