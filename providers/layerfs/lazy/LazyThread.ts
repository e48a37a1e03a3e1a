/**
 * A served layer by a thread of this process.
 * Promise: the thread is gone when `end` resolves; it keeps no process alive, and none from ending. Rules: P4, W12, S23.
 *
 * It waits in read(2), where nobody can end it from outside. So it is woken by a request: a statfs(2) of its own mount, through a descriptor that
 * leads there from outside; the answer given, it sees that it is to stop.
 */
import * as fs from "node:fs"
import { Worker } from "node:worker_threads"
import type { Holder } from "../../../src/workspace/kit/Holder.ts"
import type { ServedLower } from "../../../src/workspace/kit/ServedLower.ts"
import { lazyServerUrl } from "../WorkerUrl.ts"
import { withoutDevice } from "./LazyLack.ts"
import { flag, type ThreadSetup } from "./LazySetup.ts"
import type { LazyWork } from "./ServeCommit.ts"

/** O_PATH (fcntl.h): a descriptor that leads somewhere and opens nothing. */
const O_PATH = 0o10000000

/** Those that serve now, for when the process ends. */
const serving = new Set<LazyThread>()

/** `process.exit` waits for its threads: none may be waiting in a read that nobody answers. */
const onExit = (): void => {
  for (const thread of serving) thread.stopNow()
}

class LazyThread implements ServedLower {
  readonly device: number
  readonly #flags = new Int32Array(new SharedArrayBuffer(12))
  readonly #worker: Worker
  readonly #ended: Promise<void>
  #alive = true
  #holder: Holder | undefined
  /** Leads to the root of what is served. */
  #place: number | undefined

  constructor(work: LazyWork, device: number) {
    this.device = device
    const setup: ThreadSetup = { work, device, flags: this.#flags.buffer as SharedArrayBuffer }
    this.#worker = new Worker(lazyServerUrl(), { workerData: setup, execArgv: [], trackUnmanagedFds: false })
    this.#worker.unref()
    this.#worker.on("error", () => undefined)
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", () => {
        this.#alive = false
        if (!this.#gaveBack()) fs.closeSync(device)
        serving.delete(this)
        if (serving.size === 0) process.off("exit", onExit)
        resolve()
      })
    })
    if (serving.size === 0) process.on("exit", onExit)
    serving.add(this)
  }

  #gaveBack(): boolean {
    return Atomics.load(this.#flags, flag.closed) !== 0
  }

  get alive(): boolean {
    return this.#alive && !this.#gaveBack()
  }

  async mounted(holder: Holder, at: string): Promise<void> {
    this.#holder = holder
    await holder.unshared()
    this.#place = fs.openSync(`/proc/${holder.innerPid}/root${at}`, O_PATH | fs.constants.O_DIRECTORY)
  }

  async end(): Promise<void> {
    Atomics.store(this.#flags, flag.stop, 1)
    const place = this.#place
    if (place !== undefined) await fs.promises.statfs(`/proc/self/fd/${place}`).catch(() => undefined)
    this.#worker.ref()
    await this.#ended
    this.#place = undefined
    if (place !== undefined) fs.closeSync(place)
  }

  /** For the process's last moment: what can be done without waiting. */
  stopNow(): void {
    Atomics.store(this.#flags, flag.stop, 1)
    // Without a descriptor the mount goes with its holder, and the read with the mount.
    this.#holder?.killNow()
    if (this.#place === undefined || Atomics.load(this.#flags, flag.serving) === 0) return
    try {
      fs.statfsSync(`/proc/self/fd/${this.#place}`)
    } catch {
      // It has ended already.
    }
  }
}

/** Throws `Unavailable`. */
export const serveByThread = (work: LazyWork): ServedLower => {
  let device: number
  try {
    device = fs.openSync("/dev/fuse", "r+")
  } catch (error) {
    throw withoutDevice((error as NodeJS.ErrnoException).code ?? "")
  }
  return new LazyThread(work, device)
}
