/**
 * `coppice/minimal`: governance on one SQLite file and governed turns in a plain directory.
 * Promise: no workspace store, no explore, no evaluator: none of their code is loaded and none of their tables exist.
 * Rules: P3, P4, P9, V2; 01 "Layers and presets".
 *
 * ```ts
 * program.pipe(Effect.provide(minimal({ store: "/var/lib/my-bot" })))
 * ```
 */
import * as Layer from "effect/Layer"
import type { Assembly } from "./assembly/Assembly.ts"
import { type AssemblyError, authorityLayer } from "./assembly/Preset.ts"
import type { Authority } from "./governance/Authority.ts"
import { workModule } from "./governance/WorkModule.ts"
import type { CommandHosts } from "./host/CommandHosts.ts"
import { sessionModule } from "./session/Binding.ts"

export { Assembly, type AssemblyReport } from "./assembly/Assembly.ts"
export { type AssemblyError, PresetOptionsError } from "./assembly/Preset.ts"

export interface MinimalOptions {
  /** Directory of the store; by default below the user's state directory, named after the project. */
  readonly store?: string
  /** The project that the store is for; the working directory when absent. */
  readonly project?: string
}

/** The minimal preset as one layer. Errors: `StoreLocation`, `AuthorityLocation`, `Busy`, `StoreMoved`, `StorageFailure`. */
export const minimal = (
  options: MinimalOptions = {}
): Layer.Layer<Authority | Assembly | CommandHosts, AssemblyError> =>
  authorityLayer({
    preset: "minimal",
    options,
    allowed: { store: "path", project: "path" },
    modules: [workModule, sessionModule],
    enabled: new Map([
      ["authority-sqlite", "the preset's authority"],
      ["host-process", "the preset's host"]
    ])
  })
