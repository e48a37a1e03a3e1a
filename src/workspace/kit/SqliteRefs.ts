/**
 * The reference store over SQLite: tables as `refTables` has them.
 * Promise: as the contract in RefStore.ts; every write is one immediate transaction, retried while another process holds
 * the file and ended as `Busy` with nothing done. Rules: L1, L7, L8, L12, W10, W23, G75.
 */
import { type Database, type Row, StorageFailure, whenFree } from "../../sqlite/Database.ts"
import { crashPoint } from "../../base/CrashPoint.ts"
import { faultPoint } from "../../base/FaultPoint.ts"
import type { HeadMove } from "../WorkspaceProvider.ts"
import { idFromBytes, idToBytes } from "../../base/DigestBytes.ts"
import { refNotFound } from "./Refusals.ts"
import { insertRow } from "./RowSums.ts"
import type {
  AddCommit,
  Added,
  BranchRow,
  CommitRow,
  Decider,
  Moved,
  NewCommit,
  NewMove,
  Parents,
  ProjectRow,
  WorkspaceRow
} from "./RefStore.ts"

/** What was written as JSON; verify names a row in which it is that no more. */
const parsed = (text: unknown): never => {
  try {
    return JSON.parse(String(text)) as never
  } catch {
    throw new StorageFailure({
      message: "A row of the store's index is damaged: it is not as it was written.",
      remedy: "Run verify, which names it, and restore the store from a backup.",
      errcode: corrupt
    })
  }
}

const commitOf = (row: Row): CommitRow => ({
  id: String(row["id"]),
  project: String(row["project"]),
  parent: row["parent"] === null ? null : String(row["parent"]),
  secondParent: row["second_parent"] === null ? null : String(row["second_parent"]),
  root: idFromBytes(row["root"] as Uint8Array),
  times: idFromBytes(row["times"] as Uint8Array),
  message: String(row["message"]),
  at: Number(row["at"]),
  operationId: String(row["operation"]),
  actor: parsed(row["actor"]),
  live: row["live"] === 1,
  dated: Number(row["dated"])
})

const branchOf = (row: Row): BranchRow => ({
  id: String(row["id"]),
  project: String(row["project"]),
  name: String(row["name"]),
  base: String(row["base"]),
  head: String(row["head"])
})

const numberOrNull = (value: unknown): number | null => (value === null ? null : Number(value))

const moveOf = (row: Row): HeadMove => ({
  number: Number(row["number"]),
  kind: row["kind"] === "undo" ? "undo" : "reset",
  from: String(row["from_commit"]),
  to: String(row["to_commit"]),
  at: Number(row["at"]),
  reason: String(row["reason"]),
  actor: parsed(row["actor"]),
  operationId: String(row["operation"]),
  undoes: numberOrNull(row["undoes"]),
  undoneBy: numberOrNull(row["undone_by"])
})

/** SQLITE_CORRUPT. */
const corrupt = 11

export class SqliteRefs<Input extends AddCommit = AddCommit> {
  protected readonly db: Database
  #storeId: string | undefined

  constructor(db: Database) {
    this.db = db
  }

  /** What the provider keeps with a commit, inside of its transaction and before its row. */
  protected keepWith?(input: Input): void

  commit(id: string): CommitRow | undefined {
    const row = this.db.get("SELECT * FROM commits WHERE id = ?", id)
    return row === undefined ? undefined : commitOf(row)
  }

  /**
   * The parents of a commit, the first one first. The history of this store begins at a commit that a bundle brought without its past: it
   * has those that are here. Throws `RefNotFound` where a parent is missing and nobody said so.
   */
  parentsOf(commit: CommitRow): Parents {
    const parents: CommitRow[] = []
    let missing: string | undefined
    for (const id of [commit.parent, commit.secondParent]) {
      const parent = id === null ? undefined : this.commit(id)
      if (parent !== undefined) parents.push(parent)
      else missing ??= id ?? undefined
    }
    if (missing !== undefined && !this.isEdge(commit.id)) throw refNotFound(missing)
    return { parents, beginsHere: missing !== undefined }
  }

  /** True when the history of this store begins at the commit although it has parents. */
  isEdge(_commit: string): boolean {
    return false
  }

  /** A commit at which the history of `head` begins here although it has parents: the child of `before` if there is one. */
  edgeAbove(_head: string, _before: string): string | undefined {
    return undefined
  }

  branch(id: string): BranchRow | undefined {
    const row = this.db.get("SELECT * FROM branches WHERE id = ?", id)
    return row === undefined ? undefined : branchOf(row)
  }

