/**
 * The hash chain of the journal: how a link is made and how the chain is walked.
 * Promise: changing, removing, adding or reordering an entry breaks a link, and the first broken one is named. Rules: G4.
 */
import { canonicalJson, sha256 } from "../../src/base/Digest.ts"
import type { JournalEntry } from "../../src/governance/Module.ts"
import type { Database, Row } from "../../src/sqlite/Database.ts"

/** The hash before the first entry. */
export const genesis = sha256("coppice.authority/1")

/** What one link covers: all of an entry; `data` as the very text that is stored. */
export interface Link {
  readonly seq: number
  readonly at: number
  readonly module: string
  readonly type: string
  readonly entity: string
  readonly command: string
  readonly data: string
  readonly prevHash: string
}

/** sha256 over the canonical JSON of an array of all fields. */
export const linkHash = (l: Link): string =>
  sha256(canonicalJson([l.prevHash, l.seq, l.at, l.module, l.type, l.entity, l.command, l.data]))

export interface Head {
  readonly seq: number
  readonly hash: string
  readonly at: number
}

export const head = (db: Database): Head => {
  const last = db.get("SELECT seq, hash, at FROM journal ORDER BY seq DESC LIMIT 1")
  return last === undefined
    ? { seq: 0, hash: genesis, at: 0 }
    : { seq: Number(last["seq"]), hash: String(last["hash"]), at: Number(last["at"]) }
}

export const entryOf = (row: Row): JournalEntry => ({
  seq: Number(row["seq"]),
  at: Number(row["at"]),
  module: String(row["module"]),
  type: String(row["type"]),
  entity: String(row["entity"]),
  command: String(row["command"]),
  data: JSON.parse(String(row["data"])),
  prevHash: String(row["prev_hash"]),
  hash: String(row["hash"])
})

export interface Verified {
  readonly ok: boolean
  readonly entries: number
  readonly brokenAt: number | null
}

/** A row of the journal as the chain reads it: its columns in the order of `columns`. */
type ChainRow = readonly [number, number, string, string, string, string, string, string, string]

const page =
  "SELECT seq, at, module, type, entity, command, data, prev_hash, hash FROM journal WHERE seq > ? ORDER BY seq LIMIT ?"

/** Checks entries `after+1 …`, a page at a time, so that a caller can give way between pages. */
export const verifyPage = (
  db: Database,
  from: Head,
  limit: number
): { readonly head: Head; readonly brokenAt: number | null; readonly done: boolean } => {
  // Rows as lists: naming nine columns of a million rows costs as much as hashing them.
  const statement = db.prepare(page)
  statement.setReturnArrays(true)
  const rows = statement.all(from.seq, limit) as unknown as readonly ChainRow[]
  let at = from
  for (const [seq, time, module, type, entity, command, data, prevHash, hash] of rows) {
    const link: Link = { seq, at: time, module, type, entity, command, data, prevHash }
    if (seq !== at.seq + 1 || prevHash !== at.hash || linkHash(link) !== hash) {
      return { head: at, brokenAt: at.seq + 1, done: true }
    }
    at = { seq, hash, at: time }
  }
  return { head: at, brokenAt: null, done: rows.length < limit }
}

/**
 * Looks at receipts in the order of their ids, after `after`: none may point past the journal, whose end may have been cut off.
 * `last` is null at the end.
 */
export const receiptPage = (
  db: Database,
  after: string,
  limit: number
): { readonly pointsPast: boolean; readonly last: string | null } => {
  const found = db.get(
    "SELECT MAX(seq) AS seq, MAX(id) AS last, COUNT(*) AS n FROM (SELECT id, seq FROM command WHERE id > ? ORDER BY id LIMIT ?) AS page",
    after,
    limit
  )!
  const complete = Number(found["n"]) < limit
  return { pointsPast: Number(found["seq"] ?? 0) > head(db).seq, last: complete ? null : String(found["last"]) }
}
