/**
 * The registry of built-in providers: what exists, and the one way to load it.
 * Promise: a literal table; reading it loads no provider, scans no folder and uses no network; a provider's code is imported
 * when it is first used and never before; what was loaded, and why, can be read back. Rules: P1, P3, P4, P9, V1.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"

/** No provider of that name is known. Nothing was loaded. */
export class UnknownProvider extends Schema.TaggedError<UnknownProvider>()("UnknownProvider", {
  ...errorFields("UNKNOWN_PROVIDER"),
  name: Schema.String,
  known: Schema.Array(Schema.String)
}) {}

export type PartKind = "authority" | "workspace" | "host"

/** Every built-in provider, with its own dynamic import and so its own chunk. */
const builtIn = {
  "authority-sqlite": {
    kind: "authority",
    about: "governance in one SQLite file",
    load: () => import("../../providers/authority-sqlite/index.ts")
  },
  layerfs: {
    kind: "workspace",
    about: "content-addressed, branching file system; overlay or copy workspaces",
    load: () => import("../../providers/layerfs/index.ts")
  },
  "host-process": {
    kind: "host",
    about: "any program that speaks the stdio turn protocol",
    load: () => import("../../providers/host-process/index.ts")
  }
} as const

export type ProviderName = keyof typeof builtIn
type Loaded<Name extends ProviderName> = Awaited<ReturnType<(typeof builtIn)[Name]["load"]>>

/** Installed, enabled, ready and loaded are separate facts (P3). `ready` is null until it was probed. */
export interface Part {
  readonly name: string
  readonly kind: PartKind
  readonly about: string
  readonly installed: boolean
  readonly enabled: boolean
  readonly loaded: boolean
  readonly ready: boolean | null
  readonly why: string
}

export interface Registry {
  readonly parts: () => readonly Part[]
  /** Imports a provider's module, once. */
  readonly load: <Name extends ProviderName>(name: Name, why: string) => Effect.Effect<Loaded<Name>>
  readonly markReady: (name: ProviderName, ready: boolean) => void
}

/** The name, when it is one of the table's. */
export const providerName = (name: string): Effect.Effect<ProviderName, UnknownProvider> =>
  Object.hasOwn(builtIn, name)
    ? Effect.succeed(name as ProviderName)
    : Effect.fail(
        new UnknownProvider({
          name,
          known: Object.keys(builtIn),
          message: `There is no provider called ${name}.`,
          remedy: `Use one of ${Object.keys(builtIn).join(", ")}, or pass a module of your own.`
        })
      )

/** A registry for one assembly. `enabled` is what the preset and the application asked for. */
export const makeRegistry = (enabled: ReadonlyMap<ProviderName, string>): Registry => {
  const loaded = new Map<ProviderName, string>()
  const ready = new Map<ProviderName, boolean>()
  return {
    parts: () =>
      (Object.keys(builtIn) as ProviderName[]).map((name) => ({
        name,
        kind: builtIn[name].kind,
        about: builtIn[name].about,
        installed: true,
        enabled: enabled.has(name),
        loaded: loaded.has(name),
        ready: ready.get(name) ?? null,
        why: loaded.get(name) ?? enabled.get(name) ?? "not asked for"
      })),
    load: (name, why) =>
      Effect.promise(async () => {
        const module = await builtIn[name].load()
        if (!loaded.has(name)) loaded.set(name, why)
        return module as never
      }),
    markReady: (name, value) => {
      ready.set(name, value)
    }
  }
}
