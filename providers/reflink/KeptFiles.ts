/**
 * Reads files of a kept state.
 * Promise: no link is followed out of it; a file that is not there, or is shorter than it says, is `ObjectDamaged`; a mode of 000 hides
 * nothing from its owner; the event loop gets its turns. Rules: L10, W21, RL2.
 */
import * as fs from "node:fs"
import { basename } from "node:path"
import { fromInput, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import type { Piece, Snapshot } from "../../src/workspace/kit/SnapshotBackend.ts"
import { FileSystemFailure, ObjectDamaged } from "../../src/workspace/WorkspaceError.ts"
import { Descent, openRoot } from "../../src/base/Descent.ts"
import { stateDirectory, treeIn, workingPlace } from "./States.ts"
import { runTool } from "./Tool.ts"

const pieceBytes = 1 << 20
/** Bytes and files between two turns of the event loop. */
const stretchBytes = 4 << 20
const stretchFiles = 200

const lostState = (snapshot: Snapshot): ObjectDamaged =>
  new ObjectDamaged({
    message: "What was kept of a commit is not there any more, or not as it was kept.",
    remedy: "Run `verify` to see which commits are damaged; go on from another one, or import again.",
    object: snapshot.commit
  })

const isLost = (error: unknown): boolean =>
  ["ENOENT", "ENOTDIR", "ELOOP"].includes(String((error as NodeJS.ErrnoException).code))

/** A clone of a file that its own mode hides from its owner, made with every right over this user's files. */
const readable = async (states: string, root: TreePath, path: TreePath): Promise<string> => {
  const place = workingPlace(states)
  const inside = openRoot(root)
  const third = openRoot(fromInput(states))
  try {
    const argv = ["cp", "--reflink=always", "--no-preserve=all", "-T", "--", "{}", `/proc/self/fd/3/${basename(place)}`]
    const input = toBytes(`./${path}\0`)
    const { code } = await runTool(["xargs", "-0", "-I", "{}", ...argv], { inside, third, input, mapped: true })
    if (code === 0) return place
    throw new FileSystemFailure({
      message: "A file of a kept state cannot be read by this user.",
      remedy: "Open the store as the user that made it, where user namespaces are allowed.",
      syscallCode: "EACCES"
    })
  } finally {
    fs.closeSync(inside)
    fs.closeSync(third)
  }
}

/** Files of the state, in the order of `paths`. */
export const keptFiles = async function* (
  states: string,
  snapshot: Snapshot,
  paths: readonly TreePath[]
): AsyncGenerator<Piece> {
  const root = fromInput(treeIn(stateDirectory(states, snapshot)))
  const open = (file: TreePath): number => fs.openSync(toBytes(file), fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW)
  let bytes = 0
  let files = 0
  let descent: Descent
  try {
    descent = new Descent(root)
  } catch (error) {
    throw isLost(error) ? lostState(snapshot) : error
  }
  const openFile = async (path: TreePath): Promise<number> => {
    try {
      return open(descent.to(path))
    } catch (error) {
      if (isLost(error)) throw lostState(snapshot)
      if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error
    }
    const copy = await readable(states, root, path)
    try {
      return open(fromInput(copy))
    } finally {
      fs.rmSync(copy)
    }
  }
  try {
    for (const path of paths) {
      const file = await openFile(path)
      try {
        const stat = fs.fstatSync(file)
        if (!stat.isFile()) throw lostState(snapshot)
        // A file without a block has nothing but a hole; a small one may lie in its inode.
        const isHole = stat.blocks === 0 && stat.size > pieceBytes
        if (isHole) yield { path, bytes: new Uint8Array(0), zeros: stat.size, last: true }
        for (let at = 0, last = isHole; !last; ) {
          const piece = Buffer.allocUnsafe(Math.min(pieceBytes, stat.size - at))
          const read = piece.length === 0 ? 0 : fs.readSync(file, piece, 0, piece.length, at)
          if (read === 0 && at < stat.size) throw lostState(snapshot)
          at += read
          last = at >= stat.size
          yield { path, bytes: piece.subarray(0, read), last }
          bytes += read
          if (bytes < stretchBytes) continue
          bytes = 0
          await new Promise((resolve) => setImmediate(resolve))
        }
      } finally {
        fs.closeSync(file)
      }
      files += 1
      if (files % stretchFiles === 0) await new Promise((resolve) => setImmediate(resolve))
    }
  } finally {
    descent.close()
  }
}

/** The tree of a kept state. Throws `ObjectDamaged` when it is not there. */
export const keptDirectory = (states: string, snapshot: Snapshot): TreePath => {
  const at = fromInput(treeIn(stateDirectory(states, snapshot)))
  if (fs.lstatSync(toBytes(at), { throwIfNoEntry: false })?.isDirectory() !== true) throw lostState(snapshot)
  return at
}
