/**
 * A thread that looks for lines, so that a slow pattern holds nobody's event loop.
 * Promise: started by the first question, gone when it is closed, and no reason for the process to stay. Rules: L12, P4, W4.
 */
import { Worker } from "node:worker_threads"
import type { GrepMatch } from "../WorkspaceValues.ts"
import { decodeError } from "./ErrorTransfer.ts"
import type { GrepTexts } from "./Questions.ts"

export interface GrepRequest {
  readonly id: number
  readonly input: GrepTexts
}
export type GrepAnswer =
  | { readonly id: number; readonly matches: readonly GrepMatch[] }
  | { readonly id: number; readonly error: unknown }

/** Beside this file in the sources, beside the bundle's chunks when published. */
const programUrl = (): URL =>
  new URL(import.meta.url.endsWith(".ts") ? "./grepWorker.ts" : "./grep-worker.js", import.meta.url)

interface Waiting {
  readonly resolve: (matches: readonly GrepMatch[]) => void
  readonly reject: (error: unknown) => void
}

export class GrepThread {
  #worker: Worker | undefined
  #next = 0
  readonly #waiting = new Map<number, Waiting>()

  /** Rejects with `PatternTooSlow`. */
  find(input: GrepTexts): Promise<readonly GrepMatch[]> {
    return new Promise((resolve, reject) => {
      const worker = (this.#worker ??= this.#start())
      const id = this.#next++
      this.#waiting.set(id, { resolve, reject })
      worker.ref()
      worker.postMessage({ id, input } satisfies GrepRequest, [])
    })
  }

  #start(): Worker {
    const worker = new Worker(programUrl(), { execArgv: [] })
    worker.on("message", (answer: GrepAnswer) => {
      const waiting = this.#waiting.get(answer.id)
      this.#waiting.delete(answer.id)
      if (this.#waiting.size === 0) worker.unref()
      if ("error" in answer) waiting?.reject(decodeError(answer.error))
      else waiting?.resolve(answer.matches)
    })
    const ended = (error: unknown): void => {
      if (this.#worker === worker) this.#worker = undefined
      for (const waiting of this.#waiting.values()) waiting.reject(error)
      this.#waiting.clear()
    }
    worker.on("error", ended)
    worker.on("exit", () => ended(new Error("The thread that looks for lines has ended")))
    worker.unref()
    return worker
  }

  async close(): Promise<void> {
    await this.#worker?.terminate()
  }
}
