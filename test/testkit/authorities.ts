/**
 * The authorities of this repository under the conformance suite: the bare SQLite store, and the authority of each preset.
 * Promise: a worker program opens the very same kind of store. Rules: V2.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { AuthorityUnderTest } from "../../src/testkit/index.ts"
import { oneFile } from "../oneFile.ts"
import { type AuthorityKind, openAs } from "./opening.ts"

const worker = await oneFile(join(import.meta.dirname, "programs", "worker.ts"))

const tamper = (directory: string, seq: number): void => {
  const db = new DatabaseSync(join(directory, "authority.db"))
  try {
    db.prepare("UPDATE journal SET data = '{\"altered\":true}' WHERE seq = ?").run(seq)
  } finally {
    db.close()
  }
}

/** Every file below the store that is not the authority's, and the workspace store where there is none yet. */
const ruinOthers = (directory: string): void => {
  mkdirSync(join(directory, "layerfs"), { recursive: true })
  writeFileSync(join(directory, "layerfs", "index.db"), "rubbish")
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    const path = join(directory, name)
    if (!name.startsWith("authority.db") && statSync(path).isFile()) writeFileSync(path, "rubbish")
  }
}

export const authorityOf = (kind: AuthorityKind): AuthorityUnderTest => ({
  takesModules: kind === "sqlite",
  create: async () => {
    const place = mkdtempSync(join(tmpdir(), `coppice-testkit-${kind}-`))
    const directory = join(place, "store")
    return {
      open: (options = {}) => openAs(kind, directory, options),
      worker: [process.execPath, worker, kind, directory],
      tamper: async (seq) => tamper(directory, seq),
      ruinOthers: async () => ruinOthers(directory),
      remove: async () => rmSync(place, { recursive: true, force: true })
    }
  }
})
