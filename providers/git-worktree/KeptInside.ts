/**
 * What attempts committed, stashed or left behind in their worktrees, after those are gone: a list for whoever looks for it.
 * Promise: only reads; names each by the workspace it was made in, and where `git fetch` finds it. Rules: GW4; C32.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import type * as Effect from "effect/Effect"
import { toBytes } from "../../src/base/PathBytes.ts"
import { settle } from "../../src/workspace/kit/Settle.ts"
import type { FileSystemFailure, Unavailable } from "../../src/workspace/WorkspaceError.ts"
import { git } from "./Git.ts"
import { projectsIn } from "./Project.ts"

export interface KeptInside {
  readonly project: string
  readonly workspace: string
  /** As it was called inside: `HEAD`, `refs/heads/topic`, `refs/stash`; `left/ID` for what nothing named any more. */
  readonly name: string
  /** The object's id; a commit, unless somebody named something else. */
  readonly id: string
  /** First line of its message; of bytes that are no UTF-8, what can be shown. */
  readonly subject: string
  /** For `git fetch REPOSITORY REFERENCE`. It borrows the history before the import from the repository that was imported. */
  readonly repository: string
  readonly reference: string
}

const below = "refs/coppice/inside/"
const format = "%(refname)%00%(objectname)%00%(contents:subject)"

/**
 * Every commit, branch and stash that was made inside workspaces of a store and went with none of them, sorted by reference. `store` is
 * the directory that the provider was opened with; one that never had a worktree gives an empty list. Errors: `Unavailable` (no git on PATH: install
 * it), `FileSystemFailure` (the store cannot be read: see its remedy).
 */
export const keptInside = (options: {
  readonly store: string
}): Effect.Effect<readonly KeptInside[], Unavailable | FileSystemFailure> =>
  settle(async () => {
    const projects = join(options.store, "git-worktree", "projects")
    if (!existsSync(projects)) return []
    const kept: KeptInside[] = []
    for (const { id: project, inside: repository } of projectsIn(projects)) {
      if (!existsSync(repository)) continue
      const told = await git(["for-each-ref", `--format=${format}`, below], { gitDir: repository })
      for (const line of told.toString("latin1").split("\n")) {
        const [reference, id, subject] = line.split("\0")
        if (reference === undefined || id === undefined || subject === undefined) continue
        const [workspace = "", ...name] = reference.slice(below.length).split("/")
        const text = toBytes(subject).toString("utf8")
        kept.push({ project, workspace, name: name.join("/"), id, subject: text, repository, reference })
      }
    }
    return kept
  })
