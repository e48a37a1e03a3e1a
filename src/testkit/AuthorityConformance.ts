/**
 * The conformance suite of an authority: what every store behind `Authority` does, whatever database it is.
 * Promise: the same scenarios for every store; they speak to the services and never to tables; each leaves a transcript by which two
 * stores can be compared. Rules: V2; G1 to G8, G12 to G15, G20 to G23, G30 to G36, G40, G41, G50 to G57, G60 to G62, G70 to G75,
 * G80 to G82, G86, G90, G91.
 *
 * ```ts
 * for (const scenario of authorityConformance(myStore)) test(titleOf(scenario), async () => void (await scenario.run()))
 * ```
 */
import { AssertionError } from "node:assert"
import type { Scene } from "./AuthorityScene.ts"
import { allFacts, openScene } from "./AuthorityScene.ts"
import type { AuthorityUnderTest, StoreUnderTest } from "./AuthorityUnderTest.ts"
import { comparing } from "./Comparable.ts"
import { deliveryScenarios } from "./DeliveryScenarios.ts"
import { effectScenarios } from "./EffectScenarios.ts"
import { gateScenarios } from "./GateScenarios.ts"
import { leaseScenarios } from "./LeaseScenarios.ts"
import { quotaScenarios } from "./QuotaScenarios.ts"
import type { Scenario, Transcript } from "./Scenario.ts"
import { settlementScenarios } from "./SettlementScenarios.ts"
import { sourceScenarios } from "./SourceScenarios.ts"
import { storeScenarios } from "./StoreScenarios.ts"
import { todoScenarios } from "./TodoScenarios.ts"
import { turnScenarios } from "./TurnScenarios.ts"
import { usageScenarios } from "./UsageScenarios.ts"

/** What a scenario needs beside an open store. */
export type Need = "modules" | "worker" | "tamper" | "ruinOthers"

/** A behaviour of the authority, as the files of scenarios declare it. */
export interface AuthorityScenario {
  readonly name: string
  readonly rules: readonly string[]
  readonly needs?: readonly Need[]
  /** Things happen at the same time or by the system's clock: no two runs need be alike, and the transcript is empty. */
  readonly varies?: true
  readonly body: (scene: Scene) => Promise<unknown>
}

const all: readonly AuthorityScenario[] = [
  ...storeScenarios,
  ...todoScenarios,
  ...leaseScenarios,
  ...quotaScenarios,
  ...settlementScenarios,
  ...turnScenarios,
  ...gateScenarios,
  ...sourceScenarios,
  ...effectScenarios,
  ...deliveryScenarios,
  ...usageScenarios
]

const lacks: Record<Need, string> = {
  modules: "the store takes no modules",
  worker: "no worker program is given",
  tamper: "there is no way to alter a journal row",
  ruinOthers: "there are no other stores"
}

const missing = (under: AuthorityUnderTest, store: StoreUnderTest, need: Need): boolean =>
  need === "modules" ? !under.takesModules : store[need] === undefined

const transcriptOf = async (answers: readonly unknown[], scene: Scene): Promise<Transcript> => {
  const comparable = comparing()
  const facts = (await allFacts(scene.opened)).map(({ seq, module, type, entity, data }) => ({
    seq,
    module,
    type,
    entity,
    data
  }))
  return { answers: answers.map(comparable), facts: facts.map(comparable) }
}

const runOn = async (under: AuthorityUnderTest, scenario: AuthorityScenario): Promise<Transcript> => {
  const store = await under.create()
  try {
    const lacking = scenario.needs?.find((need) => missing(under, store, need))
    if (lacking !== undefined) throw new AssertionError({ message: `Cannot be run here: ${lacks[lacking]}.` })
    const { scene, answers, end } = await openScene(store, scenario.varies !== true)
    try {
      await scenario.body(scene)
      return scenario.varies === true ? { answers: [], facts: [] } : await transcriptOf(answers, scene)
    } finally {
      await end()
    }
  } finally {
    await store.remove()
  }
}

/**
 * Every scenario, over stores that `under` makes: each run has one of its own and removes it. Asks `under` once for a store, to see
 * what it can do; a scenario that needs something it lacks comes with `skip` set.
 */
export const authorityConformance = async (under: AuthorityUnderTest): Promise<readonly Scenario[]> => {
  const probe = await under.create()
  await probe.remove()
  return all.map((scenario) => {
    const lacking = scenario.needs?.find((need) => missing(under, probe, need))
    return {
      name: scenario.name,
      rules: scenario.rules,
      skip: lacking === undefined ? null : lacks[lacking],
      run: () => runOn(under, scenario)
    }
  })
}
