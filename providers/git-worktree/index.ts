/**
 * `coppice/providers/git-worktree`: workspaces as worktrees of a user's git repository, states as commits of a repository of the store's.
 * Promise: importing it starts nothing; the layer opens the store and closes it with its scope. Rules: P4, P9; 04 "git-worktree provider".
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import {
  makeSnapshotProvider,
  type SnapshotOpenFailure,
  type SnapshotProviderOptions
} from "../../src/workspace/kit/SnapshotProvider.ts"
import { type WorkspaceProvider, Workspaces } from "../../src/workspace/WorkspaceProvider.ts"
import { gitWorktreeBackend } from "./Backend.ts"

export { gitWorktreeVersion } from "./Backend.ts"
export { type KeptInside, keptInside } from "./KeptInside.ts"
export { entriesLeft, type LeftEntry } from "./LeftEntries.ts"
export type { SnapshotOpenFailure as OpenFailure } from "../../src/workspace/kit/SnapshotProvider.ts"

export interface GitWorktreeOptions extends SnapshotProviderOptions {
  /** Takes a source that is no git repository too, over an empty repository of the store's own; refused unless this is set. */
  readonly plainDirectories?: boolean
}

/** The provider itself, open until the scope ends. Failures as `gitWorktree`. */
export const openGitWorktree = ({
  plainDirectories = false,
  ...options
}: GitWorktreeOptions): Effect.Effect<WorkspaceProvider, SnapshotOpenFailure, Scope.Scope> =>
  makeSnapshotProvider("git-worktree", (place) => gitWorktreeBackend({ ...place, plainDirectories }), options)

/**
 * The provider as a layer.
 *
 * An import takes the top of a git repository that has a commit, with everything that lies there: tracked, untracked and ignored files,
 * and where git stands (HEAD, references, index, configuration, hooks). Anything else is `ImportRefused`: no repository or no commit yet
 * (`git init`, `git commit`), a bare or partial clone, `core.worktree`, a submodule that is set up (`git submodule deinit`); other
 * worktrees inside of it are left out and listed. Every workspace is a worktree of that repository, detached at the commit of the import: the
 * repository gains an entry for it (`git worktree list` shows it, locked) until the workspace ends, and nothing else: no object, branch,
 * stash or setting of what is done inside. Where the repository was moved meanwhile, the entry stays in it, and `entriesLeft` says so. What is committed inside stays with the states, and when the workspace goes, it is kept
 * under `refs/coppice/inside/WORKSPACE/` in `STORE/git-worktree/projects/PROJECT/inside.git` (`keptInside` lists it); a repository of another object format that
 * was made inside goes to `other/` beside it, as it is.
 *
 * `store` is the store's directory (`git-worktree/` is made below it); it must be on a local disk and belong to this user.
 * `durability`: `full` (default) survives power loss, `normal` a killed process, `disposable` neither. `storeQuota` caps the bytes of
 * what is kept, as bytes or as text such as `"2 GiB"`. A fork is one row; opening a workspace writes all of its files, and a
 * checkpoint reads the changed ones. Git 2.38 or newer has to be on PATH: `probe` tells. Fails with `StoreOptionInvalid` (give a size),
 * `StoreLocation` (choose another directory), `Busy` (another process holds it: repeat), `StorageFailure` (see its remedy),
 * `StoreMoved` (use the Coppice that wrote it).
 *
 * ```ts
 * const live = gitWorktree({ store: "/var/lib/my-app/coppice" })
 * const program = Effect.gen(function* () {
 *   const workspaces = yield* Workspaces
 *   const { layer } = yield* workspaces.importDirectory({ source: "/src/project" })
 *   return yield* workspaces.fork(layer, { name: "attempt-1" })
 * })
 * await Effect.runPromise(Effect.provide(program, live))
 * ```
 */
export const gitWorktree = (options: GitWorktreeOptions): Layer.Layer<Workspaces, SnapshotOpenFailure> =>
  Layer.effect(Workspaces, openGitWorktree(options))
