/**
 * Files of a state that lies as a directory, in pieces. Promise: no link is followed to get to a file; a file that is not there, or is none, is
 * `ObjectDamaged`. Rules: L10, W21.
 */
import * as fs from "node:fs"
import { promisify } from "node:util"
import { reach } from "../../base/LongPath.ts"
import { join, type TreePath } from "../../base/PathBytes.ts"
import { ObjectDamaged } from "../WorkspaceError.ts"
import { breathing } from "./Steps.ts"
import type { Piece } from "./SnapshotBackend.ts"

const read = promisify(fs.read)
const pieceBytes = 1024 * 1024
const flags = fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK

/** What opening says when the name means something else than a file. */
const gone = ["ENOENT", "ENOTDIR", "ELOOP"]

const notThere = (): ObjectDamaged =>
  new ObjectDamaged({
    message: "A kept file is not there, or is no file any more.",
    remedy: "Run verify to see what else is damaged; restore the store from a backup.",
    object: "a kept file"
  })

/** In one call that does not wait: where a long path is walked in steps, its descriptors are closed when the call returns. */
const openFile = (at: TreePath): number => {
  try {
    return reach(at, (short) => fs.openSync(short, flags))
  } catch (error) {
    throw gone.includes((error as NodeJS.ErrnoException).code ?? "") ? notThere() : error
  }
}

/** To hand the reading of so little to another thread costs more than to do it. */
const smallBytes = 64 * 1024

/** One for all: whoever asks for many small files asks for each by itself. */
const breathe = breathing(() => false)

function* smallFile(path: TreePath, descriptor: number, size: number): Generator<Piece> {
  for (;;) {
    // One more than there should be: a file that grew is seen.
    const buffer = Buffer.allocUnsafe(size + 1)
    const length = fs.readSync(descriptor, buffer)
    yield { path, bytes: buffer.subarray(0, length), last: length === 0 }
    if (length === 0) return
  }
}

export async function* contentsOfDirectory(root: TreePath, paths: readonly TreePath[]): AsyncGenerator<Piece> {
  for (const path of paths) {
    await breathe()
    const descriptor = openFile(join(root, path))
    try {
      const stat = fs.fstatSync(descriptor)
      if (!stat.isFile()) throw notThere()
      // A file without a block has nothing but a hole; a small one may lie in its inode.
      if (stat.blocks === 0 && stat.size > pieceBytes) {
        yield { path, bytes: new Uint8Array(0), zeros: stat.size, last: true }
        continue
      }
      if (stat.size <= smallBytes) {
        yield* smallFile(path, descriptor, stat.size)
        continue
      }
      for (let ended = false; !ended; ) {
        const buffer = Buffer.allocUnsafe(pieceBytes)
        const { bytesRead } = await read(descriptor, buffer, 0, pieceBytes, null)
        // A short read may come before the end; nothing comes behind it.
        ended = bytesRead === 0
        yield { path, bytes: buffer.subarray(0, bytesRead), last: ended }
      }
    } finally {
      fs.closeSync(descriptor)
    }
  }
}
