/**
 * Long work on a thread that others need too: it pauses between its steps, and can be given up there.
 * Promise: other calls of the thread have their turn every some milliseconds; whoever gives up waiting ends the work behind the step that
 * runs, and what it holds open is closed. Rules: W9, L12. Loads no library but Node's: an import's reader threads use it.
 */
import { setImmediate } from "node:timers/promises"

/** How long work may keep its thread without a pause. */
const breathMs = 10

/** The caller that this error is for has gone. */
export class Cancelled extends Error {
  constructor() {
    super("The call was cancelled")
  }
}

/** Throws when cancelled. */
export const stillWanted = (cancelled: () => boolean): void => {
  if (cancelled()) throw new Cancelled()
}

/**
 * Call it between two steps: it waits, when there was no pause for long, until other calls had their turn, and rejects when cancelled. Undefined
 * where there is nothing to wait for.
 */
export const breathing = (cancelled: () => boolean): (() => Promise<void> | undefined) => {
  let since = performance.now()
  const pause = async (): Promise<void> => {
    await setImmediate()
    since = performance.now()
    stillWanted(cancelled)
  }
  return () => (performance.now() - since < breathMs ? undefined : pause())
}

/** Work in steps: each `yield` ends one. */
export type Steps<A> = Generator<void, A>

/** All steps at once. */
export const whole = <A>(steps: Steps<A>): A => {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

/** Steps up to the end or until the time is over; undefined when there are more. */
const stretchOf = <A>(steps: Steps<A>): { readonly value: A } | undefined => {
  const started = performance.now()
  for (;;) {
    const step = steps.next()
    if (step.done === true) return { value: step.value }
    if (performance.now() - started >= breathMs) return undefined
  }
}

/** All steps, with a pause between two stretches of them; each stretch runs inside `around`. Rejects when cancelled. */
export const inStretches = async <A>(
  steps: Steps<A>,
  cancelled: () => boolean,
  around: <B>(stretch: () => B) => B = (stretch) => stretch()
): Promise<A> => {
  try {
    for (;;) {
      const ended = around(() => stretchOf(steps))
      if (ended !== undefined) return ended.value
      await setImmediate()
      stillWanted(cancelled)
    }
  } finally {
    // Of no effect on steps that have ended; else what they hold open is closed.
    steps.return(undefined as never)
  }
}
