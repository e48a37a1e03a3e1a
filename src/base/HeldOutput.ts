/**
 * Keeps what a child prints until somebody reads it.
 * Promise: not a byte is lost between the start of the child and the first reader, however quickly it ends; a reader that closes its end
 * closes the child's. Rules: W4, S51, C90.
 *
 * Node resumes a child's unread pipes when the child exits, and drops what was in them (child_process, `flushStdio`). Whoever
 * starts a process and must wait for something else first (its pid, a journal entry) would lose a quick one's whole output.
 */
import { PassThrough, type Readable } from "node:stream"

/** The stream's content, from now on and for a later reader. Call it in the same stretch as `spawn`. */
export const holdOutput = (stream: Readable): Readable => {
  const held = new PassThrough()
  held.on("error", () => undefined)
  stream.once("close", () => held.end())
  held.once("close", () => stream.destroy())
  return stream.pipe(held)
}
