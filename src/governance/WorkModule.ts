/**
 * The work module: goals, agents, todos, leases, quota, evidence, acceptances, settlements, turns and candidates together,
 * because one commit of theirs may change rows of several (a settlement does).
 * Promise: a table of commands and a table of projections, no rule of its own. Rules: G1; each rule is taught by its file.
 */
import * as Result from "effect/Result"
import { acceptanceHandlers, acceptanceTable } from "./Acceptance.ts"
import { candidateHandlers, candidateTable } from "./CandidateRecord.ts"
import { effectHandlers } from "./ExternalEffect.ts"
import { effectTable } from "./EffectRecord.ts"
import { deliveryHandlers } from "./Delivery.ts"
import { deliveryTable } from "./DeliveryRecord.ts"
import { evidenceHandlers, evidenceTable } from "./Evidence.ts"
import { gateHandlers } from "./Gate.ts"
import { gateLapsed, projectGate, projectGated } from "./GateRecord.ts"
import { closureHandlers } from "./GoalClosure.ts"
import { agentTable, goalHandlers, goalTable } from "./Goal.ts"
import { type Handler, invalidInput } from "./Handler.ts"
import { leaseLapsed } from "./Lease.ts"
import { leaseHandlers } from "./LeaseGrant.ts"
import type { AuthorityModule, JournalEvent, Load, Statement } from "./Module.ts"
import { nextWorkHandlers } from "./NextWork.ts"
import { obligationHandlers } from "./Obligation.ts"
import { obligationTable } from "./ObligationRecord.ts"
import { packetHandlers } from "./Packet.ts"
import { continuityTable, packetTable } from "./PacketRecord.ts"
import { quotaHandlers } from "./Quota.ts"
import { projectQuota } from "./QuotaSum.ts"
import { projectLease, projectTodo } from "./ReadyQueue.ts"
import { settlementHandlers } from "./Settlement.ts"
import { settlementTable } from "./SettlementRecord.ts"
import { sourceHandlers } from "./Source.ts"
import { projectRequired, sourceReadTable, sourceTable } from "./SourceRecord.ts"
import { todoHandlers } from "./Todo.ts"
import { turnHandlers } from "./Turn.ts"
import { turnTable } from "./TurnRecord.ts"
import { projectUsage } from "./Usage.ts"
import { workMigrations } from "./WorkSchema.ts"

const handlers: ReadonlyMap<string, Handler> = new Map(
  Object.entries({
    ...goalHandlers,
    ...closureHandlers,
    ...todoHandlers,
    ...nextWorkHandlers,
    ...leaseHandlers,
    ...quotaHandlers,
    ...evidenceHandlers,
    ...acceptanceHandlers,
    ...settlementHandlers,
    ...turnHandlers,
    ...candidateHandlers,
    ...sourceHandlers,
    ...obligationHandlers,
    ...effectHandlers,
    ...deliveryHandlers,
    ...packetHandlers,
    ...gateHandlers
  })
)

type Projection = (event: JournalEvent, meta: { readonly seq: number; readonly at: number }) => readonly Statement[]

/** A fact carries the record as it is now, so its projection is to put that record. */
const puts =
  (table: { readonly put: (record: never) => Statement }): Projection =>
  (event) => [table.put(event.data as never)]

const projections: { readonly [kind: string]: Projection } = {
  goal: puts(goalTable),
  agent: puts(agentTable),
  todo: (event) => [...projectTodo(event), ...projectRequired(event), ...projectGated(event)],
  lease: projectLease,
  quota: projectQuota,
  evidence: puts(evidenceTable),
  acceptance: puts(acceptanceTable),
  settlement: puts(settlementTable),
  turn: puts(turnTable),
  candidate: puts(candidateTable),
  source: puts(sourceTable),
  read: puts(sourceReadTable),
  obligation: puts(obligationTable),
  effect: puts(effectTable),
  delivery: puts(deliveryTable),
  usage: projectUsage,
  packet: puts(packetTable),
  continuity: puts(continuityTable),
  gate: projectGate
}

function* nothing(): Load<undefined> {
  return undefined
}

export const workModule: AuthorityModule = {
  name: "work",
  version: workMigrations.length,
  migrations: workMigrations,
  load: (command, context) => handlers.get(command.type)?.load(command, context) ?? nothing(),
  decide: (state, command, context) =>
    handlers.get(command.type)?.decide(state, command, context) ??
    Result.fail(invalidInput(command.type.slice(0, 100), "the work module has no such command")),
  *lapsed(from, to) {
    return (yield* leaseLapsed(from, to)) || (yield* gateLapsed(from, to))
  },
  project: (event, meta) => projections[event.type.slice(0, event.type.indexOf("."))]!(event, meta)
}
