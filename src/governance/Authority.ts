/**
 * The single writer of work facts, as an Effect service over an `AuthorityStore`.
 * Promise: every write is one command, committed once whatever is retried; every answer says as of which journal
 * sequence it holds; a refusal changed nothing. Rules: G1, G2, G4, G7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { type CoppiceError, isCoppiceError } from "../base/CoppiceError.ts"
import type { Json } from "../base/Digest.ts"
import { newId } from "../base/Id.ts"
import type { ProcessIdentity } from "../base/Spawn.ts"
import { isWhole } from "../base/WholeText.ts"
import type { Busy, StorageFailure, StoreMoved } from "../sqlite/Database.ts"
import { type IdempotencyKeyReuse, InvalidInput, type NotPublic } from "./GovernanceError.ts"
import type { AuthorityStore, Command, JournalEntry, Load } from "./Module.ts"

/** The authority could not be reached or written; nothing was done. */
export type StoreError = Busy | StoreMoved | StorageFailure

/** What every read may fail with, beside its own refusals. */
export type ReadError = StoreError | InvalidInput

/** What every write may fail with, beside its own refusals. */
export type WriteError = StoreError | IdempotencyKeyReuse | InvalidInput | NotPublic

/** What every answer says of itself (G7). */
export interface AsOf {
  /** The journal sequence as of which the answer holds. */
  readonly asOf: number
}

/** What every write says of itself: `replayed` when the same command had been committed before. */
export interface Receipt extends AsOf {
  readonly replayed: boolean
}

/** What a read is given beside its input: the store's time, by which leases and windows are judged (G36). */
export interface ReadContext {
  readonly now: number
}

/** Every write takes the caller's idempotency key; without one a new command is meant (G2). */
export interface Keyed {
  readonly commandId?: string | undefined
}

const storeEdge = <A, E extends CoppiceError>(run: () => Promise<A>): Effect.Effect<A, E> =>
  // Not interruptible: a commit under way ends in a known outcome, at the latest after the store's bound for Busy.
  Effect.uninterruptible(Effect.tryPromise({ try: run, catch: (error) => error })).pipe(
    Effect.catch((error) => (isCoppiceError(error) ? Effect.fail(error as E) : Effect.die(error)))
  )

/** A read's input goes into its statements as it is: a field that is missing or of a wrong type is refused there. */
function* withSoundParams<A>(query: Load<A>): Load<A> {
  let step = query.next()
  while (step.done !== true) {
    if (!step.value.params.every(isParam)) {
      throw new InvalidInput({
        command: "read",
        message: "read: a field of the input is missing or of a wrong type",
        remedy: "Give every field that the call names: ids as texts, numbers as numbers."
      })
    }
    step = query.next(yield step.value)
  }
  return step.value
}

const isParam = (value: unknown): boolean =>
  value === null ||
  typeof value === "string" ||
  typeof value === "bigint" ||
  value instanceof Uint8Array ||
  (typeof value === "number" && Number.isFinite(value))

/** How much of a list is asked for, and from where: what is no such number is refused before SQL sees it. */
const wrongCount = (input: object): string | undefined =>
  (["limit", "after", "offset"] as const).find((name) => {
    const value = (input as { readonly [name: string]: unknown })[name]
    return value !== undefined && (!Number.isSafeInteger(value) || (value as number) < 0)
  })

const notCount = (call: string, field: string): InvalidInput =>
  new InvalidInput({
    command: call,
    message: `${call}: \`${field}\` is not a whole number, 0 or more`,
    remedy: "Give a whole number, or leave it out."
  })

/** Whether a process may still run; "unknown" where that cannot be seen. */
export type Sight = (process: ProcessIdentity) => boolean | "unknown"

/** The service. `commit` is what rooms build their write functions on; applications call those functions. */
export class Authority extends Context.Service<
  Authority,
  {
    /**
     * Commits one command. `E` names the refusals of the command's module.
     * Errors: `Busy` (repeat the call), `StoreMoved` (restart with the newer version), `StorageFailure` (see its remedy),
     * `IdempotencyKeyReuse` (use a new command id for another payload), and the refusals of the module.
     */
    readonly commit: <Reply, E extends CoppiceError = CoppiceError>(
      command: Command
    ) => Effect.Effect<{ readonly reply: Reply; readonly seq: number; readonly replayed: boolean }, E | WriteError>
    /** Runs a read at one consistent snapshot. */
    readonly read: <A>(
      query: (context: ReadContext) => Load<A>
    ) => Effect.Effect<{ readonly value: A; readonly seq: number }, StoreError>
    /** Committed facts after a sequence, oldest first (default limit 1,000, at most 10,000). */
    readonly journal: (options?: {
      readonly after?: number
      readonly limit?: number
    }) => Effect.Effect<readonly JournalEntry[], ReadError>
    /** Walks the hash chain and names the first broken link. */
    readonly verify: Effect.Effect<
      { readonly ok: boolean; readonly entries: number; readonly brokenAt: number | null },
      StoreError
    >
    /** Looks whether processes that wrote here may still run, and answers what it saw of each (G81). */
    readonly look: (processes: readonly (ProcessIdentity | null)[]) => Effect.Effect<Sight>
  }
