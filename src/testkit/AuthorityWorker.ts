/**
 * A second process on the store under test: the program's side, which serves calls, and the suite's side, which makes them.
 * Promise: a call is the service's own, by its name; what is answered was committed. Rules: G2, G3, G81, G82.
 */
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../base/CoppiceError.ts"
import { Authority } from "../governance/Authority.ts"
import * as Governance from "../governance/index.ts"
import type { OpenedAuthority } from "./AuthorityUnderTest.ts"
import { serveLines, startLines, type WorkerLines } from "./WorkerLines.ts"

/** A service function by its name, such as `Leases.acquire`. */
export type CallName = `${string}.${string}`

/** How a call ended: its answer, or the fields of its refusal. */
export type CallEnd =
  | { readonly ok: any }
  | { readonly refused: { readonly code: string; readonly [field: string]: unknown } }

type Call = (input: object) => Effect.Effect<unknown, unknown, Authority>

const callOf = (name: CallName): Call => {
  const [service, operation] = name.split(".") as [string, string]
  const call = (Governance as unknown as Record<string, Record<string, Call>>)[service]?.[operation]
  if (call === undefined) throw new Error(`There is no call ${name}`)
  return call
}

/** The fields of a refusal, as they travel. */
export const refusalOf = (error: unknown): { readonly code: string; readonly [field: string]: unknown } => {
  if (!isCoppiceError(error)) throw error
  const { _tag, code, message, remedy } = error
  return { ...(error as object), _tag, code, message, remedy }
}

/** Runs an effect on an open authority, to its end. */
export const endOf = async <A, E>(
  { authority }: OpenedAuthority,
  effect: Effect.Effect<A, E, Authority>
): Promise<{ readonly ok: A } | { readonly error: E; readonly refused: ReturnType<typeof refusalOf> }> => {
  const ended = await Effect.runPromise(Effect.result(Effect.provideService(effect, Authority, authority)))
  return ended._tag === "Success" ? { ok: ended.success } : { error: ended.failure, refused: refusalOf(ended.failure) }
}

/**
 * The whole of a worker program: serves calls on stdin, one JSON object a line, until stdin ends.
 *
 * ```ts
 * await serveAuthority(() => openMyStore(process.argv[2]))
 * ```
 */
export const serveAuthority = async (open: () => Promise<OpenedAuthority>): Promise<void> => {
  const opened = await open()
  await serveLines<{ readonly call: CallName; readonly input: object }>(async ({ call, input }) => {
    const end = await endOf(
      opened,
      Effect.suspend(() => callOf(call)(input))
    )
    return "ok" in end ? { ok: end.ok } : { refused: end.refused }
  })
  await opened.close()
}

/** A running worker. */
export interface Worker extends Pick<WorkerLines<object, CallEnd>, "kill" | "end"> {
  /** Its answer or refusal; rejects when the process has ended. Calls that are not awaited run at the same time. */
  readonly call: (name: CallName, input: object) => Promise<CallEnd>
}

/** Starts a worker program and waits until it has opened the store. */
export const startWorker = async (argv: readonly [string, ...string[]]): Promise<Worker> => {
  const { ask, kill, end } = await startLines<object, CallEnd>(argv)
  return { call: (call, input) => ask({ call, input }), kill, end }
}
