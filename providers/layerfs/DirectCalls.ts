/**
 * File operations on a branch head, without a mount: a batch becomes one commit.
 * Promise: all of a batch or nothing, and a refusal names the operation; a write through one name of a hard-linked file
 * shows under all of them, as it would on a disk; nothing outside of the tree is named. Rules: W4, W21, L2, L15.
 */
import { longestTreePath } from "../../src/base/LongPath.ts"
import { fromInput, isMode, join, meansDirectory, parent, show, type TreePath } from "../../src/base/PathBytes.ts"
import { EditRefused } from "../../src/workspace/WorkspaceError.ts"
import type { FileOperation } from "../../src/workspace/WorkspaceProvider.ts"
import { readContent, spliceContent, storeBytes, type StoredContent } from "./FileContent.ts"
import { type Lookup, pathError, resolvePath } from "../../src/workspace/kit/Lookup.ts"
import type { ObjectStore } from "./ObjectStore.ts"
import { checkOperation } from "../../src/workspace/kit/OperationCheck.ts"
import type { Steps } from "../../src/workspace/kit/Steps.ts"
import type { Node, TreeEditor } from "./TreeEditor.ts"

export interface DirectContext {
  readonly editor: TreeEditor
  readonly objects: ObjectStore
  readonly mountPath: TreePath | null
  /** Time of the call: what changed entries and their directories get. */
  readonly nowNs: bigint
}

/** Applies the batch to the editor. Throws `PathError`, `OutsideWorkspace`, `EditRefused`; the editor is then of no use. */
export function* applyOperations(context: DirectContext, operations: readonly FileOperation[]): Steps<void> {
  for (const [index, operation] of operations.entries()) {
    yield
    try {
      checkOperation(operation)
      yield* applyOne(context, operation, index)
    } catch (error) {
      throw operations.length > 1 ? atIndex(error, index) : error
    }
  }
}

/** Says in the message which step of a batch was refused. */
const atIndex = (error: unknown, index: number): unknown => {
  const known = error as { _tag?: string; message: string }
  if (known._tag === "PathError" || known._tag === "OutsideWorkspace") {
    known.message = `Operation ${index} of the batch: ${known.message}`
  }
  return error
}

/** For what is no directory: a path that can only mean one is refused, also where nothing is yet. */
const resolveNew = (context: DirectContext, input: string | Uint8Array, follow: boolean): TreePath => {
  if (meansDirectory(fromInput(input))) throw pathError("notAFile", fromInput(input))
  return resolve(context, input, follow)
}

function* applyOne(context: DirectContext, operation: FileOperation, index: number): Steps<void> {
  const { editor, nowNs } = context
  if ("mode" in operation && operation.mode !== undefined && !isMode(operation.mode)) {
    throw pathError("invalidMode", fromInput(operation.path))
  }
  switch (operation.op) {
    case "write": {
      const path = resolveNew(context, operation.path, true)
      const bytes = typeof operation.bytes === "string" ? Buffer.from(operation.bytes) : Buffer.from(operation.bytes)
      return yield* writeFile(context, path, bytes, operation.mode)
    }
    case "splice": {
      const path = resolve(context, operation.path, true)
      return yield* spliceFile(context, path, operation)
    }
    case "edit": {
      const path = resolve(context, operation.path, true)
      return yield* writeFile(context, path, edited(context, path, operation, index), undefined)
    }
    case "remove": {
      const path = resolve(context, operation.path, false)
      existing(context, path)
      editor.remove(path)
      return touchParent(context, path)
    }
    case "move":
      return place(context, operation, false)
    case "copy":
      return place(context, operation, true)
    case "mkdir": {
      const path = resolve(context, operation.path, false)
      if (editor.get(path) !== undefined) throw pathError("exists", path)
      makeParents(context, path)
      editor.putDirectory(path, operation.mode ?? 0o755, nowNs, false)
      return touchParent(context, path)
    }
    case "symlink": {
      const path = resolveNew(context, operation.path, false)
      if (editor.get(path) !== undefined) throw pathError("exists", path)
      const target = fromInput(operation.target)
      if (target === "" || target.includes("\0") || target.length > 4095) throw pathError("invalid", path)
      makeParents(context, path)
      editor.putSymlink(path, target, nowNs)
      return touchParent(context, path)
    }
    case "chmod": {
      const path = resolve(context, operation.path, true)
      const node = existing(context, path)
      if (node.type === "directory") return editor.putDirectory(path, operation.mode, node.mtimeNs, false)
      if (node.type === "file") return putThrough(context, path, { ...node, mode: operation.mode })
      throw pathError("notAFile", path)
    }
  }
}

const lookupOf = (context: DirectContext): Lookup => ({
  get: (path) => context.editor.get(path),
  mountPath: context.mountPath
})

/** Resolves; a missing parent is allowed where the operation makes it. The root itself cannot be an operand. */
const resolve = (context: DirectContext, input: string | Uint8Array, follow: boolean): TreePath => {
  const path = fromInput(input)
  const lookup = lookupOf(context)
  let resolved: TreePath
  try {
    resolved = resolvePath(lookup, path, follow)
  } catch (error) {
    if ((error as { reason?: string }).reason !== "notFound") throw error
    resolved = belowMissing(lookup, path)
  }
  if (resolved === "") throw pathError("invalid", path)
  return resolved
}

