/**
 * What the workspace suite needs of a provider: a place to make stores in, a way to open one, and what else it can do.
 * Promise: nothing in here knows LayerFS, git or a file system; a provider that cannot do an optional thing leaves it out, and
 * the scenarios that need it say so. Rules: W1, W2; K1 to K4.
 */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { Manifest, OpenOptions, WorkspaceProvider } from "../workspace/WorkspaceProvider.ts"

/** Opens the provider on its store until the scope ends; opening again later is what a restart is. */
export type OpenProvider = Effect.Effect<WorkspaceProvider, unknown, Scope.Scope>

/** One place on disk with one store, empty at first. */
export interface PlaceUnderTest {
  /**
   * An existing, empty directory for sources, models and checkouts, beside the store and never inside of it, on a file system that the
   * provider can import from; not below `/tmp`, which is private inside a workspace.
   */
  readonly directory: string
  readonly open: OpenProvider
  /** As `open`, with a cap of so many bytes on what the store may hold (W15). */
  readonly openCapped?: (bytes: number) => OpenProvider
  /**
   * Command and arguments of a program that opens this store and calls `serveWorkspaces`: a second, real process, which the suite
   * kills with SIGKILL.
   */
  readonly worker?: readonly [string, ...string[]]
  /** Alters stored bytes of file contents behind the provider's back, while it is closed, so that `verify` has to name them (L10). */
  readonly damage?: () => Promise<void>
  /** Only of a place that `createSmall` made: fills its disk until about so many bytes are free. */
  readonly leaveFree?: (bytes: number) => void
  /** Removes it with all that is in it; nothing is open any more. */
  readonly remove: () => Promise<void>
}

export interface WorkspaceUnderTest {
  /** Makes a new place. */
  readonly create: () => Promise<PlaceUnderTest>
  /** The same on a disk of its own of about 100 MiB, whose free space can be set. */
  readonly createSmall?: () => Promise<PlaceUnderTest>
  /** Goes into every `open`: the projection that is under test, for instance. */
  readonly options?: OpenOptions
  /** Names at the root of a workspace that belong to the provider and to no state, such as `.git` of a worktree. */
  readonly apart?: readonly string[]
  /** What holds with these options beyond the provider's manifest; the suite then asks for it. */
  readonly holds?: Partial<Manifest>
  /** Of the random work: where it begins (a new beginning each time when absent; a failure tells it) and how many rounds it takes (6). */
  readonly fuzz?: { readonly seed?: number; readonly rounds?: number }
}
