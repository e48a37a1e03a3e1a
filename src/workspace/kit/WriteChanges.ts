/**
 * Carries a list of changes out in a directory: what a merge makes of one side.
 * Promise: no link on the way is followed out of the tree; what fails leaves a directory that nobody goes on with. Rules: W21, K2.
 */
import * as fs from "node:fs"
import { readFile } from "node:fs/promises"
import { fromInput, toBytes, type TreePath } from "../../base/PathBytes.ts"
import { Beneath } from "./Beneath.ts"
import * as Direct from "./DirectCalls.ts"
import type { TreeChange } from "./Tree.ts"

const bytesOf = async (change: TreeChange & { readonly op: "putFile" }): Promise<Uint8Array> => {
  if ("bytes" in change.content) return change.content.bytes
  if ("file" in change.content) return readFile(toBytes(change.content.file))
  throw new Error("A change that is written down brings its content")
}

const lies = (beneath: Beneath, path: Buffer): boolean =>
  beneath.resolve(path, false, (place) => place.stat !== undefined)

/** `names` gets the first name of each file that has several. */
const carryOut = async (beneath: Beneath, change: TreeChange, names: Map<string, Buffer>): Promise<void> => {
  const path = toBytes(change.path)
  if (change.op === "remove") return Direct.remove(beneath, path)
  if (change.op === "putDirectory") {
    if (lies(beneath, path)) {
      if (!change.replace) return Direct.chmod(beneath, path, change.mode)
      Direct.remove(beneath, path)
    }
    return Direct.makeDirectory(beneath, path, change.mode)
  }
  if (lies(beneath, path)) Direct.remove(beneath, path)
  if (change.op === "putSymlink") return Direct.makeLink(beneath, path, toBytes(change.target))
  const first = change.inode === undefined ? undefined : names.get(change.inode)
  if (first !== undefined) return Direct.hardLink(beneath, path, first)
  await Direct.writeFile(beneath, path, await bytesOf(change), change.mode)
  if (change.inode !== undefined) names.set(change.inode, path)
}

/** In their order. `tree` is ours alone. Rejects with `PathError`, `OutsideWorkspace` and Node's own errors. */
export const writeChanges = async (tree: string, changes: readonly TreeChange[]): Promise<void> => {
  const root = fs.openSync(tree, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
  try {
    const beneath = new Beneath(root, fromInput(tree) as TreePath)
    const names = new Map<string, Buffer>()
    for (const change of changes) await carryOut(beneath, change, names)
  } finally {
    fs.closeSync(root)
  }
}
