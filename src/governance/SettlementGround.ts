/**
 * What a settlement stands on: the turn whose work it is, the verdict that accepts it, and the reservation that pays it.
 * Promise: work of a turn settles as that turn's and nothing else; a verdict accepts once, and only work that its validator did
 * not do; a cost goes where it was held. Rules: G53, G70, G71, G72, G75, G80. The commit is in Settlement.ts.
 */
import * as Result from "effect/Result"
import { type AcceptanceRecord, apart, carries, invalid } from "./Acceptance.ts"
import type { CandidateRecord } from "./CandidateRecord.ts"
import type { EvidenceRecord } from "./Evidence.ts"
import type { Fence } from "./Field.ts"
import { EvidenceMissing, IdentityConflict, LeaseLost, notFound } from "./GovernanceError.ts"
import type { LeaseRecord } from "./Lease.ts"
import type { DecideContext } from "./Module.ts"
import { closed, type Spend, spendReserved, spendUnreserved } from "./QuotaLedger.ts"
import type { ReservationRecord } from "./ReservationRecord.ts"
import type { SettlementRecord } from "./SettlementRecord.ts"
import type { TodoRecord } from "./TodoRecord.ts"
import { besideNone } from "./TurnFence.ts"
import { inPhase, type TurnRecord } from "./TurnRecord.ts"

export interface Ground {
  readonly turn: TurnRecord | undefined
  /** The open turn of the todo's holder, looked for where the settlement names none. */
  readonly open: TurnRecord | undefined
  /** What is kept as the cost of this effect. */
  readonly kept: ReservationRecord | undefined
  /** The reservation that is named. */
  readonly held: ReservationRecord | undefined
  readonly acceptance: AcceptanceRecord | undefined
  /** What this verdict has accepted already. */
  readonly carried: SettlementRecord | undefined
  readonly candidate: CandidateRecord | undefined
  readonly evidence: readonly (EvidenceRecord | undefined)[]
  readonly verdictEvidence: readonly (EvidenceRecord | undefined)[]
}

interface Settling {
  readonly effectId: string
  readonly goal: string
  readonly fence: Fence
  readonly turn?: string | undefined
  readonly candidate?: string | null | undefined
  readonly reservation?: string | undefined
  readonly spend: Spend
}

export const conflict = (
  effectId: string,
  message: string,
  remedy = "Read it with Settlements.get. Another piece of work has another effect id."
): IdentityConflict => new IdentityConflict({ message, remedy, kind: "settlement", id: effectId })

/** The turn that is settled, checked against what the settlement names; undefined for work that was done without one. */
export const settledTurn = ({ turn, open, kept, held }: Ground, input: Settling, lease: LeaseRecord) =>
  Result.gen(function* () {
    if (input.turn === undefined) {
      const whose = kept?.turn ?? held?.turn ?? null
      if (whose !== null) {
        return yield* Result.fail(
          conflict(input.effectId, `This cost is held for turn ${whose}.`, `Settle it with \`turn\`: ${whose}.`)
        )
      }
      yield* besideNone(open, input.fence.todo, "settle")
      return undefined
    }
    if (turn === undefined || turn.goal !== input.goal) return yield* Result.fail(notFound("turn", input.turn))
    if (turn.effectId !== input.effectId || turn.todo !== input.fence.todo) {
      return yield* Result.fail(conflict(input.effectId, `Turn ${turn.id} is settled under effect ${turn.effectId}.`))
    }
    if (turn.epoch !== lease.epoch) {
      return yield* Result.fail(
        new LeaseLost({
          message: `Turn ${turn.id} was admitted at epoch ${turn.epoch}; the lease is at ${lease.epoch}.`,
          remedy:
            turn.agent === lease.owner
              ? "Take the turn over under the new lease with Turns.resume, then settle it."
              : `It is a turn of ${turn.agent}, and ${lease.owner} holds the todo now: end it with Turns.fail, which records its cost.`,
          todo: turn.todo,
          epoch: turn.epoch,
          currentEpoch: lease.epoch,
          why: "epoch"
        })
      )
    }
    return yield* inPhase(turn, "settle")
  })

/** An accepted outcome stands on a passed verdict for exactly this work, with patch and verdict kept outside the workspace store. */
export const accepted = (ground: Ground, input: Settling, todo: TodoRecord, lease: LeaseRecord) =>
  Result.gen(function* () {
    const candidate = input.candidate ?? null
    const acceptance = yield* carries(ground.acceptance, {
      goal: input.goal,
      todo: todo.id,
      turn: input.turn ?? null,
      candidate,
      validator: todo.acceptance?.validator ?? null
    })
    // Who holds the work is known for certain only now: a verdict may be older than the lease, and need not name a turn.
    yield* apart(acceptance.id, acceptance.validator.name, ground.verdictEvidence, lease.owner)
    if (ground.carried !== undefined) {
      return yield* Result.fail(
        invalid(acceptance.id, "used", `Acceptance ${acceptance.id} has accepted settlement ${ground.carried.id}.`)
      )
    }
    if (candidate === null) return acceptance.id
    if (ground.candidate === undefined) {
      return yield* Result.fail(invalid(acceptance.id, "unrecorded", `Candidate ${candidate} is not recorded.`))
    }
    const kinds = new Set([...ground.evidence, ...ground.verdictEvidence].map((e) => e?.kind))
    const missing = ["patch", "verdict"].filter((kind) => !kinds.has(kind))
    if (missing.length > 0) {
      return yield* Result.fail(
        new EvidenceMissing({
          message: `Accepting candidate ${candidate} needs evidence of kind ${missing.join(" and ")}.`,
          remedy: "Export it outside the workspace store and record it with Evidence.record, then settle again.",
          kinds: missing
        })
      )
    }
    return acceptance.id
  })

/** The cost in the place of what was held for it; what was held for another effect or another todo pays nothing here (G53). */
export const payFor = (
  { turn, held, kept }: Ground,
  input: Settling,
  todo: TodoRecord,
  lease: LeaseRecord,
  context: DecideContext
) =>
  Result.gen(function* () {
    if (turn === undefined && input.reservation === undefined) {
      if (kept !== undefined) {
        return yield* Result.fail(
          conflict(
            input.effectId,
            `A cost of effect ${input.effectId} is kept under reservation ${kept.id}.`,
            kept.state === "open"
              ? "Name that reservation, or use the id of the other effect."
              : "It is recorded: settle under another effect id, with what is not recorded yet as `spend` (0 when that is nothing)."
          )
        )
      }
      const owner = { goal: todo.goal, todo: todo.id, turn: null, agent: lease.owner }
      return spendUnreserved(owner, input.effectId, input.spend, null, context)
    }
    if (held === undefined || held.goal !== input.goal) {
      return yield* Result.fail(notFound("reservation", turn?.reservation ?? input.reservation!))
    }
    if (held.effectId !== input.effectId) {
      return yield* Result.fail(conflict(input.effectId, `Reservation ${held.id} is for effect ${held.effectId}.`))
    }
    if (held.todo !== null && held.todo !== todo.id) {
      return yield* Result.fail(
        conflict(
          input.effectId,
          `Reservation ${held.id} is for todo ${held.todo}, not ${todo.id}.`,
          "Settle each todo under a reservation of its own."
        )
      )
    }
    if (held.state !== "open") return yield* Result.fail(closed(held))
    return spendReserved(held, input.spend, null, context.now)
  })
