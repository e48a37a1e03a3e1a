/**
 * The base tables of the authority file: journal, receipts, module versions.
 * Promise: `user_version` counts these steps; a released step is never edited. Rules: G2, G4, G5.
 */
import type { Migration } from "../../src/sqlite/Database.ts"

export const baseMigrations: readonly Migration[] = [
  {
    version: 1,
    name: "base",
    sql: `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('format', 'coppice.authority/1');
CREATE TABLE module (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE journal (
  seq INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  module TEXT NOT NULL,
  type TEXT NOT NULL,
  entity TEXT NOT NULL,
  command TEXT NOT NULL,
  data TEXT NOT NULL,
  prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL
);
CREATE TABLE command (
  id TEXT PRIMARY KEY,
  digest TEXT NOT NULL,
  reply TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL
) WITHOUT ROWID;
`
  }
]
