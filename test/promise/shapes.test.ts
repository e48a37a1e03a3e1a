/**
 * The promise entry beside the services of governance: the same calls, taking and giving the same fields.
 * Promise: a service or a call that is new, or a field that came, went or changed on one side alone, fails here by its name: at run
 * time for the calls, in the type check for the fields. Rules: V3; docs/decisions/024, 054.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import * as Governance from "../../src/governance/index.ts"
import type * as Plain from "../../src/promise.ts"
import { type Coppice, type Duration, open } from "../../src/promise.ts"

// --- types -----------------------------------------------------------------------------------------------------------

/** A type without names, brands, `readonly` and ways of saying "absent": two of them are equal when their values are. */
type Shape<T> = T extends (...args: any) => any
  ? "function"
  : unknown extends T
    ? "anything"
    : T extends readonly (infer Item)[]
      ? readonly Shape<Item>[]
      : T extends string | number | boolean | null | undefined
        ? T
        : T extends object
          ? { readonly [K in keyof T]-?: Shape<Exclude<T[K], undefined>> | ({} extends Pick<T, K> ? "absent" : never) }
          : T

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false

type ServiceCall = (input: any) => Effect.Effect<any, any, any>
type Service<S> = S extends { readonly [name: string]: ServiceCall } ? S : never

/** The services of governance under the names that the promise entry has for them. */
type Services = {
  [Name in keyof typeof Governance as Service<(typeof Governance)[Name]> extends never
    ? never
    : Uncapitalize<Name & string>]: (typeof Governance)[Name]
}

/** A service's input as people without Effect give it: times to live are durations, and what needs Effect is left out. */
type PlainInput<I> = I extends { readonly ttlMs?: number | undefined }
  ? Omit<I, "ttlMs"> & { readonly ttl?: Duration }
  : Omit<I, "artifacts">

type InputOf<F> = F extends (input: infer I, ...rest: any) => unknown ? I : never
type ReplyOf<F> = F extends (...args: any) => Effect.Effect<infer A, any, any> | Promise<infer A> ? A : never

type Each<U> = U extends unknown ? PlainInput<U> : never

/** What of a call differs. */
type Differs<Plain, Service> =
  | (Same<Shape<InputOf<Plain>>, Shape<Each<InputOf<Service>>>> extends true ? never : "input")
  | (Same<Shape<ReplyOf<Plain>>, Shape<ReplyOf<Service>>> extends true ? never : "reply")

type CallDrift<Plain, Of, Name extends string, Call> = Call extends keyof Plain & string
  ? Call extends keyof Of
    ? `${Name}.${Call} ${Differs<Plain[Call], Of[Call]>}`
    : never
  : `${Name}.${Call & string} is missing`

type Drift = {
  [Name in keyof Services & string]: Name extends keyof Coppice
    ? { [Call in keyof Services[Name]]: CallDrift<Coppice[Name], Services[Name], Name, Call> }[keyof Services[Name]]
    : `${Name} is missing`
}[keyof Services & string]

/** Its `data` is JSON of any shape there, and said to be of no shape here. */
type JournalDrift =
  Same<Shape<Omit<Plain.JournalEntry, "data">>, Shape<Omit<Governance.JournalEntry, "data">>> extends true
    ? never
    : "journal.read reply"

/** The loop's pure part gives a `Result` there and throws here; the rest of it is the same. */
type LoopDrift =
  | (Same<Shape<ReplyOf<Coppice["loop"]["state"]>>, Shape<ReplyOf<typeof Governance.Loop.state>>> extends true
      ? never
      : "loop.state reply")
  | (Same<Shape<LoopInput["receipt"]>, Shape<Governance.LoopReceipt | undefined>> extends true
      ? never
      : "loop.next receipt")
  | (Same<Shape<ReturnType<Coppice["loop"]["next"]>>, Shape<Governance.Disposition>> extends true
      ? never
      : "loop.next disposition")
type LoopInput = Parameters<Coppice["loop"]["next"]>[0]

const drift: readonly never[] = [] as readonly (Drift | LoopDrift | JournalDrift)[]

// --- run time --------------------------------------------------------------------------------------------------------

/** Sends with a provider of the application's: the session's call, not a service's. */
const beside = ["deliveries.send"]

const callsOf = (name: string, service: object): readonly string[] =>
  Object.keys(service).map((call) => `${name}.${call}`)

test("V3 every service of governance is there under its name, with every call, and nothing that is none", async () => {
  const services = Object.entries(Governance).filter(
    ([name, value]) =>
      /^[A-Z]/.test(name) &&
      typeof value === "object" &&
      Object.values(value).every((call) => typeof call === "function")
  )
  assert.isAbove(services.length, 10)
  assert.deepEqual(drift, [])
  const place = mkdtempSync(join(tmpdir(), "coppice-shapes-"))
  try {
    await using coppice: Coppice = await open({ preset: "minimal", store: join(place, "store") })
    const promised = coppice as unknown as Readonly<Record<string, object>>
    const missing: string[] = []
    const more: string[] = []
    for (const [title, service] of services) {
      const name = title[0]!.toLowerCase() + title.slice(1)
      if (promised[name] === undefined) missing.push(name)
      else {
        const [here, there] = [callsOf(name, promised[name]), callsOf(name, service)]
        missing.push(...there.filter((call) => !here.includes(call)))
        more.push(...here.filter((call) => !there.includes(call)))
      }
    }
    assert.deepEqual(missing, [])
    assert.deepEqual(more, beside)
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
})
