/**
 * An open workspace as programs outside of it meet it: where its tree can be reached, and how a process of theirs gets in.
 * Promise: what is told was looked at just now and is the tree itself; a process that enters has the rights, the variables and the end
 * of one that the SDK starts. Both hold until the workspace ends. Rules: W4, W17, W21, S23.
 */
import * as fs from "node:fs"
import { fromInput, toBytes, type TreePath } from "../../base/PathBytes.ts"
import type { EnterOptions, Entering, VisiblePath } from "../WorkspaceProvider.ts"
import type { Inside } from "./Inside.ts"
import { isOverlaid, type OpenTree } from "./OpenTree.ts"
import { variablesFor } from "./Variables.ts"

const isTree = (tree: OpenTree, path: TreePath): boolean => {
  const at = fs.statSync(toBytes(path), { bigint: true, throwIfNoEntry: false })
  const root = fs.fstatSync(tree.root, { bigint: true })
  return at?.dev === root.dev && at.ino === root.ino
}

/** Through the holder's first process, else where it lies. */
const placeOf = ({ holder, path, content }: OpenTree): TreePath =>
  holder === null ? fromInput(content) : `/proc/${holder.innerPid}/root${path}`

/** False when what stands at the workspace's path inside is something else by now. */
export const isMounted = (tree: OpenTree): boolean => isTree(tree, placeOf(tree))

/** Undefined when nothing at that place is the tree any more. */
export const visiblePathOf = (tree: OpenTree): VisiblePath | undefined => {
  const by = isOverlaid(tree.projection) ? "procRoot" : "directory"
  const path = by === "procRoot" ? placeOf(tree) : fromInput(tree.content)
  return isTree(tree, path) ? { path: Buffer.from(path, "latin1").toString("utf8"), by } : undefined
}

export const entering = (
  inside: Inside,
  argv: readonly [string, ...string[]],
  options: EnterOptions,
  cwd: string
): Entering => {
  const { variables, passed } = variablesFor({ ...options, privateTmp: inside.privateTmp })
  const launcher = inside.asCaller(cwd)
  return {
    argv: [...launcher, ...argv] as unknown as readonly [string, ...string[]],
    env: { ...variables, ...inside.variablesOfAll },
    cwd: launcher.length > 0 ? null : cwd,
    passedEnv: passed
  }
}
