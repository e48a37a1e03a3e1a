/**
 * The conformance suite of a workspace provider: what every provider behind the contract does, whatever it keeps its trees in.
 * Promise: the same scenarios for every provider; they speak to the contract and never to a store's files; what a manifest declares is
 * exercised and has to hold, what it lacks has to be refused by name; each scenario that works on a branch runs on a fork of an
 * import and again on a fork of a fork. Rules: K1 to K4; W1, W2 and those that the scenarios name.
 *
 * ```ts
 * for (const scenario of await workspaceConformance(myProvider)) test(titleOf(scenario), async () => void (await scenario.run()))
 * ```
 */
import { AssertionError } from "node:assert"
import * as Effect from "effect/Effect"
import type { Manifest, Probe, Projection } from "../workspace/WorkspaceValues.ts"
import { callScenarios } from "./CallScenarios.ts"
import { capabilityScenarios } from "./CapabilityScenarios.ts"
import { caseScenarios } from "./CaseScenarios.ts"
import { fidelityScenarios } from "./FidelityScenarios.ts"
import { fuzzScenarios } from "./FuzzScenarios.ts"
import { handoffScenarios } from "./HandoffScenarios.ts"
import { honestyScenarios } from "./HonestyScenarios.ts"
import { isolationScenarios } from "./IsolationScenarios.ts"
import { loadScenarios } from "./LoadScenarios.ts"
import { manifestScenarios } from "./ManifestScenarios.ts"
import { mergeScenarios } from "./MergeScenarios.ts"
import { refusalScenarios } from "./RefusalScenarios.ts"
import type { Scenario, Transcript } from "./Scenario.ts"
import { openWorkspaceScene, type WorkspaceScene } from "./WorkspaceScene.ts"
import type { PlaceUnderTest, WorkspaceUnderTest } from "./WorkspaceUnderTest.ts"

/** What is known of a provider before a scenario is run. */
interface Known {
  readonly under: WorkspaceUnderTest
  readonly place: PlaceUnderTest
  readonly manifest: Manifest
  readonly probe: Probe
}

/** What a scenario needs beside an open provider: said why, where it is missing. */
export type WorkspaceNeed = (known: Known) => string | null

/** A behaviour of a provider, as the files of scenarios declare it. */
export interface WorkspaceScenario {
  readonly name: string
  readonly rules: readonly string[]
  readonly needs?: readonly WorkspaceNeed[]
  /** No branch is worked on, or which one makes no difference: not run again on a fork of a fork. */
  readonly once?: true
  /** On a small disk of its own. */
  readonly small?: true
  readonly body: (scene: WorkspaceScene) => Promise<unknown>
}

const all: readonly WorkspaceScenario[] = [
  ...manifestScenarios,
  ...capabilityScenarios,
  ...fidelityScenarios,
  ...isolationScenarios,
  ...honestyScenarios,
  ...callScenarios,
  ...refusalScenarios,
  ...handoffScenarios,
  ...mergeScenarios,
  ...caseScenarios,
  ...loadScenarios,
  ...fuzzScenarios
]

/** The machine has what the options ask for. */
const ready: WorkspaceNeed = ({ under, probe }) => {
  if (!probe.ready) return `not ready on this machine: ${probe.missing.map(({ what }) => what).join(", ")}`
  const wanted = under.options?.projection
  const found = probe.projections.find(({ projection }) => projection === (wanted as Projection | undefined))
  if (wanted === undefined || wanted === "auto" || found?.available === true) return null
  return `${wanted} is not available on this machine: ${(found?.missing ?? []).map(({ what }) => what).join(", ")}`
}

const smallDisk: WorkspaceNeed = ({ under }) => (under.createSmall === undefined ? "no small disk is given" : null)

const lacking = (scenario: WorkspaceScenario, known: Known): string | null => {
  for (const need of [ready, ...(scenario.small === true ? [smallDisk] : []), ...(scenario.needs ?? [])]) {
    const reason = need(known)
    if (reason !== null) return reason
  }
  return null
}

const runOn = async (under: WorkspaceUnderTest, scenario: WorkspaceScenario, deep: boolean): Promise<Transcript> => {
  const place = await (scenario.small === true ? under.createSmall! : under.create)()
  try {
    const { scene, notes, end } = await openWorkspaceScene(under, place, deep)
    try {
      await scenario.body(scene)
    } finally {
      await end()
    }
    return { answers: notes, facts: [] }
  } finally {
    await place.remove()
  }
}

/** Reads what the provider declares and what the machine offers, on a store that is removed again. */
const knowing = async (under: WorkspaceUnderTest): Promise<Known> => {
  const place = await under.create()
  try {
    return await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const provider = yield* place.open
          const manifest = { ...(yield* provider.manifest), ...under.holds }
          return { under, place, manifest, probe: yield* provider.probe }
        })
      )
    )
  } finally {
    await place.remove()
  }
}

/**
 * Every scenario, over places that `under` makes: each run has one of its own and removes it. Opens the provider once, to read its manifest and
 * probe; a scenario that needs something that is not there comes with `skip` set.
 */
export const workspaceConformance = async (under: WorkspaceUnderTest): Promise<readonly Scenario[]> => {
  const known = await knowing(under)
  const listed = (scenario: WorkspaceScenario, deep: boolean): Scenario => {
    const skip = lacking(scenario, known)
    return {
      name: deep ? `${scenario.name}, on a fork of a fork` : scenario.name,
      rules: scenario.rules,
      skip,
      run: async () => {
        if (skip !== null) throw new AssertionError({ message: `Cannot be run here: ${skip}.` })
        return runOn(under, scenario, deep)
      }
    }
  }
  return all.flatMap((scenario) =>
    scenario.once === true ? [listed(scenario, false)] : [listed(scenario, false), listed(scenario, true)]
  )
}
