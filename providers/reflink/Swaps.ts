/**
 * Directories of a source that somebody moved while it was cloned.
 * Promise: whatever took the place of a directory meanwhile, nothing of what lies there stays in the clone: what lies below a directory that may have
 * been moved is held against the source from directory to directory, and what differs is cloned anew from there. Rules: W13, W21; C17, C27.
 *
 * `cp` (coreutils 9.1) names what lies deeper by its path, so a link that takes the place of a directory leads it elsewhere. To put a link there,
 * the directory has to be moved or removed: that changes the ctime of both it and the one above it, which nobody can set back. FAT has no ctime.
 */
import * as fs from "node:fs"
import { promisify } from "node:util"
import { Descent } from "../../src/base/Descent.ts"
import { parent, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { breathing } from "../../src/workspace/kit/Steps.ts"
import { runTool } from "./Tool.ts"

const read = promisify(fs.read)
const pieceBytes = 1 << 20

/** Two ticks of the slowest kernel clock: a change after a look at something younger may not show (CONFIG_HZ=100). */
const racySeconds = 0.02

/** Names that `find` printed, whatever it could not enter (its code is 1 then). Of one that was ended nothing is taken. */
const found = async (root: number, args: readonly string[], signal: AbortSignal): Promise<readonly string[]> => {
  const pieces: Buffer[] = []
  const { code } = await runTool(["find", ".", ...args], {
    inside: root,
    signal,
    onOutput: (piece) => pieces.push(piece)
  })
  if (code > 1) throw Object.assign(new Error("find was ended"), { code: "EINTR", syscall: "readdir" })
  return Buffer.concat(pieces).toString("latin1").split("\0").slice(0, -1)
}

/** Each directory of a tree, with a text that is another one after it was moved. */
export type Directories = ReadonlyMap<TreePath, string>

export const directoriesOf = async (root: number, signal: AbortSignal): Promise<Directories> => {
  const began = Date.now() / 1000
  const lines = await found(root, ["-type", "d", "-printf", "%D:%i %C@ %P\\0"], signal)
  return new Map(
    lines.map((line) => {
      const [inode = "", ctime = ""] = line.split(" ", 2)
      const path = line.slice(inode.length + ctime.length + 2)
      return [path, Number(ctime) < began - racySeconds ? `${inode} ${ctime}` : "young"]
    })
  )
}

const stood = (path: TreePath, before: Directories, after: Directories): boolean => {
  const first = before.get(path)
  return first !== undefined && first !== "young" && first === after.get(path)
}

/** Entries of the clone below a directory that may have been moved between two looks at the source; parents before children. */
export const doubtful = async (
  target: number,
  before: Directories,
  after: Directories,
  signal: AbortSignal
): Promise<readonly TreePath[]> => {
  if ([...before.keys(), ...after.keys()].every((path) => stood(path, before, after))) return []
  const moved = new Map<TreePath, boolean>([["", false]])
  /** Whether it, or one above it, may have been moved. */
  const wasMoved = (path: TreePath): boolean => {
    const known = moved.get(path)
    if (known !== undefined) return known
    const itself = !stood(path, before, after) && !stood(parent(path), before, after)
    const answer = itself || wasMoved(parent(path))
    moved.set(path, answer)
    return answer
  }
  const entries = await found(target, ["-mindepth", "1", "-printf", "%P\\0"], signal)
  return entries.filter((path) => wasMoved(parent(path)))
}

const withFile = async <A>(at: TreePath, use: (descriptor: number) => Promise<A>): Promise<A> => {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants
  const descriptor = fs.openSync(toBytes(at), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
  try {
    return await use(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}

const sameBytes = async (a: number, b: number): Promise<boolean> => {
  const [of, as] = [fs.fstatSync(a), fs.fstatSync(b)]
  if (!of.isFile() || !as.isFile() || of.size !== as.size) return false
  // Nothing but a hole; a small file may lie in its inode.
  if (of.blocks === 0 && as.blocks === 0 && of.size > pieceBytes) return true
  const [left, right] = [Buffer.allocUnsafe(pieceBytes), Buffer.allocUnsafe(pieceBytes)]
  for (let at = 0; at < of.size; ) {
    const { bytesRead } = await read(a, left, 0, pieceBytes, at)
    const { bytesRead: other } = await read(b, right, 0, bytesRead, at)
    if (bytesRead === 0 || other !== bytesRead) return false
    if (left.compare(right, 0, other, 0, bytesRead) !== 0) return false
    at += bytesRead
  }
  return true
}

const sameFile = (source: Descent, target: Descent, path: TreePath): Promise<boolean> =>
  withFile(source.to(path), (a) => withFile(target.to(path), (b) => sameBytes(a, b)))

const isSame = async (source: Descent, target: Descent, path: TreePath): Promise<boolean> => {
  try {
    const [of, as] = [source, target].map((descent) => fs.lstatSync(toBytes(descent.to(path)))) as [fs.Stats, fs.Stats]
    if (as.isDirectory()) return of.isDirectory()
    if (!as.isSymbolicLink()) return await sameFile(source, target, path)
    const [first, second] = [source, target].map((descent) => fs.readlinkSync(toBytes(descent.to(path)), "latin1"))
    return of.isSymbolicLink() && first === second
  } catch {
    // Gone, moved again, or not to be read: it is brought once more, or not at all.
    return false
  }
}

/** Which of the entries of a clone are not what its source has there. */
export const differing = async (
  [source, target]: readonly [source: number, target: number],
  paths: readonly TreePath[],
  signal: AbortSignal
): Promise<readonly TreePath[]> => {
  const [of, as] = [new Descent("", source), new Descent("", target)]
  const breathe = breathing(() => signal.aborted)
  const different: TreePath[] = []
  try {
    for (const path of paths) {
      await breathe()
      signal.throwIfAborted()
      if (!(await isSame(of, as, path))) different.push(path)
    }
    return different
  } finally {
    of.close()
    as.close()
  }
}
