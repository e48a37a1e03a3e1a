/**
 * A second process on the store under test: the program's side, which serves calls, and the suite's side, which makes them.
 * Promise: a call is the service's own, by its name; what is answered was committed; the process is killed for real, with
 * SIGKILL. Rules: G2, G3, G81, G82.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../base/CoppiceError.ts"
import { Authority } from "../governance/Authority.ts"
import * as Governance from "../governance/index.ts"
import type { OpenedAuthority } from "./AuthorityUnderTest.ts"

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
  const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)
  const under = new Set<Promise<void>>()
  const serve = async (line: string): Promise<void> => {
    const { id, call, input } = JSON.parse(line) as { id: number; call: CallName; input: object }
    try {
      const end = await endOf(
        opened,
        Effect.suspend(() => callOf(call)(input))
      )
      say({ id, ...("ok" in end ? { ok: end.ok } : { refused: end.refused }) })
    } catch (error) {
      say({ id, bug: String(error) })
    }
  }
  say({ id: 0, ok: "ready" })
  for await (const line of createInterface({ input: process.stdin })) {
    const served = serve(line)
    under.add(served)
    void served.then(() => under.delete(served))
  }
  await Promise.all(under)
  await opened.close()
}

/** A running worker. */
export interface Worker {
  /** Its answer or refusal; rejects when the process has ended. Calls that are not awaited run at the same time. */
  readonly call: (name: CallName, input: object) => Promise<CallEnd>
  /** Ends it with SIGKILL, and waits until it is gone. */
  readonly kill: () => Promise<void>
  /** Lets it close its store and end. */
  readonly end: () => Promise<void>
}

/** Starts a worker program and waits until it has opened the store. */
export const startWorker = async (argv: readonly [string, ...string[]]): Promise<Worker> => {
  const child = spawn(argv[0], argv.slice(1), { stdio: ["pipe", "pipe", "inherit"] })
  const waiting = new Map<number, { resolve: (end: CallEnd) => void; reject: (error: Error) => void }>()
  let last = 0
  const answer = (id: number): Promise<CallEnd> =>
    new Promise((resolve, reject) => waiting.set(id, { resolve, reject }))
  const gone = once(child, "close")
  child.once("close", () => {
    for (const one of waiting.values()) one.reject(new Error("the worker process has ended"))
    waiting.clear()
  })
  child.stdin.on("error", () => undefined)
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, bug, ...end } = JSON.parse(line) as { id: number; bug?: string } & CallEnd
    const one = waiting.get(id)
    waiting.delete(id)
    if (bug === undefined) one?.resolve(end as CallEnd)
    else one?.reject(new Error(bug))
  })
  await answer(0)
  return {
    call: (name, input) => {
      last += 1
      const ended = answer(last)
      child.stdin.write(`${JSON.stringify({ id: last, call: name, input })}\n`)
      return ended
    },
    kill: async () => {
      child.kill("SIGKILL")
      await gone
    },
    end: async () => {
      child.stdin.end()
      await gone
    }
  }
}
