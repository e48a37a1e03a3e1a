/**
 * Issuing context packets to turns, their acknowledgement, and what is known of the memory they went into.
 * Promise: a packet is taken from one snapshot, and the turn is from then on under exactly what the packet says; a packet that
 * was never acknowledged counts as lost. Rules: G14, G86; V5. Its record: PacketRecord.ts.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { reader, writer } from "./Authority.ts"
import {
  buildPacket,
  type ContextContent,
  type Continuity,
  type PacketDecision,
  type PacketGate
} from "./ContextPacket.ts"
import { DigestText, Fence, IdText, Summary } from "./Field.ts"
import { concerns, type GateRecord, gateActions, loadQuestions, occasionOf, standing } from "./GateRecord.ts"
import { activeGoal, type AgentRecord, agentTable, type GoalRecord, loadGoal } from "./Goal.ts"
import {
  type ContextTooLarge,
  type GoalNotActive,
  IdentityConflict,
  type LeaseLost,
  type NotFound,
  notFound,
  type PhaseOrder,
  type SourceState,
  type TurnInFlight
} from "./GovernanceError.ts"
import { decided, fact, type Handlers, handler } from "./Handler.ts"
import { Binding, type LeaseRecord, loadLease } from "./Lease.ts"
import type { Load } from "./Module.ts"
import { loadObligationsOver, type ObligationRecord } from "./ObligationRecord.ts"
import { type ContinuityRecord, continuityTable, type PacketRecord, packetTable } from "./PacketRecord.ts"
import { type Account, figures, loadAccounts, showHeld } from "./QuotaSum.ts"
import { requirementOf } from "./Requirement.ts"
import { type ReservationRecord, reservationTable } from "./ReservationRecord.ts"
import {
  loadReadBy,
  loadRequired,
  readableAll,
  revisionsOf,
  type SourceRead,
  type SourceRecord
} from "./SourceRecord.ts"
import { type TodoRecord, todoTable } from "./TodoRecord.ts"
import { observing } from "./Turn.ts"
import { leaseOf } from "./TurnAdmission.ts"
import { driven, known, seenBy } from "./TurnFence.ts"
import { inPhase, type TurnRecord, turnTable } from "./TurnRecord.ts"

// --- issuing ---------------------------------------------------------------------------------------------------------

/** Bytes of canonical JSON that a packet may have when its caller names no other limit, and at most. */
export const packetBytes = { default: 32 * 1024, most: 1024 * 1024 } as const

const Items = <S extends Schema.Top>(item: S) => Schema.Array(item).check(Schema.isMaxLength(200))
const Sentence = Schema.String.check(Schema.isMaxLength(500))

const IssuePacket = Schema.Struct({
  turn: IdText,
  fence: Fence,
  /** The session whose executor remembers from turn to turn what it was told. */
  session: Schema.optional(Schema.NullOr(Binding)),
  limitBytes: Schema.optional(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: packetBytes.most }))),
  decisions: Schema.optional(Items(Schema.Struct({ id: IdText, text: Summary }))),
  references: Schema.optional(
    Items(Schema.Struct({ kind: IdText, ref: Sentence, digest: Schema.NullOr(DigestText), text: Sentence }))
  )
})
type IssuePacket = typeof IssuePacket.Type

interface IssueState {
  readonly turn: TurnRecord | undefined
  readonly goal: GoalRecord | undefined
  readonly todo: TodoRecord | undefined
  readonly lease: LeaseRecord | undefined
  readonly held: ReservationRecord | undefined
  readonly accounts: readonly Account[]
  readonly required: readonly SourceRecord[]
  readonly read: readonly SourceRead[]
  /** Those that this work can meet. */
  readonly obligations: readonly ObligationRecord[]
  readonly gates: readonly GateRecord[]
  readonly before: (ContinuityRecord & { readonly last: PacketRecord | undefined }) | undefined
}

function* loadIssue(input: IssuePacket, now: number): Load<IssueState | undefined> {
  const turn = yield* turnTable.first("id = ?", input.turn)
  if (turn === undefined) return undefined
  const goal = yield* loadGoal(turn.goal)
  const agent: AgentRecord | undefined = yield* agentTable.first("goal = ? AND agent_id = ?", turn.goal, turn.agent)
  const todo = yield* todoTable.first("id = ?", turn.todo)
  const required = yield* loadRequired(todo)
  const before =
    input.session == null
      ? undefined
      : yield* continuityTable.first("goal = ? AND agent = ? AND session = ?", turn.goal, turn.agent, input.session.id)
  return {
    turn,
    goal,
    todo,
    lease: yield* loadLease(turn.todo),
    held: yield* reservationTable.first("id = ?", turn.reservation),
    accounts: yield* loadAccounts(goal, agent, now),
    required,
    read: yield* loadReadBy(turn.agent, required),
    obligations: yield* loadObligationsOver(turn.goal, turn.todo),
    gates: yield* loadQuestions(turn.goal, turn.todo),
    before: before === undefined ? undefined : { ...before, last: yield* packetTable.first("id = ?", before.packet) }
  }
}

