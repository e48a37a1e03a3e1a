/** How each kind of authority is opened, by the conformance suite and by its worker program. Rules: V2. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { openAuthority } from "../../providers/authority-sqlite/index.ts"
import { Authority } from "../../src/governance/index.ts"
import { minimal } from "../../src/minimal.ts"
import { standard } from "../../src/standard.ts"
import type { OpenedAuthority, OpenUnderTest } from "../../src/testkit/index.ts"

export const kinds = ["sqlite", "minimal", "standard"] as const
export type AuthorityKind = (typeof kinds)[number]

const openBare = async (directory: string, { now, modules }: OpenUnderTest): Promise<OpenedAuthority> => {
  const store = await openAuthority({
    directory,
    durability: "normal",
    ...(now === undefined ? {} : { now }),
    ...(modules === undefined ? {} : { modules })
  })
  return { authority: Authority.make(store), close: () => store.close() }
}

/** Effect's own clock with another reading of the time; its methods may live on a prototype, so it stays the prototype. */
const clockOf = (now: () => number): Clock.Clock => {
  const system = Effect.runSync(Clock.clockWith((clock) => Effect.succeed(clock)))
  return Object.assign(Object.create(system) as Clock.Clock, {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now)
  })
}

const openPreset = async (
  preset: "minimal" | "standard",
  store: string,
  { now }: OpenUnderTest
): Promise<OpenedAuthority> => {
  const layer: Layer.Layer<Authority, unknown> = preset === "minimal" ? minimal({ store }) : standard({ store })
  const timed = now === undefined ? layer : Layer.provide(layer, Layer.succeed(Clock.Clock, clockOf(now)))
  const runtime = ManagedRuntime.make(timed)
  try {
    const authority = await runtime.runPromise(Effect.map(Authority, (service) => service))
    return { authority, close: () => runtime.dispose() }
  } catch (error) {
    await runtime.dispose()
    throw error
  }
}

export const openAs = (
  kind: AuthorityKind,
  directory: string,
  options: OpenUnderTest = {}
): Promise<OpenedAuthority> => (kind === "sqlite" ? openBare(directory, options) : openPreset(kind, directory, options))
