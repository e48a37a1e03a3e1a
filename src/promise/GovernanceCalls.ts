/**
 * Governance as plain async functions, over its services.
 * Promise: adds no rule; each function is the service's own, run on the open store. Rules: G1, G2, G7; 01 "Arrows" (promise).
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import {
  Acceptances,
  Agents,
  Authority,
  Candidates,
  Deliveries,
  Effects,
  Evidence,
  Gates,
  Goals,
  Leases,
  Loop,
  Obligations,
  Packets,
  Quota,
  Settlements,
  Sources,
  Todos,
  Turns
} from "../governance/index.ts"
import { type Calls, milliseconds } from "./Calls.ts"
import type { Coppice } from "./Coppice.ts"
import { sendCall } from "./DeliveryCalls.ts"
import { operationCalls } from "./OperationCalls.ts"
import { badArgument, toFailure } from "./Failure.ts"
import type { CallOptions, Duration } from "./Plain.ts"

type Governance = Pick<
  Coppice,
  | "goals"
  | "gates"
  | "obligations"
  | "agents"
  | "todos"
  | "leases"
  | "quota"
  | "evidence"
  | "acceptances"
  | "settlements"
  | "turns"
  | "sources"
  | "packets"
  | "loop"
  | "candidates"
  | "deliveries"
  | "effects"
  | "operations"
  | "journal"
>

export const governanceCalls = (calls: Calls): Governance => {
  const oneObject = (input: unknown): void => {
    if (typeof input === "object" && input !== null) return
    throw badArgument("input", "This call takes one object.", "See its declaration for the fields.")
  }
  /** A service's function, as a promise. Anything but an object would be a bug in there: it is refused here. */
  const plain =
    <Input extends object, A, E>(call: (input: Input) => Effect.Effect<A, E, Authority>) =>
    async (input: Input, options?: CallOptions): Promise<A> => {
      oneObject(input)
      return calls.run(call(input), options)
    }
  /** The same, where a lease is taken for some time. */
  const timed =
    <Input extends { readonly ttlMs?: number | undefined }, A, E>(
      call: (input: Input) => Effect.Effect<A, E, Authority>
    ) =>
    async (input: Omit<Input, "ttlMs"> & { readonly ttl?: Duration }, options?: CallOptions): Promise<A> => {
      oneObject(input)
      const { ttl, ...rest } = input
      const time = ttl === undefined ? {} : { ttlMs: milliseconds("ttl", ttl) }
      return plain(call)({ ...rest, ...time } as unknown as Input, options)
    }
  return {
    goals: {
      open: plain(Goals.open),
      get: plain(Goals.get),
      frontier: plain(Goals.frontier),
      complete: plain(Goals.complete),
      pause: plain(Goals.pause),
      resume: plain(Goals.resume),
      stop: plain(Goals.stop)
    },
    gates: {
      ask: plain(Gates.ask),
      decide: plain(Gates.decide),
      withdraw: plain(Gates.withdraw),
      get: plain(Gates.get),
      list: plain(Gates.list)
    },
    obligations: {
      open: plain(Obligations.open),
      meet: plain(Obligations.meet),
      waive: plain(Obligations.waive),
      get: plain(Obligations.get),
      list: plain(Obligations.list)
    },
    agents: { register: plain(Agents.register), list: plain(Agents.list) },
    todos: {
      add: plain(Todos.add),
      edit: plain(Todos.edit),
      defer: plain(Todos.defer),
      reopen: plain(Todos.reopen),
      supersede: plain(Todos.supersede),
      complete: plain(Todos.complete),
      nextWork: timed(Todos.nextWork),
      get: plain(Todos.get),
      list: plain(Todos.list)
    },
    leases: {
      acquire: timed(Leases.acquire),
      renew: timed(Leases.renew),
      transfer: timed(Leases.transfer),
      release: plain(Leases.release),
      inspect: plain(Leases.inspect),
      heldBy: plain(Leases.heldBy)
    },
    quota: {
      reserve: plain(Quota.reserve),
      spend: plain(Quota.spend),
      trueUp: plain(Quota.trueUp),
      void: plain(Quota.void),
      get: plain(Quota.get),
      status: plain(Quota.status),
      history: plain(Quota.history),
      usage: plain(Quota.usage)
    },
    evidence: { record: plain(Evidence.record), get: plain(Evidence.get), list: plain(Evidence.list) },
    acceptances: { record: plain(Acceptances.record), get: plain(Acceptances.get), list: plain(Acceptances.list) },
    settlements: { settle: plain(Settlements.settle), get: plain(Settlements.get), list: plain(Settlements.list) },
    turns: {
      admit: plain(Turns.admit),
      saveAttempt: plain(Turns.saveAttempt),
      executorStarted: plain(Turns.executorStarted),
      recordResult: plain(Turns.recordResult),
      recordVerdict: plain(Turns.recordVerdict),
      close: plain(Turns.close),
      fail: plain(Turns.fail),
      resume: plain(Turns.resume),
      retry: plain(Turns.retry),
      retryAttempt: plain(Turns.retryAttempt),
      get: plain(Turns.get),
      list: plain(Turns.list)
    },
    candidates: {
      plan: plain(Candidates.plan),
      record: plain(Candidates.record),
      resolve: plain(Candidates.resolve),
      releasePin: plain(Candidates.releasePin),
      get: plain(Candidates.get),
      planned: plain(Candidates.planned),
      list: plain(Candidates.list)
    },
    effects: {
      plan: plain(Effects.plan),
      dispatch: plain(Effects.dispatch),
      answer: plain(Effects.answer),
      readBack: plain(Effects.readBack),
      resolve: plain(Effects.resolve),
      abandon: plain(Effects.abandon),
      requestStop: plain(Effects.requestStop),
      confirmStopped: plain(Effects.confirmStopped),
      noteEnded: plain(Effects.noteEnded),
      get: plain(Effects.get),
      list: plain(Effects.list),
      unresolved: plain(Effects.unresolved)
    },
    operations: operationCalls(calls),
    sources: {
      register: plain(Sources.register),
      revise: plain(Sources.revise),
      markUnreadable: plain(Sources.markUnreadable),
      markReadable: plain(Sources.markReadable),
      retire: plain(Sources.retire),
      read: plain(Sources.read),
      get: plain(Sources.get),
      list: plain(Sources.list)
    },
    packets: {
      issue: plain(Packets.issue),
      acknowledge: plain(Packets.acknowledge),
      compacted: plain(Packets.compacted),
      get: plain(Packets.get),
      list: plain(Packets.list)
    },
    loop: {
      state: plain(Loop.state),
      next: (input) => {
        oneObject(input)
        const { receipt, state, turns, bound } = input
        const next = Loop.next(receipt, state, {
          turns,
          ...(bound === undefined ? {} : { bound })
        })
        if (Result.isFailure(next)) throw toFailure(next.failure)
        return next.success
      }
    },
    deliveries: {
      send: sendCall(calls),
      setOrigin: plain(Deliveries.setOrigin),
      changeOrigin: plain(Deliveries.changeOrigin),
      dispatch: plain(Deliveries.dispatch),
      resolve: plain(Deliveries.resolve),
      readByUser: plain(Deliveries.readByUser),
      withdraw: plain(Deliveries.withdraw),
      get: plain(Deliveries.get),
      list: plain(Deliveries.list),
      undelivered: plain(Deliveries.undelivered)
    },
    journal: {
      read: async (options = {}) => {
        oneObject(options)
        const { signal, ...page } = options
        return calls.run(
          Effect.flatMap(Authority, (authority) => authority.journal(page)),
          signal === undefined ? {} : { signal }
        )
      },
      verify: (options) =>
        calls.run(
          Effect.flatMap(Authority, (authority) => authority.verify),
          options
        )
    }
  }
}
