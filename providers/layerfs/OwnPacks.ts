/**
 * The packs that one opening of a store writes to, and how they are given back.
 * Promise: a pack that was put down is never written to again by who had it, whatever the index answers; where a rival holds the index it
 * is given back later, and what was done with it stands; at the latest the next opening takes it, once this process has ended.
 * Rules: L8, L9, L12.
 */
import type { Database } from "../../src/sqlite/Database.ts"
import { acquirePack, type PackAppender, reclaimPacks } from "./PackFile.ts"
import { writerIdentity } from "./WriterIdentity.ts"

export class OwnPacks {
  readonly #db: Database
  readonly #directory: string
  readonly #writer = writerIdentity()
  /** Put down and in the index still ours, each with who is to have it then; null for whoever comes first. */
  readonly #down = new Map<number, string | null>()
  /** Compactions of this opening whose thread is gone. */
  readonly #ended = new Set<string>()

  constructor(db: Database, directory: string) {
    this.#db = db
    this.#directory = directory
  }

  /** Rejects with `Busy`, `StorageFailure`. */
  acquire(): Promise<PackAppender> {
    return acquirePack(this.#db, this.#directory, this.#writer)
  }

  /** Nobody writes to it from here on. `giveBack` tells the index. */
  putDown(pack: PackAppender, heir: string | null = null): void {
    pack.rewind()
    pack.close()
    this.#down.set(pack.id, heir)
  }

  /** A pack for one long call, beside that of the commits. */
  async lend<A>(run: (pack: PackAppender) => Promise<A>): Promise<A> {
    const pack = await this.acquire()
    try {
      return await run(pack)
    } finally {
      this.putDown(pack)
      // The call is over: what came of it is not changed by a rival that holds the index now.
      await this.giveBack().catch(() => undefined)
    }
  }

  /** A compaction is over. What it could not give back, as when a rival held the index until the bound, is freed by `giveBack`. */
  ended(writer: string): void {
    this.#ended.add(writer)
  }

  /** Rejects with `Busy`, `StorageFailure`; then all of it is for the next time. */
  async giveBack(): Promise<void> {
    const down = [...this.#down]
    const ended = new Set(this.#ended)
    const isHeld = (): boolean =>
      this.#db.all("SELECT writer FROM packs WHERE writer IS NOT NULL").some((row) => ended.has(String(row["writer"])))
    if (down.length > 0 || isHeld()) {
      await this.#db.transactWithRetry(() => {
        for (const [id, heir] of down)
          this.#db.run("UPDATE packs SET writer = ? WHERE id = ? AND writer = ?", heir, id, this.#writer)
        reclaimPacks(this.#db, this.#directory, (writer) => ended.has(writer))
      })
    }
    for (const [id] of down) this.#down.delete(id)
    for (const writer of ended) this.#ended.delete(writer)
  }
}
