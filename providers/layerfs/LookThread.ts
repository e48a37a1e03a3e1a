/**
 * A look at every entry of a directory, of a large one in a thread of its own.
 * Promise: the caller's event loop is held for a thousand entries at most; one thread at a time, which is gone when its look ends or
 * `end` was called. Rules: L10, P4; 01 "The host's event loop".
 */
import { type MessagePort, Worker } from "node:worker_threads"
import { decodeError, encodeError } from "../../src/workspace/kit/ErrorTransfer.ts"
import { FileSystemFailure } from "../../src/workspace/WorkspaceError.ts"
import { type WholeLook, wholeLook } from "./LayerSample.ts"
import { workerUrl } from "./WorkerUrl.ts"

export interface LookSetup {
  readonly role: "look"
  readonly directory: string
}

type Message = { readonly look: WholeLook } | { readonly error: unknown }

/** The thread's program. */
export const serveLook = (port: MessagePort, { directory }: LookSetup): void => {
  try {
    port.postMessage({ look: wholeLook(directory, Number.POSITIVE_INFINITY)! } satisfies Message, [])
  } catch (error) {
    port.postMessage({ error: encodeError(error) } satisfies Message, [])
  }
}

const isLackOfMemory = ({ code }: NodeJS.ErrnoException): boolean =>
  code === "ERR_WORKER_OUT_OF_MEMORY" || code === "ERR_WORKER_INIT_FAILED"

const endedEarly = (): FileSystemFailure =>
  new FileSystemFailure({
    message: "The thread that looks at a cached layer ended before it was through.",
    remedy: "Give the process more memory or end what takes it, then repeat the call; nothing was committed or lost.",
    syscallCode: "ENOMEM"
  })

export class LookThread {
  #last: Promise<unknown> = Promise.resolve()
  #worker: Worker | undefined
  #ended = false

  /** Rejects with `FileSystemFailure` where the machine has no descriptors or memory left for it. */
  async look(directory: string): Promise<WholeLook> {
    return wholeLook(directory) ?? this.lookAside(directory)
  }

  /** For a directory that is known to be large. */
  lookAside(directory: string): Promise<WholeLook> {
    const look = this.#last.then(() => this.#run({ role: "look", directory }))
    this.#last = look.catch(() => undefined)
    return look
  }

  async #run(workerData: LookSetup): Promise<WholeLook> {
    if (this.#ended) throw new Error("The store is closed")
    const worker = new Worker(workerUrl(), { workerData, execArgv: [] })
    this.#worker = worker
    try {
      return await new Promise<WholeLook>((resolve, reject) => {
        worker.on("error", (error: NodeJS.ErrnoException) => reject(isLackOfMemory(error) ? endedEarly() : error))
        worker.on("exit", () => reject(endedEarly()))
        worker.on("message", (message: Message) =>
          "error" in message ? reject(decodeError(message.error)) : resolve(message.look)
        )
      })
    } finally {
      // Its listeners stay: `end` may be waiting for its exit by one.
      await worker.terminate()
    }
  }

  /** Resolves when no thread is left. */
  async end(): Promise<void> {
    this.#ended = true
    await this.#worker?.terminate()
    await this.#last
  }
}
