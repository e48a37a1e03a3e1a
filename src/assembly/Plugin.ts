/**
 * Providers that an application brings: what it says of one, and when that is refused.
 * Promise: what is registered is looked at before anything is opened or loaded; of two under one name none is taken, whatever
 * their order; a module that is not what was registered is shown and refused, never used. Rules: P1, P2, P3, P9.
 *
 * ```ts
 * const mine: WorkspacePlugin = {
 *   name: "my-snapshots", kind: "workspace", version: "1.2.0", contract: 1, about: "snapshots of our file server",
 *   load: () => import("my-snapshots")
 * }
 * standard({ plugins: [mine], workspaces: "my-snapshots" })
 * ```
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { ByteSize } from "../base/ByteSize.ts"
import { errorFields } from "../base/CoppiceError.ts"
import type { StoreOptionInvalid } from "../workspace/WorkspaceError.ts"
import type { StoreError, WorkspaceProvider } from "../workspace/WorkspaceProvider.ts"

/** The contracts that an application's provider may implement, each with the version that this Coppice speaks. */
export const contracts = { workspace: 1 } as const

/** What is said of a provider where it is registered, and by its own module. */
export const PluginFacts = Schema.Struct({
  /** Lower case, digits and dashes; it is what `workspaces` names. */
  name: Schema.String.check(Schema.isPattern(/^[a-z][a-z0-9-]{0,63}$/)),
  kind: Schema.Literals(["workspace"]),
  version: Schema.String.check(Schema.isPattern(/^\d+\.\d+\.\d+(?:[-+][\w.+-]+)?$/)),
  /** The version of the contract that it was written for: see `contracts`. */
  contract: Schema.Int
})
export type PluginFacts = typeof PluginFacts.Type

/** What a workspace provider's module exports. */
export interface WorkspacePluginModule {
  /** The module's own facts: equal to those it was registered with, or it is stale. */
  readonly coppice: PluginFacts
  /**
   * Opens the provider in a scope; its files belong below `store`, which exists and is private. Caps of the preset are handed
   * on: a provider that cannot keep one fails with `StoreOptionInvalid`, it does not pass over it.
   */
  readonly openWorkspaces: (options: {
    readonly store: string
    readonly storeQuota?: ByteSize
    readonly projectQuota?: ByteSize
    readonly cacheLimit?: ByteSize
  }) => Effect.Effect<WorkspaceProvider, StoreError | StoreOptionInvalid, Scope.Scope>
}

/** A workspace provider as an application registers it. `load` is called when it is first used, and not before. */
export interface WorkspacePlugin extends PluginFacts {
  readonly about: string
  readonly load: () => Promise<WorkspacePluginModule>
}

/**
 * A provider that was registered cannot be used. `malformed`, `duplicate` and `incompatible` are found before anything is opened;
 * `stale` and `broken` when its module is loaded.
 */
export class PluginRefused extends Schema.TaggedError<PluginRefused>()("PluginRefused", {
  ...errorFields("PLUGIN_REFUSED"),
  plugin: Schema.String,
  why: Schema.Literals(["malformed", "duplicate", "incompatible", "stale", "broken"])
}) {}

const remedies: Record<PluginRefused["why"], string> = {
  malformed: "Give name, kind, version (as 1.2.3), contract, about, and a function `load` that imports the module.",
  duplicate: "Register each name once. There is no order in which one would win.",
  incompatible: "Install a version of it that was written for this contract, or the Coppice that it was written for.",
  stale: "Register it with the facts that its module exports as `coppice`: one of the two is of another version.",
  broken: "See that its package is installed, and that its module exports `coppice` and the function `openWorkspaces`."
}

const refusal = (plugin: string, why: PluginRefused["why"], message: string): PluginRefused =>
  new PluginRefused({ plugin, why, message, remedy: remedies[why] })

const isFacts = Schema.is(PluginFacts)

/** Why these providers cannot be registered beside the built-in ones; undefined when they can. Nothing of theirs is loaded. */
export const refusedPlugin = (plugins: readonly unknown[], builtIn: readonly string[]): PluginRefused | undefined => {
  const taken = new Set(builtIn)
  for (const [index, given] of plugins.entries()) {
    const plugin = given as Partial<WorkspacePlugin> | null | undefined
    if (
      typeof plugin !== "object" ||
      plugin === null ||
      !isFacts(plugin) ||
      typeof plugin.about !== "string" ||
      typeof plugin.load !== "function"
    ) {
      return refusal(`#${index + 1}`, "malformed", `Plugin ${index + 1} is not described as a provider.`)
    }
    const { name, kind, contract } = plugin
    if (taken.has(name)) {
      const whose = builtIn.includes(name) ? "a built-in provider" : "another one"
      return refusal(name, "duplicate", `The plugin ${name} has the name of ${whose}.`)
    }
    if (contract !== contracts[kind]) {
      const text = `The plugin ${name} is for contract ${contract} of a ${kind}; this Coppice speaks ${contracts[kind]}.`
      return refusal(name, "incompatible", text)
    }
    taken.add(name)
  }
  return undefined
}

/** The plugin's module, when it is what was registered. Rejects with `PluginRefused`. */
export const loadPlugin = async (plugin: WorkspacePlugin): Promise<WorkspacePluginModule> => {
  const { name } = plugin
  let loaded: WorkspacePluginModule
  try {
    loaded = await plugin.load()
  } catch (error) {
    const code = (error as { readonly code?: unknown } | null)?.code
    const detail = typeof code === "string" ? ` (${code})` : ""
    throw refusal(name, "broken", `The module of the plugin ${name} could not be loaded${detail}.`)
  }
  if (typeof loaded !== "object" || loaded === null || typeof loaded.openWorkspaces !== "function") {
    throw refusal(name, "broken", `The module of the plugin ${name} does not export \`openWorkspaces\`.`)
  }
  const own: unknown = loaded.coppice
  if (!isFacts(own)) throw refusal(name, "broken", `The module of the plugin ${name} does not say what it is.`)
  const differs = (["name", "kind", "version", "contract"] as const).find((fact) => own[fact] !== plugin[fact])
  if (differs === undefined) return loaded
  const text = `The plugin ${name} is registered with ${differs} ${plugin[differs]}; its module says ${own[differs]}.`
  throw refusal(name, "stale", text)
}
