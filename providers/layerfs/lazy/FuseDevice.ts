/**
 * /dev/fuse as one thread uses it: a request is read, answered, and then the next one.
 * Promise: synchronous calls only, so that nothing else in the process can hold an answer up. Rules: 04 "Projections" 2; L12.
 */
import * as fs from "node:fs"
import * as wire from "./FuseWire.ts"

/** The kernel hands over one request a read, and none to a buffer in which its longest might not fit. */
export const requestRoom = 64 * 1024

const sleeper = new Int32Array(new SharedArrayBuffer(4))

/** Stops this thread for so many milliseconds. */
export const sleep = (ms: number): void => void Atomics.wait(sleeper, 0, 0, ms)

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

/** The next request, in `room`; undefined when it is to stop, or nothing is mounted any more. Throws where /dev/fuse itself fails. */
export const nextRequest = (device: number, room: Buffer, stopped: () => boolean): Buffer | undefined => {
  while (!stopped()) {
    try {
      return room.subarray(0, fs.readSync(device, room, 0, room.length, null))
    } catch (error) {
      const code = codeOf(error)
      if (code === "ENODEV") return undefined
      // Not mounted yet.
      if (code === "EPERM") sleep(0.3)
      else if (code !== "ENOENT" && code !== "EINTR" && code !== "EAGAIN") throw error
    }
  }
  return undefined
}

const head = Buffer.alloc(wire.outHeader)

export const reply = (device: number, request: Buffer, body: Buffer, error: number): void => {
  wire.header(head, body.length, error, request)
  try {
    fs.writevSync(device, body.length === 0 ? [head] : [head, body])
  } catch (failed) {
    // Whoever asked has been killed meanwhile, or the mount is gone: the next read tells.
    if (codeOf(failed) !== "ENOENT" && codeOf(failed) !== "ENODEV") throw failed
  }
}

/**
 * Answers what the kernel asks for while an overlay is made of the mount: nothing of the tree. Answers the first request beyond that, if one came; a workspace waits
 * for this, and not for what reads a tree to be loaded.
 */
export const greet = (device: number, stopped: () => boolean): Buffer | undefined => {
  const room = Buffer.alloc(requestRoom)
  for (;;) {
    const request = nextRequest(device, room, stopped)
    const code = request?.readUInt32LE(4)
    if (request === undefined || (code !== wire.op.init && code !== wire.op.statfs)) return request
    reply(device, request, code === wire.op.init ? wire.initOut(request) : wire.statfsOut(), 0)
    if (code === wire.op.statfs) return undefined
  }
}
