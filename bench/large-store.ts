/**
 * A generated authority of a busy year: 100,000 todos and 1,000,000 journal rows when full.
 * Promise: facts pass the module's own projections and stand in a valid hash chain, so `verify` and every read take it for what an
 * application wrote; what can be claimed comes last, behind all that cannot. Rules: G4, G22; docs/decisions/056.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import { linkHash } from "../providers/authority-sqlite/Chain.ts"
import { baseMigrations } from "../providers/authority-sqlite/Schema.ts"
import { openAuthority } from "../providers/authority-sqlite/index.ts"
import { canonicalJson, type Json, sha256 } from "../src/base/Digest.ts"
import { newId } from "../src/base/Id.ts"
import { Agents, Evidence, Goals, Leases, Todos, workModule } from "../src/governance/index.ts"
import type { EvidenceRecord } from "../src/governance/Evidence.ts"
import type { LeaseRecord } from "../src/governance/Lease.ts"
import type { TodoRecord } from "../src/governance/TodoRecord.ts"
import { runIn } from "./governance-scene.ts"

export interface LargeStore {
  readonly goal: string
  readonly todos: number
  readonly unfinished: number
  readonly journalRows: number
  /** Todos that the agent `ada` can be given. */
  readonly ready: number
  /** The time to open it at: its leases are alive then. */
  readonly now: number
}

const day = 86_400_000
const perTransaction = 20_000

/** Shares of the todos: what is withheld stands before what is ready. */
const share = { done: 0.4, leased: 0.15, deferred: 0.15, blocked: 0.15, capability: 0.1, ready: 0.05 } as const

/** Appends facts with their links, projections and receipts, many to a transaction. */
const appender = (db: DatabaseSync) => {
  const prepared = new Map<string, StatementSync>()
  const run = (sql: string, ...params: readonly (string | number | bigint | null | Uint8Array)[]): void => {
    let statement = prepared.get(sql)
    if (statement === undefined) prepared.set(sql, (statement = db.prepare(sql)))
    statement.run(...params)
  }
  const last = db.prepare("SELECT seq, hash, at FROM journal ORDER BY seq DESC LIMIT 1").get() as {
    seq: number
    hash: string
    at: number
  }
  let { seq, hash, at } = last
  db.exec("BEGIN IMMEDIATE")
  return {
    /** The time of the next fact. */
    next: () => at + 1,
    rows: () => seq,
    append: (type: string, entity: string, record: object): void => {
      seq += 1
      at += 1
      const command = newId("command")
      const data = canonicalJson(record as Json)
      const prevHash = hash
      hash = linkHash({ seq, at, module: "work", type, entity, command, data, prevHash })
      run(
        "INSERT INTO journal (seq, at, module, type, entity, command, data, prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        seq,
        at,
        "work",
        type,
        entity,
        command,
        data,
        prevHash,
        hash
      )
      for (const { sql, params } of workModule.project({ type, entity, data: record as Json }, { seq, at })) {
        run(sql, ...(params as (string | number | null)[]))
      }
      const reply = JSON.stringify({ entity, at, state: type })
      run(
        "INSERT INTO command (id, digest, reply, seq, at) VALUES (?, ?, ?, ?, ?)",
        command,
        sha256(reply),
        reply,
        seq,
        at
      )
      if (seq % perTransaction === 0) db.exec("COMMIT; BEGIN IMMEDIATE")
    },
    end: (): void => db.exec("COMMIT")
  }
}

/** Records as the services write them; the generated ones differ in what is theirs. */
interface Like {
  readonly todo: TodoRecord
  readonly lease: LeaseRecord
  readonly evidence: EvidenceRecord
}

