/**
 * The reference store of LayerFS: rows of objects and the quota's charge in the transaction of each commit.
 * Promise: as SqliteRefs; commits of several branches stand together or not at all. Rules: L1, L7, L8, L12, L13, W15.
 */
import type { Digest } from "../../src/base/Digest.ts"
import { idFromBytes, idToBytes } from "../../src/base/DigestBytes.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import type { AddCommit, RefStore } from "../../src/workspace/kit/RefStore.ts"
import { SqliteRefs } from "../../src/workspace/kit/SqliteRefs.ts"
import { StoreQuotaExceeded } from "../../src/workspace/WorkspaceError.ts"
import type { PackedObject } from "./ObjectStore.ts"
import { insertObjects } from "./PackedObjects.ts"
import { allowance, charge, type StoreQuota } from "./StoreQuota.ts"

/** A commit with the objects that it brings. */
export interface AddStored extends AddCommit {
  readonly objects: readonly PackedObject[]
  readonly packLengths: ReadonlyMap<number, number>
}

/** Rolls a group of commits back. */
const notAll = new Error("not all commits of a group can be")

export class LayerRefs extends SqliteRefs<AddStored> implements RefStore<AddStored> {
  readonly #quota: StoreQuota

  constructor(db: Database, quota: StoreQuota) {
    super(db)
    this.#quota = quota
  }

  protected override keepWith({ commit, objects, packLengths }: AddStored): void {
    charge(this.db, this.#quota, commit.project, packLengths)
    insertObjects(this.db, objects, packLengths)
  }

  async addCommits(inputs: readonly AddStored[]): Promise<boolean> {
    try {
      await this.db.transactWithRetry(() => {
        for (const input of inputs) if (this.add(input).kind !== "added") throw notAll
        this.committing()
      })
      return true
    } catch (error) {
      if (error === notAll || error instanceof StoreQuotaExceeded) return false
      throw error
    }
  }

  override isEdge(commit: string): boolean {
    return this.db.get("SELECT 1 FROM edges WHERE commit_id = ?", commit) !== undefined
  }

  /** A commit at which the history of `head` begins here although it has parents: the child of `before` if there is one. */
  override edgeAbove(head: string, before: string): string | undefined {
    const row = this.db.get(
      `WITH RECURSIVE above (id) AS (
         SELECT ? UNION SELECT p.id FROM above JOIN commits c ON c.id = above.id JOIN commits p ON p.id IN (c.parent, c.second_parent)
       )
       SELECT e.commit_id AS id FROM edges e JOIN above ON above.id = e.commit_id JOIN commits c ON c.id = e.commit_id
       ORDER BY ? IN (c.parent, c.second_parent) DESC, c.dated DESC LIMIT 1`,
      head,
      before
    )
    return row === undefined ? undefined : String(row["id"])
  }

  /** See `allowance` of the quota. A project that is about to be made has added nothing yet. */
  allowance(project: string): ((appended: number) => void) | undefined {
    return allowance(this.db, this.#quota, project)
  }

  /** The states of all commits, whatever else their rows say. */
  states(): { readonly id: string; readonly root: Digest; readonly times: Digest }[] {
    return this.db.all("SELECT id, root, times FROM commits ORDER BY id").map((row) => ({
      id: String(row["id"]),
      root: idFromBytes(row["root"] as Uint8Array),
      times: idFromBytes(row["times"] as Uint8Array)
    }))
  }

  digest(root: Digest, profile: string): Digest | undefined {
    const row = this.db.get("SELECT digest FROM digests WHERE root = ? AND profile = ?", idToBytes(root), profile)
    return row === undefined ? undefined : (String(row["digest"]) as Digest)
  }

  putDigest(root: Digest, profile: string, digest: Digest): Promise<void> {
    return this.db.transactWithRetry(() => {
      this.db.run(
        "INSERT OR IGNORE INTO digests (root, profile, digest) VALUES (?, ?, ?)",
        idToBytes(root),
        profile,
        digest
      )
    })
  }
}
