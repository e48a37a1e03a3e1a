/**
 * The context of a turn on its way to the host and back: the packet is issued before the attempt is saved, and acknowledged by
 * what the host says it worked under.
 * Promise: a host that says nothing has acknowledged nothing; what it claims to have read is recorded as far as it can be so, and
 * a claim that cannot be so fails no turn. Rules: G14, G86; V5; principle 2.
 */
import * as Effect from "effect/Effect"
import { type PacketRecord, Packets, Sources, type TurnRecord } from "../governance/index.ts"
import type { HostOutcome } from "./ResultFile.ts"
import type { TurnSpec } from "./TurnStart.ts"

/** As many references as one packet takes. */
const mostReferences = 200

/** Findings are in the request itself; the packet names them, and the turn that this one continues. */
const referencesOf = ({ findings, after }: TurnSpec) =>
  [
    ...(after === undefined
      ? []
      : [{ kind: "turn", ref: after, digest: null, text: "the turn that this one continues" }]),
    ...findings.map(({ id, status }) => ({ kind: "finding", ref: id, digest: null, text: status }))
  ].slice(0, mostReferences)

export const issueContext = (spec: TurnSpec, turn: TurnRecord) =>
  Packets.issue({
    turn: turn.id,
    fence: spec.fence,
    session: spec.session ?? null,
    references: referencesOf(spec),
    ...(spec.contextBytes === undefined ? {} : { limitBytes: spec.contextBytes })
  })

/** What the host says that it worked under; undefined when it says nothing, or nothing is known of it any more. */
export const workedUnder = (outcome: HostOutcome | null) =>
  outcome?.status === "ok" ? outcome.result.context : undefined

/** Records what the host says of its context. The same again changes nothing, so a rerun may say it again. */
export const acknowledgeContext = (turn: TurnRecord, outcome: HostOutcome | null) =>
  Effect.gen(function* () {
    const worked = workedUnder(outcome)
    const packet: PacketRecord["id"] | undefined = turn.context?.packet
    if (worked === undefined || packet === undefined) return
    if (worked.digest === turn.context?.digest) {
      const tokens = worked.tokens === undefined ? {} : { tokens: worked.tokens }
      yield* Packets.acknowledge({ packet, digest: worked.digest, ...tokens })
    }
    for (const { source, revision } of worked.read ?? []) {
      yield* Sources.read({ source, revision, agent: turn.agent, turn: turn.id }).pipe(
        Effect.catchTags({
          InvalidInput: () => Effect.void,
          NotFound: () => Effect.void,
          RevisionConflict: () => Effect.void,
          SourceState: () => Effect.void
        })
      )
    }
  })
