/**
 * Runs a caller's regular expression with a time limit.
 * Promise: an expression that backtracks for ever ends as `PatternTooSlow`, and the thread that ran it goes on with other calls.
 * Rules: L3, L12. `node:vm` interrupts running code by V8's termination, which its regular expression engine looks at while it
 * backtracks (`timeout` of `script.runInContext`); the context isolates nothing here.
 */
import { createContext, Script } from "node:vm"
import { show, type TreePath } from "../../base/PathBytes.ts"
import { PatternTooSlow } from "../WorkspaceError.ts"

/** For one piece of about 1 MiB, or one larger file, for each MiB of it, up to `longestMs`: a thousand times what a plain expression takes. */
const limitMsPerMiB = 2000
/** However large the file is: nothing else of the store runs meanwhile, and no cancellation is heard. */
const longestMs = 5000

export class Bounded {
  readonly #context: { run: () => void } = { run: () => undefined }
  readonly #script = new Script("run()")

  constructor() {
    createContext(this.#context)
  }

  /** Runs `work`, which says by `at` what it is busy with. Throws `PatternTooSlow`. */
  run(bytes: number, work: (at: (path: TreePath) => void) => void): void {
    const limitMs = Math.min(longestMs, limitMsPerMiB * Math.max(1, Math.ceil(bytes / 1024 ** 2)))
    let busyWith: TreePath = ""
    this.#context.run = () =>
      work((path) => {
        busyWith = path
      })
    try {
      this.#script.runInContext(this.#context as never, { timeout: limitMs })
    } catch (error) {
      if ((error as { code?: string }).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error
      throw new PatternTooSlow({
        message: `The pattern was at work for more than ${limitMs} ms on one file and was stopped.`,
        remedy: "Write it without repetitions inside of repetitions, or search fewer files with `path` or `glob`.",
        path: show(busyWith).path,
        limitMs
      })
    } finally {
      this.#context.run = () => undefined
    }
  }
}
