/**
 * What presets share: the authority opened through the registry, and the read-back of the assembly.
 * Promise: one implementation of every service, whichever preset is loaded (principle 3); a provider's code is imported by
 * the layer that needs it. Rules: P3, P4, P9, V2.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { parseByteSize } from "../base/ByteSize.ts"
import { errorFields } from "../base/CoppiceError.ts"
import { didYouMean } from "../base/Nearest.ts"
import { Authority } from "../governance/Authority.ts"
import type { AuthorityModule } from "../governance/Module.ts"
import { CommandHosts } from "../host/CommandHosts.ts"
import type { Busy, StorageFailure, StoreMoved } from "../sqlite/Database.ts"
import type { StoreLocation } from "../workspace/WorkspaceError.ts"
import { Assembly, type AssemblyReport } from "./Assembly.ts"
import { PluginRefused, refusedPlugin, type WorkspacePlugin } from "./Plugin.ts"
import { builtInNames, makeRegistry, type Registry } from "./Registry.ts"
import { storeDirectory } from "./StoreDefault.ts"

/** An option of a preset is wrong. Nothing was opened. */
export class PresetOptionsError extends Schema.TaggedError<PresetOptionsError>()("PresetOptionsError", {
  ...errorFields("PRESET_OPTIONS"),
  option: Schema.String
}) {}

/** The authority's own directory is unusable, whatever provider found it out. */
export interface AuthorityUnusable {
  readonly _tag: "AuthorityLocation"
  readonly code: string
  readonly message: string
  readonly remedy: string
}

export type AssemblyError =
  | PresetOptionsError
  | PluginRefused
  | StoreLocation
  | AuthorityUnusable
  | Busy
  | StoreMoved
  | StorageFailure

/** As in package.json: a test holds the two together. */
export const coppiceVersion = "0.0.0"

/** What an option may be: a path, a size in bytes (see ByteSize), a small whole number, a list, or one of these words. */
export type OptionValues = "path" | "size" | "count" | "list" | readonly string[]

interface Fitting {
  readonly fits: (value: unknown) => boolean
  readonly remedy: string
}

const fittings: Readonly<Record<Exclude<OptionValues, readonly string[]>, Fitting>> = {
  path: { fits: (value) => typeof value === "string" && value !== "", remedy: "Give the path of a directory." },
  size: {
    fits: (value) => parseByteSize(value) !== undefined,
    remedy: 'Give whole bytes from 0 up, or text such as "64 MiB".'
  },
  count: {
    fits: (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 64,
    remedy: "Give a whole number from 0 to 64."
  },
  list: { fits: Array.isArray, remedy: "Give a list; an empty one is fine." }
}

const fittingOf = (values: OptionValues): Fitting =>
  typeof values === "string"
    ? fittings[values]
    : { fits: (value) => values.includes(value as string), remedy: `Give one of ${values.join(", ")}.` }

export interface PresetParts {
  readonly preset: AssemblyReport["preset"]
  /** As the application gave them. */
  readonly options: { readonly store?: string | undefined; readonly project?: string | undefined }
  /** Every option that the preset has. */
  readonly allowed: Readonly<Record<string, OptionValues>>
  /** One that was given and that the chosen provider has no use for. */
  readonly unused?: string | undefined
  readonly modules: readonly AuthorityModule[]
  readonly enabled: ReadonlyMap<string, string>
  /** Providers of the application, as it gave them: not looked at yet. */
  readonly plugins?: readonly WorkspacePlugin[] | undefined
  /** Helper processes that the application asked for, in words. */
  readonly pools?: readonly string[]
}

const report = (parts: PresetParts, registry: Registry): AssemblyReport => ({
  preset: parts.preset,
  coppice: coppiceVersion,
  node: process.versions.node,
  parts: registry.parts(),
  modules: parts.modules.map((module) => module.name),
  pools: parts.pools ?? [],
  sessionModes: ["managed_runtime"]
})

/** The first option that the preset does not have, or whose value it does not know; undefined values count as absent. */
const wrongOption = ({ preset, options, allowed, unused }: PresetParts): PresetOptionsError | undefined => {
  for (const [option, value] of Object.entries(options) as [string, unknown][]) {
    const values = Object.hasOwn(allowed, option) ? allowed[option] : undefined
    if (values === undefined) {
      return new PresetOptionsError({
        option,
        message: `The preset ${preset} has no option called ${option}.`,
        remedy: didYouMean(option, Object.keys(allowed), "Remove it, or use")
      })
    }
    const { fits, remedy } = fittingOf(values)
    if (value !== undefined && !fits(value)) {
      return new PresetOptionsError({
        option,
        message: `The option ${option} of the preset ${preset} cannot be ${shown(value)}.`,
        remedy
      })
    }
  }
  if (unused === undefined) return undefined
  return new PresetOptionsError({
    option: unused,
    message: `The chosen workspace provider has no use for the option ${unused}.`,
    remedy: `Leave \`${unused}\` out, or take \`workspaces: "layerfs"\`.`
  })
}

/** A value for a message: as JSON has it, cut short. */
const shown = (value: unknown): string => {
  const text =
    typeof value === "object" && value !== null
      ? `of the kind ${typeof value}`
      : (JSON.stringify(value) ?? typeof value)
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`
}

/** The authority, the assembly and the command hosts of a preset. */
export const authorityLayer = (parts: PresetParts): Layer.Layer<Authority | Assembly | CommandHosts, AssemblyError> => {
  const plugins = Array.isArray(parts.plugins) ? parts.plugins : []
  const refused = refusedPlugin(plugins, builtInNames)
  const registry = makeRegistry(parts.enabled, refused === undefined ? plugins : [])
  const assembly = Layer.succeed(Assembly, { read: () => report(parts, registry), registry })
  const authority = Layer.effect(
    Authority,
    Effect.gen(function* () {
      const wrong = wrongOption(parts)
      if (wrong !== undefined) return yield* wrong
      if (refused !== undefined) return yield* refused
      const directory = yield* storeDirectory(parts.options)
      const provider = yield* registry.load("authority-sqlite", "opened by the preset")
      const store = yield* provider.sqliteAuthority({ directory, modules: parts.modules })
      registry.markReady("authority-sqlite", true)
      return Authority.make(store)
    })
  )
  const commands = Layer.succeed(CommandHosts, {
    make: (command, options) =>
      Effect.map(registry.load("host-process", "an executor is a plain command"), ({ commandHost }) =>
        commandHost(command, options)
      )
  })
  return Layer.mergeAll(authority, assembly, commands)
}