>()("coppice/Authority") {
  /** The service over an open store. */
  static readonly make = (store: AuthorityStore): Authority["Service"] => ({
    commit: <Reply, E extends CoppiceError>(command: Command) =>
      storeEdge<Awaited<ReturnType<AuthorityStore["commit"]>>, E | WriteError>(() => store.commit([command])).pipe(
        Effect.flatMap(([outcome]) =>
          outcome!._tag === "Refused"
            ? Effect.fail(outcome!.error as E)
            : Effect.succeed({ reply: outcome!.reply as Reply, seq: outcome!.seq, replayed: outcome!.replayed })
        )
      ),
    read: (query) => storeEdge(() => store.read((context) => withSoundParams(query(context)))),
    journal: (options) => {
      const wrong = wrongCount(options ?? {})
      return wrong === undefined
        ? storeEdge(() => store.journal({ after: options?.after ?? 0, limit: options?.limit ?? 1000 }))
        : Effect.fail(notCount("journal", wrong))
    },
    verify: storeEdge(() => store.verify()),
    look: (processes) =>
      Effect.promise(async () => {
        const seen = new Map<ProcessIdentity, boolean | "unknown">()
        for (const one of processes) if (one !== null) seen.set(one, await store.isAlive(one))
        return (one) => seen.get(one) ?? "unknown"
      })
  })

  /** The layer over a store that `acquire` opens; its scope closes the store. */
  static readonly layer = <E, R>(
    acquire: Effect.Effect<AuthorityStore, E, R>
  ): Layer.Layer<Authority, E, Exclude<R, Scope.Scope>> => Layer.effect(Authority, Effect.map(acquire, Authority.make))
}

const noInput = (call: string): InvalidInput =>
  new InvalidInput({
    command: call,
    message: `${call}: the input is not an object`,
    remedy: "Give an object with the fields that the call names. Nothing was changed."
  })

/** A write function of a module: its input is the command's payload beside the optional command id. */
export const writer =
  <Input extends object, Reply extends object, E extends CoppiceError>(module: string, type: string) =>
  (input: Input & Keyed): Effect.Effect<Reply & Receipt, E | WriteError, Authority> =>
    writeObserved<Input, Reply, E>(module, type, input)

/** `writer`, with what this process observed beside the command. */
export const writeObserved = <Input extends object, Reply extends object, E extends CoppiceError>(
  module: string,
  type: string,
  input: Input & Keyed,
  observed?: Json
): Effect.Effect<Reply & Receipt, E | WriteError, Authority> =>
  Effect.flatMap(Authority, (authority) => {
    if (typeof input !== "object" || input === null) return Effect.fail(noInput(type))
    const { commandId, ...payload } = input
    if (
      commandId !== undefined &&
      (typeof commandId !== "string" || commandId === "" || commandId.length > 300 || !isWhole(commandId))
    ) {
      return Effect.fail(
        new InvalidInput({
          command: type,
          message: `${type}: the command id is not a text of 1 to 300 characters, all of them whole`,
          remedy: "Give a string, or leave it out for a new command. Nothing was changed."
        })
      )
    }
    const command: Command = {
      id: commandId ?? newId("command"),
      module,
      type,
      payload: payload as unknown as Json,
      ...(observed === undefined ? {} : { observed })
    }
    return Effect.map(authority.commit<Reply & { readonly replayed?: boolean }, E>(command), (committed) => ({
      ...committed.reply,
      asOf: committed.seq,
      // A command under a new id may itself find that what it asks for was done before (G72).
      replayed: committed.replayed || committed.reply.replayed === true
    }))
  })

/** A read function: the query's answer with the sequence it holds for; undefined becomes the failure of `missing`. */
export const reader =
  <Input, A extends object, E = never>(
    query: (input: Input, context: ReadContext) => Load<A | undefined>,
    missing?: (input: Input) => E
  ) =>
  (input: Input): Effect.Effect<A & AsOf, E | ReadError, Authority> =>
    Effect.flatMap(Authority, (authority): Effect.Effect<A & AsOf, E | ReadError> => {
      if (typeof input !== "object" || input === null) return Effect.fail(noInput("read"))
      const wrong = wrongCount(input)
      if (wrong !== undefined) return Effect.fail(notCount("read", wrong))
      return Effect.flatMap(
        authority.read((context) => query(input, context)),
        ({ value, seq }): Effect.Effect<A & AsOf, E> =>
          value === undefined ? Effect.fail(missing!(input)) : Effect.succeed({ ...value, asOf: seq })
      )
    })
