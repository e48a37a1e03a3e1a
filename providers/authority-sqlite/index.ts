/**
 * `coppice/providers/authority-sqlite`: the authority on one SQLite file in a directory of its own.
 * Promise: opening brings base and modules to their newest version in one transaction each, keeps a backup of what it
 * migrates, and refuses a newer file untouched. Rules: G3, G5, G8; 01 "On disk".
 */
import { realpathSync } from "node:fs"
import { dirname, join } from "node:path"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { Authority } from "../../src/governance/Authority.ts"
import type { AuthorityModule } from "../../src/governance/Module.ts"
import { workModule } from "../../src/governance/WorkModule.ts"
import { Busy, Database, type Durability, type StorageFailure, StoreMoved } from "../../src/sqlite/Database.ts"
import { AuthorityLocation, prepareLocation } from "./Location.ts"
import { baseMigrations } from "./Schema.ts"
import { movedModule, SqliteAuthority } from "./SqliteAuthority.ts"
import type { Monotonic } from "./StoreClock.ts"

export { AuthorityLocation } from "./Location.ts"
export { SqliteAuthority } from "./SqliteAuthority.ts"
export type { Monotonic } from "./StoreClock.ts"

export interface OpenAuthorityOptions {
  /** The directory in which `authority.db` lies; made (0700) when missing. */
  readonly directory: string
  /** The modules whose facts are written; the work module when nothing is said. */
  readonly modules?: readonly AuthorityModule[]
  /** Default `full`: an answered commit survives power loss. */
  readonly durability?: Durability
  /** UTC milliseconds; the system's clock when nothing is said. */
  readonly now?: () => number
  /** The machine's clock that only goes forward, by which time goes on while the other one is set back (G36). */
  readonly monotonic?: () => Monotonic
  /** Milliseconds for which a file that another process holds is tried again. Default 5,000. */
  readonly busyBoundMs?: number
  /** Calls that wait together share a transaction until it has run this long, a dozen in any case. Default 5 ms: the event loop is yours. */
  readonly batchMs?: number
}

export type OpenError = AuthorityLocation | Busy | StoreMoved | StorageFailure

/**
 * 16 MB of log. Writing it back stops the commit that does it, and with 1000 pages (SQLite's own) every hundredth commit of a large
 * store did. Most frames are of the same few pages (the journal's end, the upper index pages), so four times as many frames are far
 * less than four times the work; a killed process's log of this size is read again in some ten milliseconds.
 */
export const checkpointPages = 4000

/** A copy beside the file, named after what it was before. Kept: removing it is the owner's decision. */
const backup = (db: Database, path: string, was: string): void => {
  const copy = join(dirname(path), `authority.${was}.${Date.now()}.backup.db`)
  db.raw.prepare("VACUUM INTO ?").run(copy)
  crashPoint("authority.backedUp")
}

const versionOf = (db: Database, module: string): number =>
  Number(db.get("SELECT version FROM module WHERE name = ?", module)?.["version"] ?? 0)

/** Opens the file and brings every module to its version. Rejects with `OpenError`; nothing stays open then. */
export const openAuthority = async (options: OpenAuthorityOptions): Promise<SqliteAuthority> => {
  const path = prepareLocation(options.directory)
  const modules = options.modules ?? [workModule]
  const boundMs = options.busyBoundMs ?? 5000
  const { durability } = options
  const opening = { checkpointPages, ...(durability === undefined ? {} : { durability }) }
  const db = await Database.openWithRetry(path, opening, boundMs)
  try {
    const version = db.userVersion()
    if (version > 0 && version < baseMigrations.length) backup(db, path, `base-${version}`)
    await db.migrate(baseMigrations)
    for (const module of modules) {
      const current = versionOf(db, module.name)
      if (current > module.version) throw movedModule(module, current)
      if (current > 0 && current < module.version) backup(db, path, `${module.name}-${current}`)
    }
    await db.transactWithRetry(() => {
      for (const module of modules) activate(db, module)
      crashPoint("authority.activating")
    }, boundMs)
    return new SqliteAuthority({
      writer: db,
      openReader: () => Database.open(path, { readOnly: true }),
      modules,
      now: options.now ?? Date.now,
      monotonic: options.monotonic,
      busyBoundMs: boundMs,
      batchMs: options.batchMs,
      directory: realpathSync(dirname(path))
    })
  } catch (error) {
    db.close()
    throw error
  }
}

const activate = (db: Database, module: AuthorityModule): void => {
  const current = versionOf(db, module.name)
  if (current > module.version) throw movedModule(module, current)
  for (const migration of module.migrations.slice(current)) db.raw.exec(migration.sql)
  if (current === module.version) return
  db.run(
    "INSERT INTO module (name, version) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET version = excluded.version",
    module.name,
    module.version
  )
}

/** Effect's own clock, which reads the machine's. */
const liveClock = (): Clock.Clock => Effect.runSync(Clock.clockWith(Effect.succeed))

/**
 * The store in a scope: closed when the scope ends. Time is Effect's `Clock`, so that tests drive it.
 * Errors: `AuthorityLocation`, `Busy`, `StoreMoved`, `StorageFailure`, each with its remedy.
 */
export const sqliteAuthority = (
  options: OpenAuthorityOptions
): Effect.Effect<SqliteAuthority, OpenError, Scope.Scope> =>
  Clock.clockWith((clock) =>
    Effect.acquireRelease(
      Effect.tryPromise({
        try: () =>
          openAuthority({ now: clock === liveClock() ? Date.now : () => clock.currentTimeMillisUnsafe(), ...options }),
        catch: (error) => error
      }).pipe(Effect.catch((error) => (isCoppiceError(error) ? Effect.fail(error as OpenError) : Effect.die(error)))),
      (store) => Effect.promise(() => store.close())
    )
  )

/** The `Authority` service over the file. */
export const layer = (options: OpenAuthorityOptions): Layer.Layer<Authority, OpenError> =>
  Authority.layer(sqliteAuthority(options))
