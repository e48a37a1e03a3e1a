/**
 * Session binding: which executor acts for which agent right now.
 * Promise: a binding has exactly one mode, chosen when it is made, stored and readable, never changed implicitly; at most
 * one live binding for a (goal, agent), whatever its mode. Rules: S1, S2, S3; written by Authority only (G1).
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import { reader, writer } from "../governance/Authority.ts"
import { loadLiveOf } from "../governance/Lease.ts"
import type { AuthorityModule, Load, Statement } from "../governance/Module.ts"
import { openTurn } from "../governance/TurnFence.ts"
import type { Row } from "../sqlite/Database.ts"

// --- model -----------------------------------------------------------------------------------------------------------

/** `managed_runtime`: Coppice starts and supervises the runtime. `attached_host`: an external session keeps its process. */
export const ExecutionMode = Schema.Literals(["managed_runtime", "attached_host"])
export type ExecutionMode = typeof ExecutionMode.Type

const Id = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(100))

export const Bind = Schema.Struct({
  goal: Id,
  agent: Id,
  mode: ExecutionMode,
  /** Names the executor; not the agent's id and not the host's own session handle (S2). */
  executorEndpointId: Id,
  /** Required when attached, absent when managed. */
  hostSurface: Schema.optionalKey(Id)
})
export const Unbind = Schema.Struct({ binding: Id, generation: Schema.Int, reason: Schema.String })

/** A binding as it is read. It carries no host session id (G6). */
export interface Binding {
  readonly id: string
  readonly goal: string
  readonly agent: string
  readonly mode: ExecutionMode
  readonly executorEndpointId: string
  readonly hostSurface: string | null
  readonly generation: number
  readonly status: "live" | "closed"
}

// --- errors ----------------------------------------------------------------------------------------------------------

/** Another live binding holds this (goal, agent). Nothing was changed. */
export class BindingConflict extends Schema.TaggedError<BindingConflict>()("BindingConflict", {
  ...errorFields("BINDING_CONFLICT"),
  binding: Schema.String,
  mode: ExecutionMode
}) {}

/** The request is malformed: an unknown mode, a missing surface, an unknown field. */
export class BindingRefused extends Schema.TaggedError<BindingRefused>()("BindingRefused", {
  ...errorFields("BINDING_REFUSED")
}) {}

/** The caller speaks for an older generation of the binding; recorded by nobody, changes nothing (S3). */
export class StaleBinding extends Schema.TaggedError<StaleBinding>()("StaleBinding", {
  ...errorFields("STALE_BINDING"),
  actual: Schema.NullOr(Schema.Number)
}) {}

/** The binding is not idle: its agent holds leases, or has an open turn (C54). Nothing was changed. */
export class BindingInUse extends Schema.TaggedError<BindingInUse>()("BindingInUse", {
  ...errorFields("BINDING_IN_USE"),
  binding: Schema.String,
  /** Todos on which a live lease is held. */
  todos: Schema.Array(Schema.String),
  turn: Schema.NullOr(Schema.String)
}) {}

// --- decisions -------------------------------------------------------------------------------------------------------

interface State {
  readonly live: Row | undefined
  readonly named: Row | undefined
  readonly lastGeneration: number
  /** Todos that the named binding's agent holds, and its open turn; looked at for a reaping only. */
  readonly held: readonly string[]
  readonly turn: string | null
}

function* load(
  command: { readonly type: string; readonly payload: unknown },
  { now }: { readonly now: number }
): Load<State> {
  const p = command.payload as Record<string, unknown>
  const text = (value: unknown) => (typeof value === "string" ? value : "")
  const rows = yield {
    sql: "SELECT * FROM session_binding WHERE goal = ? AND agent = ? ORDER BY generation",
    params: [text(p["goal"]), text(p["agent"])]
  }
  const named = yield { sql: "SELECT * FROM session_binding WHERE id = ?", params: [text(p["binding"])] }
  const whose = command.type === "reap" ? named[0] : undefined
  const goal = text(whose?.["goal"])
  const agent = text(whose?.["agent"])
  return {
    live: rows.find((row) => row["status"] === "live"),
    named: named[0],
    lastGeneration: Number(rows.at(-1)?.["generation"] ?? 0),
    held: whose === undefined ? [] : (yield* loadLiveOf(goal, agent, now)).map((lease) => lease.todo),
    turn: whose === undefined ? null : ((yield* openTurn(goal, agent))?.id ?? null)
  }
}

const malformed = (what: string) =>
  Result.fail(
    new BindingRefused({
      message: `The binding was refused: ${what}.`,
      remedy: "Give goal, agent, executorEndpointId and a mode of managed_runtime or attached_host (with hostSurface)."
    })
  )

