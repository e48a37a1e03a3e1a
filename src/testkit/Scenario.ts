/**
 * The shape of every conformance suite of this room: a list of scenarios that any test runner can run.
 * Promise: building a suite runs nothing; a scenario makes and removes what it uses; one that cannot be run against what was
 * given says so and is never silently left out. Rules: V2; 08 "suites as public API".
 */

/** What a scenario did and was told, with ids and times made comparable: equal implementations have equal transcripts. */
export interface Transcript {
  readonly answers: readonly unknown[]
  readonly facts: readonly unknown[]
}

/** One behaviour. `run` rejects with an assertion error that says what was expected. */
export interface Scenario {
  /** A sentence. */
  readonly name: string
  /** The rules that it shows, such as `G33`. */
  readonly rules: readonly string[]
  /** Why it cannot be run here, when that is so: `run` rejects then. */
  readonly skip: string | null
  readonly run: () => Promise<Transcript>
}

/** The title under which a runner lists a scenario: its rules, then its sentence. */
export const titleOf = (scenario: Pick<Scenario, "name" | "rules">): string =>
  `${scenario.rules.join(" ")} ${scenario.name}`
