/**
 * A second process on the store under test: the program's side, which serves the provider's calls and those of workspaces that it
 * holds open, and the suite's side, which makes them. Promise: a call is the contract's own, by its name. Rules: L8, W10, W23.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { Workspace, WorkspaceProvider } from "../workspace/WorkspaceProvider.ts"
import { refusalOf } from "./AuthorityWorker.ts"
import { serveLines, startLines, type WorkerLines } from "./WorkerLines.ts"
import type { OpenProvider } from "./WorkspaceUnderTest.ts"

/** How a call ended: its answer, or the fields of its refusal. Bytes travel as text, which is all that the scenarios need. */
export type WorkspaceCallEnd =
  | { readonly ok: unknown }
  | { readonly refused: { readonly code: string; readonly [field: string]: unknown } }

interface Question {
  /** The id of an open workspace; the provider itself when absent. */
  readonly workspace?: string
  readonly call: string
  readonly args: readonly unknown[]
}

type Callable = Readonly<
  Record<string, Effect.Effect<unknown, unknown> | ((...args: readonly unknown[]) => Effect.Effect<unknown, unknown>)>
>

/** A call of the contract by its name, whatever its arguments are worth: also for what a provider may not have. */
export const callByName = (
  on: WorkspaceProvider | Workspace,
  name: string,
  ...args: readonly unknown[]
): Effect.Effect<unknown, unknown> =>
  Effect.suspend(() => {
    const call = (on as unknown as Callable)[name]
    if (call === undefined) throw new Error(`There is no call ${name}`)
    return typeof call === "function" ? call(...args) : call
  })

/**
 * The whole of a worker program: serves calls on stdin, one JSON object a line, until stdin ends. Workspaces that it opened stay open until
 * then, or until it is killed.
 *
 * ```ts
 * await serveWorkspaces(openMyProvider({ store: process.argv[2] }))
 * ```
 */
export const serveWorkspaces = async (open: OpenProvider): Promise<void> => {
  const scope = await Effect.runPromise(Scope.make())
  const provider = await Effect.runPromise(Scope.provide(open, scope))
  const held = new Map<string, Workspace>()
  const openHere = async (...[branch, options]: Parameters<WorkspaceProvider["open"]>) => {
    const opened = await Effect.runPromise(Effect.result(Scope.provide(provider.open(branch, options), scope)))
    if (opened._tag === "Failure") return { refused: refusalOf(opened.failure) }
    const { id, path } = opened.success
    held.set(id, opened.success)
    return { ok: { id, path } }
  }
  await serveLines<Question>(async ({ workspace, call, args }) => {
    if (workspace === undefined && call === "open") return openHere(...(args as Parameters<typeof openHere>))
    const on = workspace === undefined ? provider : held.get(workspace)
    if (on === undefined) throw new Error(`No workspace ${workspace} is open here`)
    // What a call starts in a workspace lives as long as the program does.
    const effect = Scope.provide(callByName(on, call, ...args) as Effect.Effect<unknown, unknown, Scope.Scope>, scope)
    const end = await Effect.runPromise(Effect.result(effect))
    if (end._tag === "Failure") return { refused: refusalOf(end.failure) }
    return { ok: call === "start" ? null : (end.success ?? null) }
  })
  await Effect.runPromise(Scope.close(scope, Exit.void))
}

/** A running worker. */
export interface WorkspaceWorker extends Pick<WorkerLines<Question, WorkspaceCallEnd>, "kill" | "signal" | "end"> {
  /** A call of the provider. */
  readonly call: (name: string, ...args: readonly unknown[]) => Promise<WorkspaceCallEnd>
  /** A call of a workspace that it has open. */
  readonly inside: (workspace: string, name: string, ...args: readonly unknown[]) => Promise<WorkspaceCallEnd>
}

/** Starts a worker program and waits until it has opened the store. */
export const startWorkspaceWorker = async (argv: readonly [string, ...string[]]): Promise<WorkspaceWorker> => {
  const { ask, kill, signal, end } = await startLines<Question, WorkspaceCallEnd>(argv)
  return {
    call: (call, ...args) => ask({ call, args }),
    inside: (workspace, call, ...args) => ask({ workspace, call, args }),
    kill,
    signal,
    end
  }
}
