/**
 * Turns the steps of a long call into events that a caller can draw.
 * Promise: at most twenty events a second beside the first and the last of each phase, however many files there are; within a
 * phase no count ever goes down, and none is above its total. Rules: W14.
 */
import type { Progress } from "../WorkspaceProvider.ts"
import type { MakingScope } from "./StorePort.ts"

/** Milliseconds between two events of one phase: quicker than anybody reads, rarer than anybody feels. */
const everyMs = 50

const atMost = (count: number, total: number | null): number => (total === null ? count : Math.min(count, total))

export class ProgressMeter {
  readonly #send: (progress: Progress) => void
  readonly #now: () => number
  #last: Progress | undefined
  #sentAt = Number.NEGATIVE_INFINITY
  #isPending = false

  constructor(send: (progress: Progress) => void, now: () => number = () => performance.now()) {
    this.#send = send
    this.#now = now
  }

  report(step: Progress): void {
    const before = this.#last?.phase === step.phase ? this.#last : undefined
    if (before === undefined) this.end()
    this.#last = {
      ...step,
      files: Math.max(before?.files ?? 0, atMost(step.files, step.totalFiles)),
      bytes: Math.max(before?.bytes ?? 0, atMost(step.bytes, step.totalBytes))
    }
    this.#isPending = true
    if (before === undefined || this.#now() - this.#sentAt >= everyMs) this.end()
  }

  /** Sends what was held back: at the end of a phase and of the call. */
  end(): void {
    if (!this.#isPending) return
    this.#isPending = false
    this.#sentAt = this.#now()
    this.#send(this.#last!)
  }
}

/**
 * A call that may be watched. A listener that throws ends it, not what others wait for beside it: `work` is aborted, or what it made undone, and
 * the call rejects with what was thrown.
 */
export const watched = async <A>(
  { signal, progress: listener }: MakingScope,
  work: (scope: MakingScope) => Promise<A>,
  undo: (made: A) => Promise<void>
): Promise<A> => {
  if (listener === undefined) return work({ signal })
  const stop = new AbortController()
  const meter = new ProgressMeter(listener)
  const telling = (tell: () => void): void => {
    try {
      if (!stop.signal.aborted) tell()
    } catch (error) {
      stop.abort(error)
    }
  }
  try {
    const progress = (step: Progress): void => telling(() => meter.report(step))
    const made = await work({ signal: AbortSignal.any([signal, stop.signal]), progress })
    telling(() => meter.end())
    if (!stop.signal.aborted) return made
    await undo(made)
  } catch (error) {
    if (!stop.signal.aborted) throw error
  }
  throw stop.signal.reason
}
