/**
 * The time of decisions: the wall clock, never earlier than what this store has seen.
 * Promise: a clock that is set back revives no lease, in no process; time does not stand still either: until the clock has
 * caught up, it goes on by the machine's monotonic clock, which all processes of one boot share. Rules: G36; G33, G52.
 *
 * Seen is what the journal's last fact is dated, and the row `clock` of `meta`. The row is written in the transaction of a
 * decision, and only when it says something that the journal does not: that a lease was judged by a time at which it had
 * ended, or where time goes on from while the clock is behind. Why not simply the clock: docs/decisions/030.
 */
import { randomUUID } from "node:crypto"
import { readFileSync } from "node:fs"
import { InvalidInput } from "../../src/governance/GovernanceError.ts"
import type { Database } from "../../src/sqlite/Database.ts"

/** A reading of a clock that only goes forward. `boot` names the span within which two readings can be compared. */
export interface Monotonic {
  readonly boot: string
  readonly ms: number
}

const bootName = (): string => {
  try {
    return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()
  } catch {
    // Where the kernel does not name its boot, readings of another process cannot be compared with ours.
    return randomUUID()
  }
}

let boot: string | undefined

/** CLOCK_MONOTONIC (clock_gettime(2)): the same in all processes of one boot; stands still while the machine sleeps. */
const systemMonotonic = (): Monotonic => ({
  boot: (boot ??= bootName()),
  ms: Number(process.hrtime.bigint() / 1_000_000n)
})

/** A time that was seen, and when that was by the monotonic clock. */
interface Seen extends Monotonic {
  readonly at: number
}

const since = (seen: Seen | undefined, now: Monotonic): number =>
  seen === undefined ? 0 : seen.at + (seen.boot === now.boot ? Math.max(0, now.ms - seen.ms) : 0)

/** The last millisecond of the year 9999: what is later was counted in other units, and its dates could not be written (ISO 8601). */
const lastTime = 253_402_300_799_999

/**
 * A clock goes this far ahead of the machine's by being wrong and not by being corrected. CockroachDB's forward jump check does the
 * same within a fraction of its clock offset (`server.clock.forward_jump_check_enabled`), and is off unless asked for, as a machine that slept
 * looks alike; here the time that it slept is counted.
 */
const farAhead = 24 * 3_600_000

/** Milliseconds since the boot by CLOCK_BOOTTIME (proc_uptime(5)), which goes on while the machine sleeps; undefined where nobody tells. */
const uptime = (): number | undefined => {
  try {
    return Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1000
  } catch {
    return undefined
  }
}

/** For how long the machine has slept since its boot: what its clocks differ by. */
const systemSlept = (): number | undefined => {
  const up = uptime()
  return up === undefined ? undefined : up - systemMonotonic().ms
}

const jumped = (ahead: number): InvalidInput =>
  new InvalidInput({
    command: "now",
    message: `The clock of this authority went ${Math.round(ahead / 3_600_000)} hours ahead at once: all leases would end by it.`,
    remedy:
      "Correct the clock, then ask again. If it is right now, open the authority again: what is opened takes the clock as it is. Nothing was changed."
  })

/** A fact once dated outside of time would date all later ones so: what is no time is refused before anything is kept of it. */
const sound = (wall: number): number => {
  if (Number.isSafeInteger(wall) && wall >= 0 && wall <= lastTime) return wall
  throw new InvalidInput({
    command: "now",
    message: "The clock of this authority gave something that is no time in whole UTC milliseconds.",
    remedy: "Correct the `now` that the authority was opened with, then ask again. Nothing was changed."
  })
}

export class StoreClock {
  readonly #wall: () => number
  readonly #monotonic: () => Monotonic
  /** The latest time that this process has given. */
  #latest: Seen | undefined
  /** Whether the last decision was given a time that another process could not have found. */
  #behind = false

  /** For how long the machine has slept when this was opened; undefined: a jump ahead cannot be told from time that passed. */
  readonly #slept: number | undefined
  readonly #sleep: () => number | undefined

  /** A wall clock of the caller's own is compared with nothing but a monotonic one of the caller's own. */
  constructor(wall: () => number, monotonic?: () => Monotonic) {
    this.#wall = wall
    this.#monotonic = monotonic ?? systemMonotonic
    this.#sleep = monotonic === undefined ? (wall === Date.now ? systemSlept : () => undefined) : () => 0
    this.#slept = this.#sleep()
  }

  /** Refuses a wall clock that has left the machine's own far behind since this process looked last. */
  #noJump(wall: number, monotonic: Monotonic): void {
    if (this.#latest === undefined || this.#latest.boot !== monotonic.boot) return
    const ahead = wall - since(this.#latest, monotonic)
    if (ahead <= farAhead) return
    const slept = this.#sleep()
    if (slept === undefined || this.#slept === undefined) return
    const unexplained = ahead - Math.max(0, slept - this.#slept)
    if (unexplained > farAhead) throw jumped(unexplained)
  }

  #stored(db: Database): Seen | undefined {
    const row = db.get("SELECT value FROM meta WHERE key = 'clock'")
    return row === undefined ? undefined : (JSON.parse(String(row["value"])) as Seen)
  }

  #store(db: Database, seen: Seen): void {
    db.run(
      "INSERT INTO meta (key, value) VALUES ('clock', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
      JSON.stringify({ at: seen.at, ms: seen.ms, boot: seen.boot })
    )
  }

  /** The time for a read: nothing is written. `journalAt` is the time of the journal's last fact. */
  readonly look = (db: Database, journalAt: number): number => this.#reading(db, journalAt).seen.at

  #reading(db: Database, journalAt: number) {
    const wall = sound(this.#wall())
    const monotonic = this.#monotonic()
    this.#noJump(wall, monotonic)
    const stored = this.#stored(db)
    if (wall >= Math.max(journalAt, stored?.at ?? 0, this.#latest?.at ?? 0)) {
      return { seen: { ...monotonic, at: wall }, unknownToOthers: false }
    }
    const fromStore = since(stored, monotonic)
    const at = Math.max(wall, journalAt, fromStore, since(this.#latest, monotonic))
    return { seen: { ...monotonic, at }, unknownToOthers: at > fromStore || stored?.boot !== monotonic.boot }
  }

  /** The time of a decision, inside its transaction. */
  readonly decide = (db: Database, journalAt: number): number => {
    const { seen, unknownToOthers } = this.#reading(db, journalAt)
    this.#behind = unknownToOthers
    this.#latest = seen
    return seen.at
  }

  /**
   * At the end of a transaction that decided something at `at`, outside the savepoints of its commands: keeps that time when
   * the clock is behind and the others could not tell where time goes on from, and when between what was seen and it
   * something ended (`lapsed`) which must not be alive again under an earlier clock.
   */
  readonly keep = (
    db: Database,
    journalAt: number,
    at: number,
    lapsed: (from: number, to: number) => boolean
  ): void => {
    const from = Math.max(journalAt, this.#stored(db)?.at ?? 0)
    if (this.#behind || (at > from && lapsed(from, at))) this.#store(db, { ...this.#monotonic(), at })
    this.#behind = false
  }
}
