/**
 * The workspace provider that a preset was asked for: which of the preset's options it has a use for, and how it is opened.
 * Promise: an option that the chosen provider would pass over is refused by name, before anything is opened; a provider of the application
 * that is none is refused with what it lacks; whoever asks for a state that is not there is told which other provider's store lies
 * beside. Rules: P2, P3, P9, W2.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ByteSize } from "../base/ByteSize.ts"
import { type StoreOptionInvalid, RefNotFound, Unavailable } from "../workspace/WorkspaceError.ts"
import type { StoreError, WorkspaceProvider } from "../workspace/WorkspaceProvider.ts"
import { contractCalls } from "./LazyWorkspaces.ts"
import type { PluginRefused } from "./Plugin.ts"
import type { Registry } from "./Registry.ts"

/** What a preset hands on to a provider. */
export interface WorkspaceOptions {
  readonly storeQuota?: ByteSize
  readonly projectQuota?: ByteSize
  readonly cacheLimit?: ByteSize
  readonly warmPool?: number
}

/** The built-in providers with the options that each has a use for; a store of one is the directory of its name in the preset's store. */
export const builtInWorkspaces = {
  layerfs: ["storeQuota", "projectQuota", "cacheLimit", "warmPool"],
  "git-worktree": ["storeQuota"],
  reflink: ["storeQuota"]
} as const satisfies Readonly<Record<string, readonly (keyof WorkspaceOptions)[]>>

type BuiltIn = keyof typeof builtInWorkspaces

/** What an application's provider is handed: it refuses itself what it cannot keep. */
const handedOn: readonly (keyof WorkspaceOptions)[] = ["storeQuota", "projectQuota", "cacheLimit"]

export const isBuiltIn = (name: string): name is BuiltIn => Object.hasOwn(builtInWorkspaces, name)

/** The first option that was given and that the provider of this name has no use for. */
export const unusedOption = (name: string, options: WorkspaceOptions): keyof WorkspaceOptions | undefined => {
  if (name === "off") return undefined
  const used: readonly string[] = isBuiltIn(name) ? builtInWorkspaces[name] : handedOn
  const given = ["storeQuota", "projectQuota", "cacheLimit", "warmPool"] as const
  return given.find((option) => options[option] !== undefined && !used.includes(option))
}

/** The providers whose stores lie in the directory of a preset's store. */
export const storedIn = (directory: string): readonly BuiltIn[] =>
  (Object.keys(builtInWorkspaces) as BuiltIn[]).filter((name) => existsSync(join(directory, name, "index.db")))

const defined = (options: WorkspaceOptions): WorkspaceOptions =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))

const unusable = ({ message, remedy }: { readonly message: string; readonly remedy: string }, what: string) =>
  new Unavailable({ what: "workspaces", missing: [what], message, remedy })

/** The preset has looked at the sizes; what a plugin refuses is its own affair. */
const refusedOption = (invalid: StoreOptionInvalid) => Effect.fail(unusable(invalid, invalid.option))

const noProvider = (name: string, why: string): Unavailable =>
  unusable(
    {
      message: `\`openWorkspaces\` of the plugin ${name} did not give a workspace provider: ${why}.`,
      remedy:
        "Let it return an Effect of a provider with every operation of the contract; `workspaceConformance` tests one."
    },
    name
  )

/** What an application's module gave, when it is a provider. */
const checked = (plugin: string, given: unknown): Effect.Effect<WorkspaceProvider, Unavailable> => {
  if (typeof given !== "object" || given === null) return Effect.fail(noProvider(plugin, `it is ${String(given)}`))
  const lacking = contractCalls.filter((name) => {
    try {
      const call = (given as Readonly<Record<string, unknown>>)[name]
      return typeof call !== "function" && !Effect.isEffect(call)
    } catch {
      return true
    }
  })
  if (lacking.length > 0) return Effect.fail(noProvider(plugin, `it lacks ${lacking.join(", ")}`))
  return Effect.succeed(given as WorkspaceProvider)
}

/** The chosen provider, imported and opened. */
export const openChosen = (
  registry: Registry,
  name: string,
  directory: string,
  options: WorkspaceOptions
): Effect.Effect<WorkspaceProvider, StoreError, Scope.Scope> => {
  const given = { store: directory, ...defined(options) }
  const why = "first use of a workspace"
  const opened: Effect.Effect<WorkspaceProvider, StoreError | StoreOptionInvalid, Scope.Scope> = Effect.gen(
    function* () {
      if (name === "layerfs") return yield* (yield* registry.load(name, why)).openLayerFs(given)
      if (name === "git-worktree") return yield* (yield* registry.load(name, why)).openGitWorktree(given)
      if (name === "reflink") return yield* (yield* registry.load(name, why)).openReflink(given)
      const module = yield* registry.loadWorkspaces(name, why).pipe(
        Effect.catchTag("UnknownProvider", Effect.die),
        Effect.mapError((refused: PluginRefused) => unusable(refused, refused.plugin))
      )
      const opening = yield* Effect.try({
        try: () => module.openWorkspaces(given) as unknown,
        catch: (error) => noProvider(name, error instanceof Error ? error.message : String(error))
      })
      if (!Effect.isEffect(opening)) {
        // Of an async function: a rejection that nobody looks at would end the application.
        if (opening instanceof Promise) opening.catch(() => undefined)
        return yield* noProvider(name, "it did not return an Effect")
      }
      return yield* Effect.flatMap(opening as ReturnType<typeof module.openWorkspaces>, (made) => checked(name, made))
    }
  )
  return opened.pipe(
    Effect.catchTag("StoreOptionInvalid", refusedOption),
    Effect.tap(() => Effect.sync(() => registry.markReady(name, true)))
  )
}

/** The same failure, which also tells of stores of other providers in this directory: what is looked for may lie there. */
export const namingOthers =
  (name: string, directory: string) =>
  <E>(error: E): E => {
    if (!(error instanceof RefNotFound)) return error
    const others = storedIn(directory).filter((other) => other !== name)
    if (others.length === 0) return error
    const { message, remedy, ref } = error
    const hint = `This store also holds workspaces of ${others.join(" and ")}, which ${name} does not see: pass \`workspaces\` with that name for them.`
    return new RefNotFound({ message, ref, remedy: `${remedy} ${hint}` }) as E
  }