const decide: AuthorityModule<State>["decide"] = (state, command, context) => {
  if (command.type === "bind") {
    const decoded = Schema.decodeUnknownResult(Bind, { onExcessProperty: "error" })(command.payload)
    if (Result.isFailure(decoded)) return malformed("a field is missing, unknown or out of range")
    const p = decoded.success
    if ((p.mode === "attached_host") !== (p.hostSurface !== undefined)) {
      return malformed("hostSurface belongs to attached_host, and to it alone")
    }
    if (state.live !== undefined) {
      const same =
        state.live["mode"] === p.mode &&
        state.live["endpoint"] === p.executorEndpointId &&
        (state.live["surface"] ?? undefined) === p.hostSurface
      if (same) {
        return Result.succeed({
          events: [],
          reply: { id: String(state.live["id"]), generation: Number(state.live["generation"]) }
        })
      }
      return Result.fail(
        new BindingConflict({
          binding: String(state.live["id"]),
          mode: state.live["mode"] as ExecutionMode,
          message: "This agent already has a live binding in this goal.",
          remedy: "Close that binding first; nothing changes a binding implicitly."
        })
      )
    }
    const id = context.newId("binding")
    const generation = state.lastGeneration + 1
    return Result.succeed({
      events: [{ type: "session.bound", entity: id, data: { id, generation, ...p } }],
      reply: { id, generation }
    })
  }
  if (command.type === "unbind" || command.type === "reap") {
    const decoded = Schema.decodeUnknownResult(Unbind, { onExcessProperty: "error" })(command.payload)
    if (Result.isFailure(decoded)) return malformed(`${command.type} names binding, generation and reason`)
    const actual = state.named === undefined ? null : Number(state.named["generation"])
    if (actual !== decoded.success.generation || state.named?.["status"] !== "live") {
      return Result.fail(
        new StaleBinding({
          actual,
          message: "That generation of the binding is not live.",
          remedy: "Read the binding again and name its generation."
        })
      )
    }
    if (state.held.length > 0 || state.turn !== null) {
      return Result.fail(
        new BindingInUse({
          binding: decoded.success.binding,
          todos: state.held,
          turn: state.turn,
          message: `The binding is in use: ${state.held.length} live lease(s), ${state.turn === null ? "no" : "an"} open turn.`,
          remedy:
            "Wait until the leases are released or have expired and the turn has ended; a quiet session is not an idle one."
        })
      )
    }
    return Result.succeed({
      events: [{ type: "session.unbound", entity: decoded.success.binding, data: decoded.success }],
      reply: { id: decoded.success.binding }
    })
  }
  return malformed(`there is no command ${command.type}`)
}

const project: AuthorityModule["project"] = (event, meta): readonly Statement[] => {
  const d = event.data as Record<string, any>
  if (event.type === "session.bound") {
    return [
      {
        sql: "INSERT INTO session_binding (id, goal, agent, mode, endpoint, surface, generation, status, seq) VALUES (?, ?, ?, ?, ?, ?, ?, 'live', ?)",
        params: [
          d["id"],
          d["goal"],
          d["agent"],
          d["mode"],
          d["executorEndpointId"],
          d["hostSurface"] ?? null,
          d["generation"],
          meta.seq
        ]
      }
    ]
  }
  return [{ sql: "UPDATE session_binding SET status = 'closed' WHERE id = ?", params: [d["binding"]] }]
}

/** The session room's part of the authority file. */
export const sessionModule: AuthorityModule<State> = {
  name: "session",
  version: 1,
  migrations: [
    {
      version: 1,
      name: "bindings",
      sql: `
CREATE TABLE session_binding (id TEXT PRIMARY KEY, goal TEXT NOT NULL, agent TEXT NOT NULL, mode TEXT NOT NULL,
  endpoint TEXT NOT NULL, surface TEXT, generation INTEGER NOT NULL, status TEXT NOT NULL, seq BIGINT NOT NULL);
CREATE UNIQUE INDEX session_binding_live ON session_binding (goal, agent) WHERE status = 'live';
`
    }
  ],
  load,
  decide,
  project
}

/** Bindings: which executor acts for which agent. */
export const Bindings = {
  /** Binds an executor to an agent, or returns the equal live binding. Errors: `BindingConflict`, `BindingRefused`. */
  bind: writer<
    typeof Bind.Type,
    { readonly id: string; readonly generation: number },
    BindingConflict | BindingRefused
  >("session", "bind"),
  /** Ends a binding by its generation. Errors: `StaleBinding`, `BindingRefused`. */
  unbind: writer<typeof Unbind.Type, { readonly id: string }, StaleBinding | BindingRefused>("session", "unbind"),
  /**
   * Ends a binding because it is idle; refused while its agent holds a live lease or has an open turn, in the same commit that
   * would end it. Errors: `BindingInUse` (leave it), `StaleBinding`, `BindingRefused`.
   */
  reap: writer<typeof Unbind.Type, { readonly id: string }, BindingInUse | StaleBinding | BindingRefused>(
    "session",
    "reap"
  ),
  /** Every binding of a goal, closed ones included. */
  list: reader(function* (input: { readonly goal: string }): Load<{ readonly items: readonly Binding[] }> {
    const rows = yield {
      sql: "SELECT * FROM session_binding WHERE goal = ? ORDER BY agent, generation",
      params: [input.goal]
    }
    return {
      items: rows.map((row) => ({
        id: String(row["id"]),
        goal: String(row["goal"]),
        agent: String(row["agent"]),
        mode: row["mode"] as ExecutionMode,
        executorEndpointId: String(row["endpoint"]),
        hostSurface: row["surface"] === null ? null : String(row["surface"]),
        generation: Number(row["generation"]),
        status: row["status"] as Binding["status"]
      }))
    }
  })
}