/** What is asked about this work and still open, and what was answered. */
const questionsOf = (
  gates: readonly GateRecord[],
  turn: TurnRecord,
  todo: TodoRecord,
  now: number
): { readonly gates: readonly PacketGate[]; readonly answers: readonly PacketDecision[] } => {
  const occasion = occasionOf(todo.id, turn.epoch)
  const uses = gateActions.map((action) => ({ agent: turn.agent, action, todo, occasion }))
  const met = gates.flatMap((gate) => {
    const use = uses.find((one) => concerns(gate, one))
    return use === undefined ? [] : [{ gate, answer: standing(gate, use, now) }]
  })
  return {
    gates: met.flatMap(({ gate: { id, kind, lane, question }, answer }) =>
      answer === undefined ? [{ id, kind, lane, question }] : []
    ),
    answers: met.flatMap(({ gate: { id, question }, answer }) =>
      answer === undefined
        ? []
        : [{ id, text: `${question} ${answer.allow ? "Allowed" : "Refused"}: ${answer.answer}` }]
    )
  }
}

const contentOf = (
  state: IssueState,
  goal: GoalRecord,
  todo: TodoRecord,
  lease: LeaseRecord,
  input: IssuePacket,
  now: number
): ContextContent => {
  const { gates, answers } = questionsOf(state.gates, state.turn!, todo, now)
  return {
    requirement: {
      goal: { id: goal.id, title: goal.title },
      todo: { id: todo.id, title: todo.title, revision: todo.revision },
      validator: todo.acceptance?.validator ?? null,
      writeScopes: todo.writeScopes,
      digest: requirementOf(goal, todo)
    },
    reads: state.required.map(({ id, name, revision, digest, ref, bytes, tokens }) => ({
      source: id,
      name,
      revision,
      digest,
      ref,
      bytes,
      tokens,
      read: state.read.some((read) => read.source === id && read.revision === revision)
    })),
    stop: {
      goal: goal.state,
      leaseExpiresAt: lease.expiresAt,
      bound: showHeld(state.held),
      left: state.accounts.map((account) => {
        const { agent, remaining } = figures(account, now)
        return { agent, remaining }
      })
    },
    obligations: state.obligations.map(({ id, todo, reason }) => ({ id, todo, reason })),
    gates,
    decisions: [...answers, ...(input.decisions ?? [])],
    references: input.references ?? []
  }
}

const continuityBefore = (input: IssuePacket, { before }: IssueState): Continuity | null => {
  if (input.session == null) return null
  const { generation } = input.session
  return before?.last === undefined
    ? { generation, before: null }
    : { generation, before: { ...before, last: before.last } }
}

const issue = handler({
  type: "issuePacket",
  payload: IssuePacket,
  load: loadIssue,
  decide: (state, input, { now, newId }, observed) =>
    Result.gen(function* () {
      const turn = yield* driven(yield* known(state?.turn, input.turn), seenBy(observed))
      const goal = yield* activeGoal(state!.goal, turn.goal)
      const lease = yield* leaseOf(state!.lease, input.fence, turn.goal, turn.agent, now)
      // Before a dispatch: the first one, or another one of a turn whose attempt gave no result.
      if (turn.state !== "open" || turn.phase !== "execute") yield* inPhase(turn, "execute")
      const todo = state!.todo!
      const required = yield* readableAll(state!.required)
      const id = newId("packet")
      const built = yield* buildPacket({
        packet: id,
        turn: turn.id,
        content: contentOf(state!, goal, todo, lease, input, now),
        continuity: continuityBefore(input, state!),
        limitBytes: input.limitBytes ?? packetBytes.default
      })
      const reads = revisionsOf(required)
      const packet: PacketRecord = {
        id,
        goal: goal.id,
        agent: turn.agent,
        todo: todo.id,
        turn: turn.id,
        session: input.session ?? null,
        kind: built.body.kind,
        why: built.body.why,
        digest: built.digest,
        bytes: built.bytes,
        tokens: null,
        sections: built.sections,
        reads,
        body: built.body,
        issuedAt: now,
        acknowledgedAt: null
      }
      const { requirement } = built.body
      const under: TurnRecord = {
        ...turn,
        context: {
          requirementRevision: todo.revision,
          requirement: requirement?.digest ?? requirementOf(goal, todo),
          reads,
          packet: id,
          digest: built.digest
        },
        changedAt: now
      }
      const remembered: ContinuityRecord | null =
        input.session == null
          ? null
          : {
              goal: goal.id,
              agent: turn.agent,
              session: input.session.id,
              generation: input.session.generation,
              packet: id,
              lost: null,
              changedAt: now
            }
      return decided(
        [
          fact("packet.issued", id, packet),
          ...(remembered === null ? [] : [fact("continuity.moved", id, remembered)]),
          fact("turn.contextIssued", turn.id, under)
        ],
        packet
      )
    })
})

