/**
 * A compaction in a thread of its own, so that the store's worker goes on answering.
 * Promise: the thread is gone when the call ends, however it ends; cancelling lets the step that runs come to its end.
 * Rules: L9, L12, W14; 01 "The host's event loop".
 */
import { type MessagePort, Worker } from "node:worker_threads"
import type { Durability } from "../../src/sqlite/Database.ts"
import type { CompactReport, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { compactStore } from "./Compact.ts"
import { decodeError, encodeError } from "../../src/workspace/kit/ErrorTransfer.ts"
import { openIndex } from "./IndexSchema.ts"
import { workerUrl } from "./WorkerUrl.ts"

export interface CompactSetup {
  readonly role: "compact"
  readonly index: string
  readonly packs: string
  /** Names this compaction as a writer of packs; whoever starts the thread frees what it could not give back. */
  readonly writer: string
  readonly durability: Durability
  readonly maxMs: number | null
  readonly maxBytes: number | null
  /** Not 0 once it is to stop. */
  readonly stop: SharedArrayBuffer
}

type Message = { readonly report: CompactReport } | { readonly error: unknown } | { readonly progress: Progress }

const run = async (port: MessagePort, setup: CompactSetup): Promise<CompactReport> => {
  const { index, packs, writer, durability, maxMs, maxBytes } = setup
  const stop = new Int32Array(setup.stop)
  // A row that moved may be lost in a power cut, as long as the old place stands: only the last transaction is flushed.
  const db = await openIndex(index, durability === "full" ? "normal" : durability, () => "")
  try {
    return await compactStore({
      db,
      packs,
      writer,
      durability,
      maxMs,
      maxBytes,
      progress: (progress) => port.postMessage({ progress } satisfies Message),
      cancelled: () => Atomics.load(stop, 0) !== 0
    })
  } finally {
    db.close()
  }
}

/** The thread's program. */
export const serveCompact = (port: MessagePort, setup: CompactSetup): void => {
  run(port, setup).then(
    (report) => port.postMessage({ report } satisfies Message),
    (error: unknown) => port.postMessage({ error: encodeError(error) } satisfies Message)
  )
}

/** Runs one compaction; `cancelled` is asked often. Rejects with what `compactStore` rejects with. */
export const compactInThread = async (
  setup: Omit<CompactSetup, "role" | "stop">,
  scope: { readonly progress: (progress: Progress) => void; readonly cancelled: () => boolean }
): Promise<CompactReport> => {
  const stop = new Int32Array(new SharedArrayBuffer(4))
  const workerData: CompactSetup = { ...setup, role: "compact", stop: stop.buffer as SharedArrayBuffer }
  const worker = new Worker(workerUrl(), { workerData, execArgv: [] })
  const watch = setInterval(() => {
    if (scope.cancelled()) Atomics.store(stop, 0, 1)
  }, 10)
  try {
    return await new Promise<CompactReport>((resolve, reject) => {
      worker.on("error", reject)
      worker.on("exit", () => reject(new Error("The thread of the compaction ended early")))
      worker.on("message", (message: Message) => {
        if ("progress" in message) scope.progress(message.progress)
        else if ("error" in message) reject(decodeError(message.error))
        else resolve(message.report)
      })
    })
  } finally {
    clearInterval(watch)
    worker.removeAllListeners("message")
    await worker.terminate()
  }
}
