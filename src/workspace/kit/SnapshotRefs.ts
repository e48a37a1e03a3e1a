/**
 * The reference store of a provider that keeps whole states.
 * Promise: as SqliteRefs; what is being kept stands in a row of its own before it is begun and until its commit stands, so that what a
 * killed process left is known by name. Rules: L8, W10, G75.
 */
import { isAliveIn } from "../../base/LifeSign.ts"
import { currentIdentity, type ProcessIdentity } from "../../base/ProcessIdentity.ts"
import type { AddCommit } from "./RefStore.ts"
import { SqliteRefs } from "./SqliteRefs.ts"

export interface Keeping {
  readonly project: string
  readonly commit: string
}

export class SnapshotRefs extends SqliteRefs {
  protected override keepWith({ commit }: AddCommit): void {
    this.db.run("DELETE FROM keeping WHERE commit_id = ?", commit.id)
  }

  begin({ project, commit }: Keeping): Promise<void> {
    const maker = JSON.stringify(currentIdentity())
    return this.db.transactWithRetry(() => {
      this.db.run("INSERT INTO keeping (commit_id, project, maker) VALUES (?, ?, ?)", commit, project, maker)
    })
  }

  /** After it was dropped. */
  end(commit: string): Promise<void> {
    return this.db.transactWithRetry(() => {
      this.db.run("DELETE FROM keeping WHERE commit_id = ?", commit)
    })
  }

  /** What processes that are gone had begun to keep; `root` is where they showed that they lived. */
  abandoned(root: string): Keeping[] {
    return this.db
      .all("SELECT commit_id, project, maker FROM keeping")
      .filter((row) => isAliveIn(root, JSON.parse(String(row["maker"])) as ProcessIdentity) === false)
      .map((row) => ({ project: String(row["project"]), commit: String(row["commit_id"]) }))
  }

  /** Every commit with its project. */
  commits(): Keeping[] {
    return this.db
      .all("SELECT id, project FROM commits ORDER BY id")
      .map((row) => ({ project: String(row["project"]), commit: String(row["id"]) }))
  }

  counts(): { readonly commits: number; readonly layers: number; readonly branches: number } {
    const row = this.db.get(
      `SELECT (SELECT count(*) FROM commits) AS commits, (SELECT count(*) FROM layers) AS layers,
         (SELECT count(*) FROM branches) AS branches`
    )
    return {
      commits: Number(row?.["commits"]),
      layers: Number(row?.["layers"]),
      branches: Number(row?.["branches"])
    }
  }

  projects(): { readonly id: string; readonly name: string }[] {
    return this.db
      .all("SELECT id, name FROM projects ORDER BY id")
      .map((row) => ({ id: String(row["id"]), name: String(row["name"]) }))
  }
}
