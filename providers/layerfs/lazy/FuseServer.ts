/**
 * Answers the kernel, one request after the other, until it is told to stop or nothing is mounted any more.
 * Promise: only synchronous calls, so that nothing else in the process can hold an answer up; whatever goes wrong with one request is an error of that request;
 * nothing is ever changed. Rules: 04 "Projections" 2; L10, L12, W7.
 */
import { isBusyError } from "../../../src/sqlite/BusyError.ts"
import { nextRequest, reply, requestRoom, sleep } from "./FuseDevice.ts"
import * as wire from "./FuseWire.ts"
import { type LazyTree, Refused } from "./LazyTree.ts"

const { op, errno } = wire

/** How long a request waits for the index while somebody else has it locked. */
const busyBoundMs = 5000

const nothing = Buffer.alloc(0)
export interface Serving {
  /** /dev/fuse, of which the mount is made or will be made. */
  readonly device: number
  readonly tree: LazyTree
  readonly owner: wire.Owner
  /** Asked after each request. */
  readonly stopped: () => boolean
}

/** The answer's bytes; null where the kernel expects none. Throws for an error. */
const answer = ({ tree, owner }: Serving, request: Buffer): Buffer | null => {
  const node = wire.read64(request, 16)
  const at = wire.inHeader
  const code = request.readUInt32LE(4)
  switch (code) {
    case op.init:
      return wire.initOut(request)
    case op.lookup:
      return wire.entryOut(tree.lookup(node, request.toString("latin1", at, request.length - 1)), owner)
    case op.getattr:
      return wire.attrOut(tree.attributes(node), owner)
    case op.readlink:
      return Buffer.from(tree.target(node), "latin1")
    case op.read:
      return tree.read(node, wire.read64(request, at + 8), request.readUInt32LE(at + 16))
    case op.readdir:
    case op.readdirplus: {
      const plus = code === op.readdirplus
      const listing = new wire.Listing(request.readUInt32LE(at + 16), plus, owner)
      tree.list(node, wire.read64(request, at + 8), plus, (entry, next) => {
        if (!listing.fits(entry.name)) return false
        listing.add(entry, next)
        return true
      })
      return listing.bytes
    }
    case op.lseek: {
      const whence = request.readUInt32LE(at + 16)
      if (whence !== seekData && whence !== seekHole) throw new Refused(errno.EINVAL)
      return wire.lseekOut(tree.seek(node, wire.read64(request, at + 8), whence === seekData ? "data" : "hole"))
    }
    case op.statfs:
      return wire.statfsOut()
    case op.forget:
      tree.forget(node, wire.read64(request, at))
      return null
    case op.batchForget:
      for (let n = request.readUInt32LE(at), one = at + 8; n > 0; n -= 1, one += 16) {
        tree.forget(wire.read64(request, one), wire.read64(request, one + 8))
      }
      return null
    case op.interrupt:
      // What it means to interrupt is answered already.
      return null
    case op.destroy:
    case op.release:
    case op.releasedir:
      return nothing
    case op.ioctl:
      throw new Refused(errno.ENOTTY)
    default:
      // Of `open` and `opendir` it means that none is needed.
      throw new Refused(wire.writing.has(code) ? errno.EROFS : errno.ENOSYS)
  }
}

const seekData = 3
const seekHole = 4

/** A reader of the index waits only where its log is read back after a killed process. */
const withPatience = (run: () => Buffer | null): Buffer | null => {
  for (const start = performance.now(); ; ) {
    try {
      return run()
    } catch (error) {
      if (!isBusyError(error) || performance.now() - start > busyBoundMs) throw error
      sleep(1)
    }
  }
}

/** Serves until the end; `first` is a request that was read already. Throws only where /dev/fuse itself fails. */
export const serveFuse = (serving: Serving, first?: Buffer): void => {
  const room = Buffer.alloc(requestRoom)
  const next = () => nextRequest(serving.device, room, serving.stopped)
  for (let request = first ?? next(); request !== undefined; request = next()) {
    const asked = request
    let body: Buffer | null
    let error = 0
    try {
      body = withPatience(() => answer(serving, asked))
    } catch (failed) {
      body = nothing
      error = failed instanceof Refused ? failed.errno : errno.EIO
    }
    if (body === null) continue
    reply(serving.device, asked, body, error)
    serving.tree.getReady()
  }
}
