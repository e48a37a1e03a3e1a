/**
 * The store as the main thread sees it: typed calls to the one worker that owns index and packs.
 * Promise: a call ends with its value or with a typed error of the worker, also when the worker dies; nothing of the store
 * runs on the caller's event loop; an open store with no call in flight does not keep the process alive.
 * Rules: 01 "The host's event loop"; W14 (progress), L12.
 */
import { Worker } from "node:worker_threads"
import type { ByteSize } from "../../src/base/ByteSize.ts"
import { showLife } from "../../src/base/LifeSign.ts"
import { type Durability, StorageFailure } from "../../src/sqlite/Database.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { decodeError } from "../../src/workspace/kit/ErrorTransfer.ts"
import type { StoreDirectories } from "./LayerDirectories.ts"
import { openStoreDirectories } from "./LayerDirectories.ts"
import type { Calls } from "./StoreCalls.ts"
import { type QuotaOptions, quotaOf, type StoreQuota } from "./StoreQuota.ts"
import { workerUrl } from "./WorkerUrl.ts"

/** What the worker sends. */
export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: unknown }
  | { readonly id: number; readonly progress: Progress }

/** What the worker receives. */
export type Request =
  | { readonly id: number; readonly call: keyof Calls; readonly input: unknown }
  | { readonly cancel: number }

export interface WorkerSetup {
  readonly role: "store"
  readonly directories: StoreDirectories
  readonly durability: Durability
  readonly quota: StoreQuota
  readonly settlingNs: bigint | undefined
}

export interface CallOptions {
  readonly onProgress?: (progress: Progress) => void
  /** Only calls that say so look at it; what they did is undone before they end. */
  readonly signal?: AbortSignal
}

export interface LayerStoreOptions extends QuotaOptions {
  /** The store's directory; `layerfs/` is made below it. */
  readonly store: string
  readonly durability?: Durability
  /** What cached layers may take on the disk beyond those that open and kept workspaces stand on; without it, all stay. */
  readonly cacheLimit?: ByteSize
  /** How many holders stand ready for the next workspaces: processes that are there while nothing is open. None without it. */
  readonly warmPool?: number
  /** How long a file must have been left alone to be known again by an import; by default what the kernel needs (see ImportTrust). */
  readonly settlingNs?: bigint
}

export interface LayerStore {
  readonly directories: StoreDirectories
  readonly durability: Durability
  /** Rejects with the typed errors that `Calls` names per call, or with a defect when the worker died. */
  readonly call: <K extends keyof Calls>(
    name: K,
    input: Parameters<Calls[K]>[0],
    options?: CallOptions
  ) => Promise<Awaited<ReturnType<Calls[K]>>>
  /** Waits for calls in flight, gives the pack back, closes the files and ends the worker. Idempotent. */
  readonly close: () => Promise<void>
}

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  readonly onProgress: ((progress: Progress) => void) | undefined
}

/** For calls that were under way. */
const threadEnded = (): StorageFailure =>
  new StorageFailure({
    message: "The store's thread has ended; what became of this call is not known.",
    remedy: "Open the store again and ask findOperation for the operation id.",
    errcode: misuse
  })
const isClosed = (): StorageFailure =>
  new StorageFailure({
    message: "The store is closed.",
    remedy: "Open it again; nothing was done by this call.",
    errcode: misuse
  })
/** SQLITE_MISUSE. */
const misuse = 21

/**
 * What a call makes lives for that call. With V8's own room for new objects (48 MiB) an import of 100,000 files took 600 MB of memory
 * and no less time; with this it takes 470.
 */
const resourceLimits = { maxYoungGenerationSizeMb: 16 }

/** Opens or makes a store. Rejects with `StoreLocation`, `StoreOptionInvalid`, `Busy`, `StorageFailure`, `StoreMoved`. */
export const openLayerStore = async (options: LayerStoreOptions): Promise<LayerStore> => {
  const quota = quotaOf(options)
  const directories = openStoreDirectories(options.store)
  const durability = options.durability ?? "full"
  const setup: WorkerSetup = { role: "store", directories, durability, quota, settlingNs: options.settlingNs }
  const worker = new Worker(workerUrl(), { workerData: setup, execArgv: [], resourceLimits })
  const waiting = new Map<number, Waiting>()
  let next = 0
  let ended: Error | undefined
  let closing: Promise<void> | undefined

  const settle = (id: number): Waiting | undefined => {
    const call = waiting.get(id)
    waiting.delete(id)
    if (waiting.size === 0) worker.unref()
    return call
  }
  const fail = (error: Error): void => {
    ended ??= error
    for (const id of waiting.keys()) settle(id)?.reject(ended)
  }
  /** A listener that throws ends its call, not the host's process. */
  const tell = (id: number, progress: Progress): void => {
    try {
      waiting.get(id)?.onProgress?.(progress)
    } catch (error) {
      worker.postMessage({ cancel: id } satisfies Request, [])
      settle(id)?.reject(error)
    }
  }
  worker.on("message", (reply: Reply) => {
    if ("progress" in reply) return tell(reply.id, reply.progress)
    if ("error" in reply) return settle(reply.id)?.reject(decodeError(reply.error))
    settle(reply.id)?.resolve(reply.value as never)
  })
  worker.on("error", (error) => fail(error instanceof Error ? error : new Error(String(error))))
  worker.on("exit", () => fail(threadEnded()))

  const send = (name: keyof Calls, input: unknown, callOptions: CallOptions): Promise<never> =>
    new Promise<never>((resolve, reject) => {
      if (ended !== undefined) return reject(ended)
      const id = next++
      const { signal } = callOptions
      const cancel = (): void => worker.postMessage({ cancel: id } satisfies Request, [])
      const done = (): void => signal?.removeEventListener("abort", cancel)
      worker.ref()
      waiting.set(id, {
        resolve: (value) => {
          done()
          resolve(value)
        },
        reject: (error) => {
          done()
          reject(error)
        },
        onProgress: callOptions.onProgress
      })
      // Before the call, which may be over before a later message is read.
      if (signal?.aborted === true) cancel()
      else signal?.addEventListener("abort", cancel, { once: true })
      try {
        worker.postMessage({ id, call: name, input } satisfies Request, [])
      } catch (error) {
        // The input cannot be cloned: a caller's bug, and no call.
        return settle(id)?.reject(error)
      }
    })

  // Beside the opening: until it is there, nobody takes this process for dead.
  const sign = showLife(directories.root)
  const end = async (): Promise<void> => {
    await worker.terminate()
    ;(await sign)()
  }
  const close = async (): Promise<void> => {
    if (ended === undefined) await send("close", {}, {}).catch(() => undefined)
    await end()
  }

  await send("open", {}, {}).catch(async (error) => {
    await end()
    throw error
  })
  await sign
  return {
    directories,
    durability,
    call: (name, input, callOptions = {}) =>
      closing === undefined ? send(name, input, callOptions) : Promise.reject(isClosed()),
    close: () => (closing ??= close())
  }
}
