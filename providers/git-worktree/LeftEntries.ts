/**
 * Entries of worktrees that stayed in a repository that was moved while a workspace of it was open: a list for whoever looks for them.
 * Promise: a removal that did not find the repository is noted and told with what to do; the entry goes by itself at the next opening
 * when the repository is at its place again. Rules: GW2, GW3.
 */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type * as Effect from "effect/Effect"
import { settle } from "../../src/workspace/kit/Settle.ts"
import type { FileSystemFailure } from "../../src/workspace/WorkspaceError.ts"
import { entriesOf, readText } from "./ReadText.ts"
import type { WorktreeRecord } from "./Worktree.ts"

export interface LeftEntry {
  readonly workspace: string
  /** Where the git directory of the repository was when the workspace was opened. */
  readonly repository: string
  /** The path of the worktree, which is gone. */
  readonly path: string
  readonly remedy: string
}

const placeIn = (directory: string): string => join(directory, "left")

/** To be called before a worktree's record goes. `directory` is that of the provider in the store. */
export const noteIfLeft = (directory: string, record: WorktreeRecord): void => {
  if (existsSync(record.commonDir)) return
  mkdirSync(placeIn(directory), { recursive: true, mode: 0o700 })
  writeFileSync(join(placeIn(directory), `${record.workspace}.json`), JSON.stringify(record), { mode: 0o600 })
}

export const notesIn = (directory: string): readonly WorktreeRecord[] =>
  entriesOf(placeIn(directory)).flatMap(({ name }) => {
    const text = readText(join(placeIn(directory), name))
    try {
      return text === undefined ? [] : [JSON.parse(text) as WorktreeRecord]
    } catch {
      // Cut by a power failure.
      return []
    }
  })

export const forgetNote = (directory: string, { workspace }: WorktreeRecord): void =>
  rmSync(join(placeIn(directory), `${workspace}.json`), { force: true })

const remedyFor = (path: string): string =>
  `Where the repository is now: git worktree unlock '${path}' && git worktree prune. When it was deleted, nothing is to be done.`

/**
 * What removals could not take away, sorted by workspace. `store` is the directory that the provider was opened with. Errors:
 * `FileSystemFailure` (the store cannot be read: see its remedy).
 */
export const entriesLeft = (options: {
  readonly store: string
}): Effect.Effect<readonly LeftEntry[], FileSystemFailure> =>
  settle(async () =>
    notesIn(join(options.store, "git-worktree"))
      .filter(({ commonDir }) => !existsSync(commonDir))
      .map(({ workspace, commonDir, target }) => ({
        workspace,
        repository: commonDir,
        path: target,
        remedy: remedyFor(target)
      }))
      .toSorted((a, b) => (a.workspace < b.workspace ? -1 : 1))
  )
