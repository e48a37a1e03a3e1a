/**
 * The registry of providers: what exists, and the one way to load it.
 * Promise: a literal table of the built-in ones, beside those that the application registered; reading it loads no provider,
 * scans no folder and uses no network; a provider's code is imported when it is first used and never before; what was loaded,
 * and why, can be read back. Rules: P1, P2, P3, P4, P9, V1.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import { loadPlugin, type PluginRefused, type WorkspacePlugin, type WorkspacePluginModule } from "./Plugin.ts"

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
  "git-worktree": {
    kind: "workspace",
    about: "worktrees of a user's git repository; states as commits of a repository of the store's",
    load: () => import("../../providers/git-worktree/index.ts")
  },
  reflink: {
    kind: "workspace",
    about: "workspaces and states as clones of directories, on btrfs and XFS",
    load: () => import("../../providers/reflink/index.ts")
  },
  "host-process": {
    kind: "host",
    about: "any program that speaks the stdio turn protocol",
    load: () => import("../../providers/host-process/index.ts")
  }
} as const

export type ProviderName = keyof typeof builtIn
type Loaded<Name extends ProviderName> = Awaited<ReturnType<(typeof builtIn)[Name]["load"]>>

/**
 * Installed, enabled, loaded and ready are separate facts (P3); null: nobody has found out yet. Whether somebody is authorised is
 * no fact of a part: it is asked of the lease, the budget and the gates, inside each write (P7).
 */
export interface Part {
  readonly name: string
  readonly kind: PartKind
  readonly about: string
  /** Who brought it, and the version that an application's provider says it has. */
  readonly from: "coppice" | "application"
  readonly version: string | null
  readonly installed: boolean | null
  readonly enabled: boolean
  readonly loaded: boolean
  readonly ready: boolean | null
  /** Why its module was refused when it was loaded; null: it was not (P2). */
  readonly refused: PluginRefused["why"] | null
  readonly why: string
}

export interface Registry {
  readonly parts: () => readonly Part[]
  /** Imports a provider's module, once. */
  readonly load: <Name extends ProviderName>(name: Name, why: string) => Effect.Effect<Loaded<Name>>
  /** Imports the module of a provider that the application registered. Errors: `UnknownProvider`, `PluginRefused`. */
  readonly loadWorkspaces: (
    name: string,
    why: string
  ) => Effect.Effect<WorkspacePluginModule, UnknownProvider | PluginRefused>
  readonly markReady: (name: string, ready: boolean) => void
}

/** The names of the built-in providers. */
export const builtInNames = Object.keys(builtIn) as readonly ProviderName[]

const unknownProvider = (name: string, known: readonly string[]): UnknownProvider =>
  new UnknownProvider({
    name,
    known,
    message: `There is no provider called ${name}.`,
    remedy: `Use one of ${known.join(", ")}, or register a provider of your own in \`plugins\`.`
  })

/** The name, when it is one of the table's. */
export const providerName = (name: string): Effect.Effect<ProviderName, UnknownProvider> =>
  Object.hasOwn(builtIn, name) ? Effect.succeed(name as ProviderName) : Effect.fail(unknownProvider(name, builtInNames))

/** A registry for one assembly. `enabled` is what the preset and the application asked for, by name, with the reason. */
export const makeRegistry = (
  enabled: ReadonlyMap<string, string>,
  plugins: readonly WorkspacePlugin[] = []
): Registry => {
  const loaded = new Map<string, string>()
  const ready = new Map<string, boolean>()
  const refused = new Map<string, PluginRefused["why"]>()
  const stateOf = (name: string) => ({
    enabled: enabled.has(name),
    loaded: loaded.has(name),
    ready: ready.get(name) ?? null,
    refused: refused.get(name) ?? null,
    why: loaded.get(name) ?? enabled.get(name) ?? "not asked for"
  })
  const remember = (name: string, why: string): void => {
    if (!loaded.has(name)) loaded.set(name, why)
  }
  return {
    parts: () => [
      ...builtInNames.map((name): Part => {
        const { kind, about } = builtIn[name]
        return { name, kind, about, from: "coppice", version: null, installed: true, ...stateOf(name) }
      }),
      ...plugins.map(({ name, kind, about, version }): Part => {
        const found = loaded.has(name) ? true : refused.get(name) === "broken" ? false : null
        return { name, kind, about, from: "application", version, installed: found, ...stateOf(name) }
      })
    ],
    load: (name, why) =>
      Effect.promise(async () => {
        const module = await builtIn[name].load()
        remember(name, why)
        return module as never
      }),
    loadWorkspaces: (name, why) => {
      const plugin = plugins.find((one) => one.name === name)
      if (plugin === undefined) {
        return Effect.fail(unknownProvider(name, [...builtInNames, ...plugins.map((one) => one.name)]))
      }
      return Effect.tryPromise({ try: () => loadPlugin(plugin), catch: (error) => error as PluginRefused }).pipe(
        Effect.tap(() => Effect.sync(() => remember(name, why))),
        Effect.tapError((error) => Effect.sync(() => refused.set(name, error.why)))
      )
    },
    markReady: (name, value) => {
      ready.set(name, value)
    }
  }
}