const fill = (db: DatabaseSync, like: Like, todos: number, journalRows: number) => {
  const { next, rows, append, end } = appender(db)
  const count = (part: keyof typeof share): number => Math.round(todos * share[part])
  const add = (priority: number, more: Partial<TodoRecord>): TodoRecord => {
    const at = next()
    const todo: TodoRecord = { ...like.todo, id: newId("todo"), priority, addedAt: at, changedAt: at, ...more }
    append("todo.added", todo.id, todo)
    return todo
  }
  const acquire = (todo: TodoRecord): LeaseRecord => {
    const at = next()
    const lease: LeaseRecord = {
      ...like.lease,
      todo: todo.id,
      id: newId("lease"),
      tokenDigest: sha256(todo.id),
      writeScopes: todo.writeScopes,
      acquiredAt: at,
      expiresAt: at + day
    }
    append("lease.acquired", todo.id, lease)
    return lease
  }
  const ready: TodoRecord[] = []
  for (let n = 0; n < count("ready"); n++) {
    ready.push(add(0, { capabilities: [["build"], ["build", "test"], ["test"]][n % 3]! }))
  }
  for (let n = 0; n < count("blocked"); n++) add(5, { dependsOn: [ready[n % ready.length]!.id] })
  for (let n = 0; n < count("capability"); n++) add(5, { capabilities: ["gpu"] })
  for (let n = 0; n < count("deferred"); n++) {
    const todo = add(7, {})
    const later = { state: "deferred", deferredUntil: next() + day, deferReason: "the service is down" } as const
    append("todo.deferred", todo.id, { ...todo, ...later, revision: 2, changedAt: next() })
  }
  for (let n = 0; n < count("done"); n++) {
    const todo = add(9, {})
    const lease = acquire(todo)
    append("todo.completed", todo.id, {
      ...todo,
      state: "done",
      continuation: { kind: "goalStaysActive" },
      revision: 2,
      changedAt: next()
    })
    append("lease.released", todo.id, { ...lease, version: 2, releasedAt: next() })
  }
  // A lease in three hundred claims files; the others of its time are of work that writes nothing or elsewhere.
  let leases = Array.from({ length: count("leased") }, (_, n) =>
    acquire(add(9, n % 300 === 0 ? { writeScopes: [`src/part-${n}`] } : {}))
  )
  const evidence = Math.round(journalRows / 10)
  for (let n = 0; n < evidence; n++) {
    const todo = ready[n % ready.length]!.id
    const record: EvidenceRecord = {
      ...like.evidence,
      id: newId("evidence"),
      todo,
      digest: sha256(String(n)),
      recordedAt: next()
    }
    append("evidence.recorded", record.id, record)
  }
  // Long work renews its lease: most of a busy journal.
  while (rows() < journalRows) {
    leases = leases.slice(0, journalRows - rows()).map((lease) => {
      const renewed: LeaseRecord = { ...lease, version: lease.version + 1, expiresAt: next() + day }
      append("lease.renewed", lease.todo, renewed)
      return renewed
    })
  }
  end()
  return { journalRows: rows(), ready: ready.length, now: next() }
}

/** Makes the store in a new directory. */
export const makeLargeStore = async (directory: string, todos: number, journalRows: number): Promise<LargeStore> => {
  const started = 1_800_000_000_000
  const store = await openAuthority({ directory, durability: "disposable", now: () => started })
  const run = runIn(store)
  const goal = (await run(Goals.open({ title: "A busy year", budget: { slots: 1_000_000 } }))).id
  await run(Agents.register({ goal, agentId: "ada", capabilities: ["build", "test"] }))
  for (const agentId of ["bob", "idle"]) await run(Agents.register({ goal, agentId }))
  const title = "Repair one of the many things that a long project leaves behind"
  const todo = (await run(Todos.add({ goal, title }))).id
  await run(Leases.acquire({ todo, agent: "bob", ttlMs: day }))
  await run(
    Evidence.record({
      goal,
      todo,
      kind: "log",
      digest: sha256("log"),
      summary: "what was seen while the work was done, in a sentence",
      producer: { role: "evaluator", name: "oracle" }
    })
  )
  await store.close()
  const db = new DatabaseSync(join(directory, "authority.db"))
  const like = Object.fromEntries(
    db
      .prepare("SELECT type, data FROM journal WHERE type IN ('todo.added', 'lease.acquired', 'evidence.recorded')")
      .all()
      .map((row) => [String(row["type"]).split(".")[0], JSON.parse(String(row["data"]))])
  ) as unknown as Like
  db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000")
  const filled = fill(db, like, todos - 1, journalRows)
  const count = (where: string): number =>
    Number(db.prepare(`SELECT COUNT(*) AS n FROM todo WHERE ${where}`).get()!["n"])
  const counted = { todos: count("TRUE"), unfinished: count("state IN ('open', 'deferred')") }
  db.close()
  return { goal, ...filled, ...counted }
}

/** The full store, made once for each shape of the tables and kept below `node_modules/.cache`. */
export const cachedLargeStore = async (
  root: string,
  progress: (text: string) => void
): Promise<{ readonly directory: string; readonly facts: LargeStore }> => {
  const shape = [...baseMigrations, ...workModule.migrations].map(({ sql }) => sql).join("\n")
  const name = sha256(shape + readFileSync(fileURLToPath(import.meta.url), "utf8")).slice("sha256:".length, 19)
  const cache = join(root, "node_modules", ".cache", "coppice-bench")
  const directory = join(cache, `authority-${name}`)
  const described = (of: string): string => join(of, "facts.json")
  if (!existsSync(described(directory))) {
    progress("a store with 100,000 todos and 1,000,000 journal rows; made once, takes a minute or two")
    const making = `${directory}.${process.pid}`
    mkdirSync(making, { recursive: true, mode: 0o700 })
    try {
      const facts = await makeLargeStore(making, 100_000, 1_000_000)
      writeFileSync(described(making), JSON.stringify(facts))
      renameSync(making, directory)
    } finally {
      rmSync(making, { recursive: true, force: true })
    }
  }
  return { directory, facts: JSON.parse(readFileSync(described(directory), "utf8")) as LargeStore }
}
