/**
 * The hard caps of a store: how many bytes of objects it may hold, and how many one project (one experiment) may add.
 * Promise: decided in the transaction that would make the bytes count, so that two writers cannot pass it together; a writer
 * stops as soon as it is sure to pass; a refusal leaves nothing of the call behind. Rules: W15, L11.
 */
import { type ByteSize, parseByteSize } from "../../src/base/ByteSize.ts"
import type { Database } from "../../src/sqlite/Database.ts"
import { StoreOptionInvalid, StoreQuotaExceeded } from "../../src/workspace/WorkspaceError.ts"

/** In bytes of packs, as `stats` counts them; null is no cap. */
export interface StoreQuota {
  readonly store: number | null
  readonly project: number | null
}

export interface QuotaOptions {
  /** What the packs of the whole store may hold at most. */
  readonly storeQuota?: ByteSize
  /** What one project and all its branches may add to the store at most; what it shares with others counts for who came first. */
  readonly projectQuota?: ByteSize
}

/** Throws `StoreOptionInvalid`. */
export const quotaOf = (options: QuotaOptions): StoreQuota => {
  const bytes = (option: keyof QuotaOptions): number | null => {
    if (options[option] === undefined) return null
    const size = parseByteSize(options[option])
    if (size !== undefined) return size
    throw new StoreOptionInvalid({
      message: `The option ${option} is not a size.`,
      remedy: 'Give whole bytes from 0 up, or text such as "64 MiB". Nothing was opened.',
      option
    })
  }
  return { store: bytes("storeQuota"), project: bytes("projectQuota") }
}

const exceeded = (scope: "store" | "project", name: string, limit: number, used: number, needed: number) =>
  new StoreQuotaExceeded({
    message: `The ${scope} holds ${used} of ${limit} bytes; this call needs ${needed} more.`,
    remedy:
      scope === "store"
        ? "Nothing was stored and an open workspace keeps its files. Open the store with a larger `storeQuota`, or use another store."
        : "Nothing was stored and an open workspace keeps its files. Open the store with a larger `projectQuota`, or import anew as another project.",
    scope,
    name,
    limitBytes: limit,
    usedBytes: used,
    neededBytes: needed
  })

const storeBytes = (db: Database): number =>
  Number(db.get("SELECT coalesce(sum(length), 0) AS n FROM packs")?.["n"] ?? 0)

/** Of a project that is older than the counter nothing is known but that it holds no more than the store. */
const projectBytes = (db: Database, project: string, store: number): number => {
  const row = db.get("SELECT stored FROM projects WHERE id = ?", project)
  return row === undefined ? 0 : row["stored"] === null ? store : Number(row["stored"])
}

interface Caps {
  readonly scope: "store" | "project"
  readonly name: string
  readonly limit: number
  readonly used: number
}

const capsOf = (db: Database, quota: StoreQuota, project: string): readonly Caps[] => {
  if (quota.store === null && quota.project === null) return []
  const store = storeBytes(db)
  return [
    ...(quota.store === null ? [] : [{ scope: "store" as const, name: "store", limit: quota.store, used: store }]),
    ...(quota.project === null
      ? []
      : [{ scope: "project" as const, name: project, limit: quota.project, used: projectBytes(db, project, store) }])
  ]
}

/** Refuses once a writer has appended more than is free now. The transaction asks again: others write meanwhile. */
export const allowance = (
  db: Database,
  quota: StoreQuota,
  project: string
): ((appended: number) => void) | undefined => {
  const caps = capsOf(db, quota, project)
  if (caps.length === 0) return undefined
  return (appended) => {
    for (const { scope, name, limit, used } of caps)
      if (appended > 0 && used + appended > limit) throw exceeded(scope, name, limit, used, appended)
  }
}

/**
 * Counts what a commit adds, before its pack lengths are written. Inside the caller's transaction, which a refusal rolls back.
 * Throws `StoreQuotaExceeded`.
 */
export const charge = (
  db: Database,
  quota: StoreQuota,
  project: string,
  packLengths: ReadonlyMap<number, number>
): void => {
  let added = 0
  for (const [pack, length] of packLengths) {
    added += length - Number(db.get("SELECT length FROM packs WHERE id = ?", pack)?.["length"] ?? 0)
  }
  for (const { scope, name, limit, used } of capsOf(db, quota, project))
    if (added > 0 && used + added > limit) throw exceeded(scope, name, limit, used, added)
  db.run("UPDATE projects SET stored = stored + ? WHERE id = ?", added, project)
}
