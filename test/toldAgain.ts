/**
 * Names the tests that failed and passed when they were tried again: where CI allows a second try (`COPPICE_RETRY`), none of them goes by in silence.
 * Promise: a line each, after everything else that the run prints; nothing when there was none.
 */
import type { Reporter, TestCase } from "vitest/node"

export class ToldAgain implements Reporter {
  readonly #again: string[] = []

  onTestCaseResult(test: TestCase): void {
    if (test.diagnostic()?.flaky === true) this.#again.push(`${test.module.relativeModuleId} > ${test.fullName}`)
  }

  onTestRunEnd(): void {
    for (const name of this.#again) console.log(`passed at the second try: ${name}`)
  }
}
