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

/** Checks entries `after+1 …`, a page at a time, so that a caller can give way between pages. */
export const verifyPage = (
  db: Database,
  from: Head,
  limit: number
): { readonly head: Head; readonly brokenAt: number | null; readonly done: boolean } => {
  const rows = db.all("SELECT * FROM journal WHERE seq > ? ORDER BY seq LIMIT ?", from.seq, limit)
  let at = from
  for (const row of rows) {
    const seq = Number(row["seq"])
    const link: Link = {
      seq,
      at: Number(row["at"]),
      module: String(row["module"]),
      type: String(row["type"]),
      entity: String(row["entity"]),
      command: String(row["command"]),
      data: String(row["data"]),
      prevHash: String(row["prev_hash"])
    }
    const hash = String(row["hash"])
    if (seq !== at.seq + 1 || link.prevHash !== at.hash || linkHash(link) !== hash) {
      return { head: at, brokenAt: at.seq + 1, done: true }
    }
    at = { seq, hash, at: link.at }
  }
  return { head: at, brokenAt: null, done: rows.length < limit }
}
