/**
 * Large inputs of the bench, made once and kept below `node_modules/.cache`.
 * Promise: a tree is there whole or not at all; its name holds all that it was made from, and what made it. Rules: workspaces.md, "Figures".
 */
import { mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { sha256 } from "../src/base/Digest.ts"
import { generateTree, type TreeOptions } from "./tree.ts"

/** The directory for kept inputs. */
export const cacheOf = (root: string): string => {
  const cache = join(root, "node_modules", ".cache", "coppice-bench")
  mkdirSync(cache, { recursive: true })
  return cache
}

/** The generated tree of this size and seed. A changed generator makes it anew. */
export const cachedTree = (root: string, tree: TreeOptions, progress: (text: string) => void): string => {
  const program = sha256(readFileSync(join(root, "bench", "tree.ts"))).slice(7, 15)
  const path = join(cacheOf(root), `tree-${tree.files}-${tree.bytes}-${tree.seed}-${program}`)
  if (statSync(path, { throwIfNoEntry: false }) !== undefined) return path
  progress(`tree of ${tree.files} files, seed ${tree.seed}`)
  const half = `${path}.making-${process.pid}`
  rmSync(half, { recursive: true, force: true })
  generateTree(half, tree)
  renameSync(half, path)
  return path
}