// --- what became of it -----------------------------------------------------------------------------------------------

const AcknowledgePacket = Schema.Struct({
  packet: IdText,
  /** The digest of the packet as the executor has it. */
  digest: DigestText,
  tokens: Schema.optional(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 })))
})

/** Needs no lease: that a packet arrived is so, whoever holds what. */
const acknowledge = handler({
  type: "acknowledgePacket",
  payload: AcknowledgePacket,
  load: (input) => packetTable.first("id = ?", input.packet),
  decide: (packet, input, { now }) => {
    if (packet === undefined) return Result.fail(notFound("packet", input.packet))
    if (packet.digest !== input.digest) {
      return Result.fail(
        new IdentityConflict({
          message: `Packet ${packet.id} has another digest than the one that was acknowledged.`,
          remedy:
            "The executor has another context than it was given: leave the packet unacknowledged, the next one is complete.",
          kind: "packet",
          id: packet.id
        })
      )
    }
    if (packet.acknowledgedAt !== null) return Result.succeed(decided([], packet))
    const next: PacketRecord = { ...packet, tokens: input.tokens ?? null, acknowledgedAt: now }
    return Result.succeed(decided([fact("packet.acknowledged", packet.id, next)], next))
  }
})

const RecordCompaction = Schema.Struct({ goal: IdText, agent: IdText, session: Binding })

/** A compaction of a generation that is over, or of a session that was told nothing, changes nothing. */
const compacted = handler({
  type: "recordCompaction",
  payload: RecordCompaction,
  *load({ goal, agent, session }) {
    return {
      goal: yield* loadGoal(goal),
      memory: yield* continuityTable.first("goal = ? AND agent = ? AND session = ?", goal, agent, session.id)
    }
  },
  decide: ({ goal, memory }, input, { now }) => {
    if (goal === undefined) return Result.fail(notFound("goal", input.goal))
    const reply = { goal: goal.id, agent: input.agent, session: input.session }
    if (memory === undefined || memory.lost !== null || memory.generation > input.session.generation) {
      return Result.succeed(decided([], { ...reply, lost: memory?.lost ?? null }))
    }
    const next: ContinuityRecord = { ...memory, lost: "compaction", changedAt: now }
    return Result.succeed(decided([fact("continuity.lost", memory.packet, next)], { ...reply, lost: next.lost }))
  }
})

export const packetHandlers: Handlers = { ...issue, ...acknowledge, ...compacted }

// --- service ---------------------------------------------------------------------------------------------------------

/** Context packets: what the executor of a turn was told, and whether it has it (G14). */
export const Packets = {
  /**
   * Issues the packet of a turn that is about to be dispatched, in one commit with what the turn is from then on admitted under
   * (G86). `body` is what the executor gets; hand it over as it is. With a `session` (a binding and its generation, whose
   * executor remembers) it is a difference to the last packet there when that one was acknowledged, no required read was
   * revised and no compaction recorded since; else complete, and `why` says why. `limitBytes` of canonical JSON, 32 KiB when not
   * given: lists are cut, and `omitted` counts what was left out. `decisions` and `references` are the caller's own, at most 200 each.
   * Errors: `ContextTooLarge` (what may never be dropped does not fit: by how much), `SourceState` (a required read cannot be
   * read), `PhaseOrder` (it has a result already), `LeaseLost`, `GoalNotActive`, `TurnInFlight`, `NotPublic`, `NotFound`.
   */
  issue: observing<
    IssuePacket,
    PacketRecord,
    ContextTooLarge | SourceState | PhaseOrder | LeaseLost | GoalNotActive | TurnInFlight | NotFound
  >("issuePacket", (input) => turnTable.first("id = ?", input.turn)),
  /**
   * Records that the executor has a packet: `digest` as it echoed it, `tokens` as it counted them. Twice is no error.
   * Errors: `IdentityConflict` (it has another one; the next packet is complete), `NotFound`.
   */
  acknowledge: writer<typeof AcknowledgePacket.Type, PacketRecord, IdentityConflict | NotFound>(
    "work",
    "acknowledgePacket"
  ),
  /** Records that the executor of a session has lost what it was told: the next packet is complete. Errors: `NotFound` (goal). */
  compacted: writer<
    typeof RecordCompaction.Type,
    { readonly goal: string; readonly agent: string; readonly session: Binding; readonly lost: "compaction" | null },
    NotFound
  >("work", "recordCompaction"),
  /** One packet, with its body. Errors: `NotFound`. */
  get: reader(
    (input: { readonly packet: string }) => packetTable.first("id = ?", input.packet),
    (input) => notFound("packet", input.packet)
  ),
  /** The packets of a turn, oldest first. */
  list: reader(function* (input: { readonly turn: string }): Load<{ readonly items: readonly PacketRecord[] }> {
    return { items: yield* packetTable.find("turn = ? ORDER BY issued_at, id", input.turn) }
  })
}
