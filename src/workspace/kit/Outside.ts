/**
 * An open workspace as programs outside of it meet it: where its tree can be reached, and how a process of theirs gets in.
 * Promise: what is told was looked at just now and is the tree itself; a process that enters has the rights, the variables and the end
 * of one that the SDK starts. Both hold until the workspace ends. Rules: W4, W17, W21, S23.
 */
import * as fs from "node:fs"
import { toBytes } from "../../base/PathBytes.ts"
import type { EnterOptions, Entering, VisiblePath } from "../WorkspaceProvider.ts"
import type { Inside } from "./Inside.ts"
import type { OpenTree } from "./OpenTree.ts"
import { variablesFor } from "./Variables.ts"

/** Undefined when nothing at that place is the tree any more. */
export const visiblePathOf = (tree: OpenTree): VisiblePath | undefined => {
  const shown = Buffer.from(tree.path, "latin1").toString("utf8")
  const found: VisiblePath =
    tree.projection === "overlay" && tree.holder !== null
      ? { path: `/proc/${tree.holder.innerPid}/root${shown}`, by: "procRoot" }
      : { path: tree.content, by: "directory" }
  const at = fs.statSync(toBytes(Buffer.from(found.path).toString("latin1")), { bigint: true, throwIfNoEntry: false })
  const root = fs.fstatSync(tree.root, { bigint: true })
  return at?.dev === root.dev && at.ino === root.ino ? found : undefined
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
