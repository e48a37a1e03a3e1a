/**
 * The assembly: what a preset resolved to, readable at any time.
 * Promise: it says what is enabled, what is loaded and why, which helper processes and pools exist (none unless asked for),
 * and the versions of everything; reading it loads nothing. Rules: P3, P4, P9.
 */
import * as Context from "effect/Context"
import type { Part, Registry } from "./Registry.ts"

export interface AssemblyReport {
  readonly preset: "minimal" | "standard"
  readonly coppice: string
  readonly node: string
  readonly parts: readonly Part[]
  /** Authority modules whose tables are active. */
  readonly modules: readonly string[]
  /** Helper processes and pools that live beyond an open scope. */
  readonly pools: readonly string[]
  /** Which hosts may hold an executing binding, and in which session mode. */
  readonly sessionModes: readonly string[]
}

/** The read-back as a service. */
export class Assembly extends Context.Service<
  Assembly,
  { readonly read: () => AssemblyReport; readonly registry: Registry }
>()("coppice/Assembly") {}
