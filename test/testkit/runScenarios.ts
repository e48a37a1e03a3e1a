/** Runs a suite outside of a test runner. Promise: one result a scenario, in order; one that fails stops nothing. Rules: K1 to K4. */
import { type Scenario, titleOf } from "../../src/testkit/index.ts"

export interface ScenarioResult {
  readonly scenario: string
  readonly outcome: "passed" | "failed" | "skipped"
  /** Why it was skipped, or how it failed. */
  readonly reason?: string
}

/** `only` is a part of the titles that are run. */
export const runScenarios = async (
  scenarios: readonly Scenario[],
  only: string,
  say: (result: ScenarioResult) => void
): Promise<readonly ScenarioResult[]> => {
  const results: ScenarioResult[] = []
  for (const scenario of scenarios.filter((one) => titleOf(one).includes(only))) {
    const result = await resultOf(scenario)
    results.push(result)
    say(result)
  }
  return results
}

const resultOf = async (scenario: Scenario): Promise<ScenarioResult> => {
  const named = { scenario: titleOf(scenario) }
  if (scenario.skip !== null) return { ...named, outcome: "skipped", reason: scenario.skip }
  try {
    await scenario.run()
    return { ...named, outcome: "passed" }
  } catch (error) {
    return { ...named, outcome: "failed", reason: String((error as Error).stack ?? error) }
  }
}
