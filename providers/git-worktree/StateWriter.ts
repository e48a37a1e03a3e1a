/**
 * Writes one state as one commit of a repository of ours, by `git fast-import`: bytes as they are, no filter, no index.
 * Promise: the reference is written when all of it is stored, never before; a file that shrinks while it is read, a cancellation or
 * a failure leaves no reference; memory is bounded whatever a file's size. Rules: GW2, W13; C17, C23.
 */
import { closeSync, constants, fstatSync, openSync, read, readSync } from "node:fs"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { reach } from "../../src/base/LongPath.ts"
import { toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { refuseImport } from "../../src/workspace/kit/ImportSource.ts"
import { type RunningGit, send, startGit } from "./Git.ts"
import { quoted } from "./StatePath.ts"

/** What to do in the tree of the commit; paths are those of the git tree. */
export type StateStep =
  | { readonly op: "remove"; readonly path: string }
  | { readonly op: "bytes"; readonly path: string; readonly bytes: Uint8Array; readonly executable?: boolean }
  | { readonly op: "link"; readonly path: string; readonly target: TreePath }
  | { readonly op: "file"; readonly path: string; readonly file: TreePath; readonly executable: boolean }

export interface StateCommit {
  /** A bare repository of ours. */
  readonly repository: string
  readonly ref: string
  /** References or ids of commits there. */
  readonly parents: readonly string[]
  readonly message: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly steps: Iterable<StateStep> | AsyncIterable<StateStep>
  readonly onFile?: (bytes: number) => void
  /** Asks for the object id of each file's content: the hash to use. */
  readonly onId?: (path: string, id: string) => void
  readonly algorithm: "sha1" | "sha256"
  readonly flush: boolean
  readonly signal: AbortSignal
}

/** Files up to this size are read whole; others flow. */
const whole = 1 << 20
const batch = 1 << 18

class Sender {
  readonly #git: RunningGit
  #waiting: Uint8Array[] = []
  #bytes = 0
  constructor(running: RunningGit) {
    this.#git = running
  }
  /** Waits only when enough has come together. */
  add(bytes: Uint8Array): Promise<void> | undefined {
    this.#waiting.push(bytes)
    this.#bytes += bytes.length
    return this.#bytes < batch ? undefined : this.flush()
  }
  async flush(): Promise<void> {
    const bytes = Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#bytes = 0
    // It reads no more: why is told by its end.
    if (!(await send(this.#git.stdin, bytes))) await this.#git.ended
  }
}

const text = (line: string): Buffer => Buffer.from(line, "latin1")

/** Opened without following a link, without waiting for a fifo's other end. */
const openFile = (file: TreePath): number =>
  reach(file, (short) => openSync(short, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK))

const readWhole = (descriptor: number, size: number): Buffer | undefined => {
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  while (at < size) {
    const read = readSync(descriptor, bytes, at, size - at, at)
    if (read === 0) return undefined
    at += read
  }
  return bytes
}

/** Not by a stream over the descriptor: one that is left early closes it, and whoever opened it closes another one's then. */
const readPart = promisify(read)
const readAt = (descriptor: number, buffer: Buffer, at: number) => readPart(descriptor, buffer, 0, buffer.length, at)

const sendFile = async (
  to: Sender,
  step: StateStep & { readonly op: "file" },
  { algorithm, onFile, onId }: StateCommit
): Promise<void> => {
  const descriptor = openFile(step.file)
  try {
    const stat = fstatSync(descriptor)
    if (!stat.isFile()) throw refuseImport("changing", step.file)
    const { size } = stat
    const hash = onId === undefined ? undefined : createHash(algorithm).update(`blob ${size}\0`)
    await to.add(text(`M ${step.executable ? "100755" : "100644"} inline ${quoted(step.path)}\ndata ${size}\n`))
    if (size <= whole) {
      const bytes = readWhole(descriptor, size)
      if (bytes === undefined) throw refuseImport("changing", step.file)
      hash?.update(bytes)
      await to.add(bytes)
    } else {
      let sent = 0
      while (sent < size) {
        // A buffer each time: what was added may not have left yet.
        const { bytesRead, buffer } = await readAt(descriptor, Buffer.allocUnsafe(Math.min(whole, size - sent)), sent)
        if (bytesRead === 0) break
        const bytes = buffer.subarray(0, bytesRead)
        hash?.update(bytes)
        sent += bytesRead
        await to.add(bytes)
      }
      if (sent < size) throw refuseImport("changing", step.file)
    }
    await to.add(text("\n"))
    onFile?.(size)
    if (hash !== undefined) onId?.(step.path, hash.digest("hex"))
  } finally {
    closeSync(descriptor)
  }
}

const sendBytes = async (to: Sender, mode: string, path: string, bytes: Uint8Array): Promise<void> => {
  await to.add(text(`M ${mode} inline ${quoted(path)}\ndata ${bytes.length}\n`))
  await to.add(bytes)
  await to.add(text("\n"))
}

const sendStep = async (to: Sender, step: StateStep, commit: StateCommit): Promise<void> => {
  switch (step.op) {
    case "remove":
      return to.add(text(`D ${quoted(step.path)}\n`))
    case "bytes":
      return sendBytes(to, step.executable === true ? "100755" : "100644", step.path, step.bytes)
    case "link":
      return sendBytes(to, "120000", step.path, toBytes(step.target))
    case "file":
      return sendFile(to, step, commit)
  }
}

/** fsync of what git writes, beside the directories (see Durable.ts). */
export const flushed = (flush: boolean): readonly string[] =>
  flush ? ["core.fsync=all", "core.fsyncMethod=fsync"] : ["core.fsync=none"]

export const writeState = async (commit: StateCommit): Promise<void> => {
  const { repository, ref, parents, at, signal } = commit
  const running = startGit(["fast-import", "--done", "--quiet", "--depth=1"], {
    gitDir: repository,
    settings: [
      ...flushed(commit.flush),
      "fastimport.unpackLimit=0",
      "core.compression=1",
      "pack.compression=1",
      "core.bigFileThreshold=1m"
    ],
    signal
  })
  running.stdout.resume()
  const to = new Sender(running)
  try {
    const message = Buffer.from(commit.message, "utf8")
    const [first, ...others] = parents
    const seconds = Math.floor(at / 1000)
    // Two equal states that are kept in one second would be one pack, and git makes a pack of a name once at a time.
    const name = ref.slice(ref.lastIndexOf("/") + 1)
    await to.add(
      text(`commit ${ref}\ncommitter coppice <${name}@localhost> ${seconds} +0000\ndata ${message.length}\n`)
    )
    await to.add(message)
    await to.add(text("\n"))
    if (first !== undefined) await to.add(text(`from ${first}^0\n`))
    for (const other of others) await to.add(text(`merge ${other}^0\n`))
    for await (const step of commit.steps) {
      signal.throwIfAborted()
      await sendStep(to, step, commit)
    }
    await to.add(text("\ndone\n"))
    await to.flush()
    running.stdin.end()
    await running.ended
  } catch (error) {
    await running.stop()
    throw error
  }
}
