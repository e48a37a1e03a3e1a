/**
 * What the provider takes from its projections: everything about open workspaces.
 * Promise: `projection/index.ts` exports `makeProjections(port, now)` that gives exactly this; the provider adds no rule of
 * its own to these calls. Rules: W2, W4, W12, W17, W23.
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Manifest, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import type { StorePort } from "./projection/StorePort.ts"

/** The part of the manifest that the machine and the projection decide. */
export type ProjectionManifest = Pick<
  Manifest,
  "visiblePath" | "unprivileged" | "mountAtChosenPath" | "hardLinks" | "stableInodes" | "renameDirectory"
>

export interface Projections
  extends Pick<WorkspaceProvider, "probe" | "open" | "execOn" | "left" | "recover" | "discardLeft"> {
  readonly manifest: ProjectionManifest
}

/**
 * `now` dates commits (milliseconds since 1970). What the projections start lives in the given scope, and no longer than an
 * open workspace; the store itself outlives the scope of the projections.
 */
export type MakeProjections = (port: StorePort, now: () => number) => Effect.Effect<Projections, never, Scope.Scope>
