/**
 * What presets share: the authority opened through the registry, and the read-back of the assembly.
 * Promise: one implementation of every service, whichever preset is loaded (principle 3); a provider's code is imported by
 * the layer that needs it. Rules: P3, P4, P9, V2.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"
import { Authority } from "../governance/Authority.ts"
import type { AuthorityModule } from "../governance/Module.ts"
import type { Busy, StorageFailure, StoreMoved } from "../sqlite/Database.ts"
import type { StoreLocation } from "../workspace/WorkspaceError.ts"
import { Assembly, type AssemblyReport } from "./Assembly.ts"
import { makeRegistry, type ProviderName, type Registry } from "./Registry.ts"
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

export type AssemblyError = PresetOptionsError | StoreLocation | AuthorityUnusable | Busy | StoreMoved | StorageFailure

export const coppiceVersion = "0.1.0"

export interface PresetParts {
  readonly preset: AssemblyReport["preset"]
  readonly store?: string | undefined
  readonly project?: string | undefined
  readonly modules: readonly AuthorityModule[]
  readonly enabled: ReadonlyMap<ProviderName, string>
}

const report = (parts: PresetParts, registry: Registry): AssemblyReport => ({
  preset: parts.preset,
  coppice: coppiceVersion,
  node: process.versions.node,
  parts: registry.parts(),
  modules: parts.modules.map((module) => module.name),
  pools: [],
  sessionModes: ["managed_runtime"]
})

const known = new Set(["preset", "store", "project", "modules", "enabled", "workspaces"])

/** The authority and the assembly of a preset. */
export const authorityLayer = (parts: PresetParts): Layer.Layer<Authority | Assembly, AssemblyError> => {
  const registry = makeRegistry(parts.enabled)
  const assembly = Layer.succeed(Assembly, { read: () => report(parts, registry), registry })
  const authority = Layer.effect(
    Authority,
    Effect.gen(function* () {
      const unknown = Object.keys(parts).find((option) => !known.has(option))
      if (unknown !== undefined) {
        return yield* new PresetOptionsError({
          option: unknown,
          message: `The preset ${parts.preset} has no option called ${unknown}.`,
          remedy: "Remove it, or correct its name."
        })
      }
      const directory = yield* storeDirectory(parts)
      const provider = yield* registry.load("authority-sqlite", "opened by the preset")
      const store = yield* provider.sqliteAuthority({ directory, modules: parts.modules })
      registry.markReady("authority-sqlite", true)
      return Authority.make(store)
    })
  )
  return Layer.merge(authority, assembly)
}