  project(id: string): ProjectRow | undefined {
    const row = this.db.get("SELECT * FROM projects WHERE id = ?", id)
    if (row === undefined) return undefined
    const source = row["source"] === null ? null : Buffer.from(row["source"] as Uint8Array).toString("latin1")
    return { id: String(row["id"]), name: String(row["name"]), source }
  }

  storeId(): string {
    return (this.#storeId ??= String(this.db.get("SELECT id FROM store")?.["id"]))
  }

  resolve(ref: string): CommitRow | undefined {
    if (ref.startsWith("brn_")) {
      const branch = this.branch(ref)
      return branch === undefined ? undefined : this.commit(branch.head)
    }
    if (ref.startsWith("lyr_")) {
      const row = this.db.get("SELECT commit_id FROM layers WHERE id = ?", ref)
      return row === undefined ? undefined : this.commit(String(row["commit_id"]))
    }
    return this.commit(ref)
  }

  operation(operationId: string): { commit: string; result: unknown } | undefined {
    const row = this.db.get("SELECT commit_id, result FROM operations WHERE id = ?", operationId)
    return row === undefined ? undefined : { commit: String(row["commit_id"]), result: parsed(row["result"]) }
  }

  /**
   * One transaction: object rows, the commit, its operation, and the head moved from the value that the caller saw. `beforeTry` comes before
   * each try of it, while another process holds the file; what it throws ends the call with nothing done.
   */
  addCommit(input: Input, beforeTry?: () => void): Promise<Added> {
    return whenFree((): Added => {
      beforeTry?.()
      return this.db.transact((): Added => {
        const added = this.add(input)
        if (added.kind === "added") this.committing()
        return added
      })
    })
  }

  /** The last thing before a transaction with a commit ends. */
  protected committing(): void {
    crashPoint("refs.commit.inTransaction")
    faultPoint("refs.index.commit")
  }

  /** Inside a transaction. */
  protected add(input: Input): Added {
    const { commit } = input
    // A call under the same operation id may have run beside this one, here or in another process.
    const before = this.operation(commit.operationId)
    if (before !== undefined) return { kind: "repeated", result: before.result }
    if (input.branch !== undefined) {
      const actual = this.branch(input.branch.id)?.head ?? ""
      if (actual !== input.branch.expectedHead) return { kind: "headMoved", actualHead: actual }
    }
    if (input.layer !== undefined) this.#insertProject(input.layer.project)
    this.keepWith?.(input)
    this.#insertCommit(commit)
    if (input.layer !== undefined) {
      const { id, project } = input.layer
      insertRow(this.db, "layers", { id, project: project.id, commit_id: commit.id })
    }
    if (input.branch !== undefined) this.db.run("UPDATE branches SET head = ? WHERE id = ?", commit.id, input.branch.id)
    if (input.newBranch !== undefined) this.#insertBranch(input.newBranch)
    this.#insertOperation(commit.operationId, commit.id, input.result)
    return { kind: "added" }
  }

  #insertProject(project: ProjectRow): void {
    const source = project.source === null ? null : Buffer.from(project.source, "latin1")
    insertRow(this.db, "projects", { id: project.id, name: project.name, source, stored: 0 })
  }

