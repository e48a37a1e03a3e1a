/**
 * One GNU tar that writes entries below a directory: from a pipe, or from an archive that is whole already.
 * Promise: what tar could not do is a typed error; when the process is said to be gone, nothing of it writes any more.
 * Rules: L15, W3 (export), C20.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { FileSystemFailure, Unavailable } from "../../src/workspace/WorkspaceError.ts"
import { tarEnd } from "./TarStream.ts"

// -P, because the target is new and ours: links are kept as they are.
const options = "-x -b 2048 -P -p --no-same-owner --delay-directory-restore --no-ignore-command-error -f -".split(" ")

/** Bytes that may wait in the pipe, so that tar writes one file while the next is decompressed. */
const pipedAhead = 16 * 1024 * 1024

/** Bytes that are put together before they go into the pipe. */
const piece = 1024 * 1024

/** Lets pipes move on: this thread's event loop writes them. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

export class TarProcess {
  readonly #child: ChildProcess
  #errors = ""
  #parts: Buffer[] = []
  #size = 0
  #failed: Error | undefined
  readonly #exit: Promise<number | null>

  /** `target` as bytes; `input` is a descriptor whose position is the archive's begin, or a pipe for `write`. */
  constructor(target: Buffer, input: number | "pipe") {
    this.#child = spawn("tar", options, {
      cwd: target.toString("utf8"),
      // A fixed locale, so that names are bytes.
      env: { PATH: process.env["PATH"] ?? "/usr/bin:/bin", LC_ALL: "C" },
      stdio: [input, "ignore", "pipe"]
    })
    this.#child.stderr?.on("data", (chunk: Buffer) => {
      if (this.#errors.length < 2000) this.#errors += chunk.toString("utf8")
    })
    this.#child.stdin?.on("error", (error) => {
      this.#failed ??= error
    })
    this.#exit = new Promise((resolve, reject) => {
      this.#child.on("error", (error: NodeJS.ErrnoException) => {
        this.#failed ??= error
        reject(error)
      })
      this.#child.on("close", (code) => resolve(code))
    })
    this.#exit.catch(() => undefined)
  }

  async write(bytes: Buffer): Promise<void> {
    this.#parts.push(bytes)
    this.#size += bytes.length
    if (this.#size >= piece) await this.drain()
  }

  async drain(): Promise<void> {
    if (this.#failed !== undefined) throw await this.#failure()
    const stdin = this.#child.stdin!
    // Corked, so that many small pieces leave in one writev instead of being copied together first.
    stdin.cork()
    for (const part of this.#parts) stdin.write(part)
    stdin.uncork()
    this.#parts = []
    this.#size = 0
    if (stdin.writableLength < pipedAhead) await turn()
    else await Promise.race([once(stdin, "drain"), this.#exit]).catch(() => undefined)
    if (this.#failed !== undefined) throw await this.#failure()
  }

  async #failure(): Promise<Error> {
    const code = await this.#exit.catch((error: NodeJS.ErrnoException) => error)
    if (code instanceof Error && code.code === "ENOENT") {
      return new Unavailable({
        message: "GNU tar is needed to write a tree with exact times, and was not found.",
        remedy: "Install the package `tar` (GNU tar 1.29 or newer) and put it on the PATH.",
        what: "materialise",
        missing: ["tar"]
      })
    }
    const full = this.#errors.includes("No space left on device")
    return new FileSystemFailure({
      message: "tar could not write the whole tree.",
      remedy: full
        ? "Free space on the target's disk, then repeat."
        : "Check owner, mode and free space of the target, then repeat.",
      syscallCode: full ? "ENOSPC" : "EIO"
    })
  }

  /** Ends what was written to the pipe, and waits until tar is done. Rejects with `FileSystemFailure`, `Unavailable`. */
  async end(): Promise<void> {
    await this.write(tarEnd)
    await this.drain()
    this.#child.stdin!.end()
    await this.done()
  }

  /** Waits until tar is done. Rejects with `FileSystemFailure`, `Unavailable`. */
  async done(): Promise<void> {
    const code = await this.#exit.catch(() => null)
    if (code !== 0) throw await this.#failure()
  }

  async kill(): Promise<void> {
    this.#child.stdin?.destroy()
    this.#child.kill("SIGKILL")
    await this.#exit.catch(() => undefined)
  }
}
