/**
 * Tasks: long calls as promises that can be watched and cancelled.
 * Promise: a failure reaches whoever watches and whoever waits; a listener that throws ends nothing; what is kept for a reader
 * that never comes is bounded. Rules: W14; 01 "The host's event loop".
 */
import type { Task } from "./Plain.ts"

const keptSteps = 1000

export interface Watching<Step> {
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((step: Step) => void) | undefined
}

/** A listener that throws ends nothing: telling is not the work. */
export const quiet =
  <Step>(listener: (step: Step) => void) =>
  (step: Step): void => {
    try {
      listener(step)
    } catch {
      // Nobody is left to be told.
    }
  }

/** Starts `work` at once. */
export const startTask = <Result, Step>(
  work: (tell: (step: Step) => void, signal: AbortSignal) => Promise<Result>,
  options: Watching<Step>
): Task<Result, Step> => {
  const stop = new AbortController()
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal])
  const hear = quiet(options.onProgress ?? (() => {}))
  const steps: Step[] = []
  /** How many steps were dropped from the front: each reader keeps its own place. */
  let dropped = 0
  const asleep = new Set<() => void>()
  const wake = (): void => {
    for (const go of asleep) go()
    asleep.clear()
  }
  let ended = false
  const tell = (step: Step): void => {
    steps.push(step)
    if (steps.length > keptSteps) {
      steps.shift()
      dropped += 1
    }
    wake()
    hear(step)
  }
  const result = work(tell, signal).finally(() => {
    ended = true
    wake()
  })
  // Whoever cancels, or closes what the task works on, expects it to fail: that is nobody's unhandled rejection.
  const expected = (): void => void result.catch(() => {})
  if (signal.aborted) expected()
  else signal.addEventListener("abort", expected, { once: true })
  async function* read(): AsyncGenerator<Step, void, undefined> {
    // Whoever watches is told of a failure here; the promise may be awaited later, or never.
    result.catch(() => {})
    let at = dropped
    for (;;) {
      while (at < dropped + steps.length) {
        at = Math.max(at, dropped)
        yield steps[at++ - dropped] as Step
      }
      if (ended) break
      await new Promise<void>((resolve) => asleep.add(resolve))
    }
    await result
  }
  return Object.assign(result, { result, progress: { [Symbol.asyncIterator]: read }, cancel: () => stop.abort() })
}