/** A path some of whose parents do not exist yet: the existing front is resolved, the rest is taken by name. */
const belowMissing = (lookup: Lookup, path: TreePath): TreePath => {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".")
  for (let n = parts.length - 1; n > 0; n -= 1) {
    const rest = parts.slice(n)
    if (rest.includes("..")) throw pathError("notFound", path)
    try {
      const front = resolvePath(lookup, `${path.startsWith("/") ? "/" : ""}${parts.slice(0, n).join("/")}`, true)
      if (rest.some((part) => part.length > 255)) throw pathError("invalid", path)
      const below = rest.reduce((at, part) => join(at, part), front)
      if (below.length > longestTreePath) throw pathError("invalid", path)
      return below
    } catch (error) {
      if ((error as { reason?: string }).reason !== "notFound") throw error
    }
  }
  throw pathError("notFound", path)
}

const existing = (context: DirectContext, path: TreePath): Node => {
  const node = context.editor.get(path)
  if (node === undefined) throw pathError("notFound", path)
  return node
}

const makeParents = (context: DirectContext, path: TreePath): void => {
  const { editor, nowNs } = context
  const above = parent(path)
  const node = editor.get(above)
  if (node?.type === "directory") return
  if (node !== undefined) throw pathError("notADirectory", path)
  makeParents(context, above)
  editor.putDirectory(above, 0o755, nowNs, false)
  touchParent(context, above)
}

const touchParent = (context: DirectContext, path: TreePath): void => {
  const above = parent(path)
  const node = context.editor.get(above)
  if (node?.type === "directory") context.editor.putDirectory(above, node.mode, context.nowNs, false)
}

function* writeFile(context: DirectContext, path: TreePath, bytes: Buffer, mode: number | undefined): Steps<void> {
  const { editor, objects, nowNs } = context
  const before = editor.get(path)
  if (before !== undefined && before.type !== "file") throw pathError("notAFile", path)
  makeParents(context, path)
  const content = yield* storeBytes(objects, bytes, before)
  const file = { mode: mode ?? before?.mode ?? 0o644, mtimeNs: nowNs, ...content }
  if (before === undefined) {
    editor.putFile(path, { ...file, inode: undefined })
    touchParent(context, path)
  } else if (before.id !== content.id || before.mode !== file.mode) {
    putThrough(context, path, file)
  }
}

function* spliceFile(
  context: DirectContext,
  path: TreePath,
  operation: { readonly offset: number; readonly deleteCount: number; readonly bytes: Uint8Array | string }
): Steps<void> {
  const node = existing(context, path)
  if (node.type !== "file") throw pathError("notAFile", path)
  const { offset, deleteCount } = operation
  if (offset + deleteCount > node.size) throw pathError("outOfBounds", path, node.size)
  const bytes = typeof operation.bytes === "string" ? Buffer.from(operation.bytes) : operation.bytes
  const before: StoredContent = { id: node.id, size: node.size }
  const content = yield* spliceContent(context.objects, before, { offset, deleteCount, bytes })
  if (content.id !== node.id) putThrough(context, path, { mode: node.mode, mtimeNs: context.nowNs, ...content })
}

/** Puts a file's new content or mode under every name of its hard-link group. */
const putThrough = (
  context: DirectContext,
  path: TreePath,
  file: { mode: number; mtimeNs: bigint; size: number; id: Parameters<TreeEditor["putFile"]>[1]["id"] }
): void => {
  const { mode, mtimeNs, size, id } = file
  const names = context.editor.namesOfFile(path)
  const inode = names.length > 1 ? `direct:${names[0]}` : undefined
  for (const name of names) context.editor.putFile(name, { mode, mtimeNs, size, id, inode })
}

const edited = (
  context: DirectContext,
  path: TreePath,
  operation: { readonly find: string; readonly replace: string },
  index: number
): Buffer => {
  const node = existing(context, path)
  if (node.type !== "file") throw pathError("notAFile", path)
  const bytes = readContent(context.objects, node)
  const find = Buffer.from(operation.find)
  let matches = 0
  let first = -1
  if (find.length > 0) {
    for (let at = bytes.indexOf(find); at >= 0; at = bytes.indexOf(find, at + 1)) {
      if (matches === 0) first = at
      matches += 1
    }
  }
  if (matches !== 1) {
    throw new EditRefused({
      message: `The text to replace was found ${matches} times instead of once.`,
      remedy: "Read the file, then give a longer piece of text that occurs exactly once. Nothing was changed.",
      path: show(path).path,
      matches,
      index
    })
  }
  return Buffer.concat([bytes.subarray(0, first), Buffer.from(operation.replace), bytes.subarray(first + find.length)])
}

const place = (
  context: DirectContext,
  operation: { readonly from: string | Uint8Array; readonly to: string | Uint8Array },
  copy: boolean
): void => {
  const { editor, nowNs } = context
  const from = resolve(context, operation.from, false)
  const to = resolve(context, operation.to, false)
  const node = existing(context, from)
  if (node.type !== "directory" && meansDirectory(fromInput(operation.to))) throw pathError("notADirectory", to)
  if (from === to) return
  if (to.startsWith(`${from}/`)) throw pathError("invalid", to)
  const target = editor.get(to)
  if (target !== undefined && copy) throw pathError("exists", to)
  // As rename(2): a file may replace a file, a directory an empty directory.
  if (target !== undefined) {
    if (target.type === "directory" && node.type !== "directory") throw pathError("notAFile", to)
    if (target.type !== "directory" && node.type === "directory") throw pathError("notADirectory", to)
    if (target.type === "directory" && (editor.names(to)?.length ?? 0) > 0) throw pathError("notEmpty", to)
  }
  makeParents(context, to)
  if (!copy) {
    editor.remove(from)
    touchParent(context, from)
  }
  if (copy) editor.putCopy(to, node, nowNs)
  else editor.putNode(to, node)
  touchParent(context, to)
}