  #insertCommit(commit: NewCommit): void {
    const { secondParent = null } = commit
    const after = Math.max(...[commit.parent, secondParent].map((id) => (id === null ? 0 : this.commit(id)!.dated + 1)))
    insertRow(this.db, "commits", {
      id: commit.id,
      project: commit.project,
      parent: commit.parent,
      root: idToBytes(commit.root),
      times: idToBytes(commit.times),
      message: commit.message,
      at: commit.at,
      operation: commit.operationId,
      actor: JSON.stringify(commit.actor),
      live: commit.live ? 1 : 0,
      second_parent: secondParent,
      dated: Math.max(commit.at, after)
    })
  }

  #insertBranch(row: BranchRow): void {
    const { id, project, name, base, head } = row
    insertRow(this.db, "branches", { id, project, name, base, head })
  }

  #insertOperation(id: string, commit: string, result: unknown): void {
    insertRow(this.db, "operations", { id, commit_id: commit, result: JSON.stringify(result) })
  }

  /** One transaction, so one fsync, whatever the size of the tree (L1). */
  async fork(row: BranchRow, operationId: string | undefined): Promise<{ readonly result: unknown } | undefined> {
    const repeated = await this.db.transactWithRetry(() => {
      // As in `add`.
      const before = operationId === undefined ? undefined : this.operation(operationId)
      if (before !== undefined) return before
      this.#insertBranch(row)
      if (operationId !== undefined) this.#insertOperation(operationId, row.head, { branch: row.id })
      crashPoint("refs.fork.inTransaction")
    })
    crashPoint("refs.fork.committed")
    return repeated
  }

  moveHead(move: NewMove, result: (number: number) => unknown): Promise<Moved> {
    const { branch, kind, from, to, at, reason, actor, operationId, undoes } = move
    const moved = this.db.transactWithRetry((): Moved => {
      const before = this.operation(operationId)
      if (before !== undefined) return { kind: "repeated", result: before.result }
      const actualHead = this.branch(branch)?.head ?? ""
      if (actualHead !== from) return { kind: "headMoved", actualHead }
      const last = this.db.get("SELECT max(number) AS number FROM moves WHERE branch = ?", branch)
      const number = Number(last?.["number"] ?? 0) + 1
      this.db.run("UPDATE branches SET head = ? WHERE id = ?", to, branch)
      insertRow(this.db, "moves", {
        branch,
        number,
        kind,
        from_commit: from,
        to_commit: to,
        at,
        operation: operationId,
        actor: JSON.stringify(actor),
        reason,
        undoes
      })
      this.#insertOperation(operationId, to, result(number))
      crashPoint("refs.move.inTransaction")
      faultPoint("refs.index.commit")
      return { kind: "moved", number }
    })
    return moved.then((done) => {
      crashPoint("refs.move.committed")
      return done
    })
  }

  moves(branch: string, before: number, limit: number): HeadMove[] {
    return this.db
      .all(
        `SELECT m.*, (SELECT max(u.number) FROM moves u WHERE u.branch = m.branch AND u.undoes = m.number) AS undone_by
         FROM moves m WHERE m.branch = ? AND m.number < ? ORDER BY m.number DESC LIMIT ?`,
        branch,
        before,
        limit
      )
      .map(moveOf)
  }

  /** Branches of a project in the order of their ids, so in that of their making; those after `after`. */
  branches(project: string, after: string, limit: number): BranchRow[] {
    return this.db
      .all("SELECT * FROM branches WHERE project = ? AND id > ? ORDER BY id LIMIT ?", project, after, limit)
      .map(branchOf)
  }

  async pin(key: string, commit: string): Promise<void> {
    await this.db.transactWithRetry(() => {
      this.db.run(
        "INSERT INTO pins (key, commit_id) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET commit_id = excluded.commit_id",
        key,
        commit
      )
    })
    crashPoint("refs.pin.committed")
  }

  unpin(key: string): Promise<void> {
    return this.db.transactWithRetry(() => {
      this.db.run("DELETE FROM pins WHERE key = ?", key)
    })
  }

  putWorkspace(row: WorkspaceRow): Promise<void> {
    return this.db.transactWithRetry(() => {
      this.db.run("INSERT INTO workspaces (id, state, row) VALUES (?, ?, ?)", row.id, row.state, JSON.stringify(row))
    })
  }

  updateWorkspace(id: string, change: Partial<Omit<WorkspaceRow, "id">>): Promise<boolean> {
    return this.db.transactWithRetry(() => {
      const found = this.db.get("SELECT row FROM workspaces WHERE id = ?", id)
      if (found === undefined) return false
      const row = { ...(parsed(found["row"]) as WorkspaceRow), ...change }
      this.db.run("UPDATE workspaces SET state = ?, row = ? WHERE id = ?", row.state, JSON.stringify(row), id)
      return true
    })
  }

  claimWorkspace(id: string, before: string | null, decider: Decider): Promise<boolean> {
    return this.db.transactWithRetry(() => {
      const found = this.db.get("SELECT row FROM workspaces WHERE id = ? AND state NOT IN ('closed', 'discarded')", id)
      const row = found === undefined ? undefined : (parsed(found["row"]) as WorkspaceRow)
      if (row === undefined || (row.decider?.claim ?? null) !== before) return false
      this.db.run("UPDATE workspaces SET row = ? WHERE id = ?", JSON.stringify({ ...row, decider }), id)
      return true
    })
  }

  workspaces(states: readonly WorkspaceRow["state"][]): WorkspaceRow[] {
    return this.db
      .all("SELECT row FROM workspaces ORDER BY id")
      .map((found) => parsed(found["row"]) as WorkspaceRow)
      .filter((row) => states.includes(row.state))
  }
}
