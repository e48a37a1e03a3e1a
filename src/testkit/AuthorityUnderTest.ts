/**
 * What the authority suite needs of a store: a way to make one, to open it again and again, and what else it can do.
 * Promise: nothing in here knows SQLite; a store that cannot do an optional thing leaves it out, and the scenarios that need it
 * say so. Rules: V2; 01 "The host's event loop" (the seam `AuthorityStore`).
 */
import type { Authority } from "../governance/Authority.ts"
import type { AuthorityModule } from "../governance/Module.ts"

/** One handle on an open store, as one process has it. `Authority.make(store)` gives the service over an `AuthorityStore`. */
export interface OpenedAuthority {
  readonly authority: Authority["Service"]
  readonly close: () => Promise<void>
}

export interface OpenUnderTest {
  /** The clock of decisions, in UTC milliseconds; the system's when absent. */
  readonly now?: () => number
  /** The modules whose facts are written; the work module when absent. Given only to stores that take `modules`. */
  readonly modules?: readonly AuthorityModule[]
}

/** One store of its own, empty at first. */
export interface StoreUnderTest {
  /** Opens a handle; several may be open at once, and opening again after a crash is what recovery is. Rejects with a `CoppiceError`. */
  readonly open: (options?: OpenUnderTest) => Promise<OpenedAuthority>
  /**
   * Command and arguments of a program that opens this store and calls `serveAuthority`: a second, real process, which the suite
   * kills with SIGKILL.
   */
  readonly worker?: readonly [string, ...string[]]
  /** Changes the data of one journal row behind the store's back. */
  readonly tamper?: (seq: number) => Promise<void>
  /** Fills every other store of the same application (workspaces) with rubbish. */
  readonly ruinOthers?: () => Promise<void>
  /** Removes it; no handle is open any more. */
  readonly remove: () => Promise<void>
}

export interface AuthorityUnderTest {
  /** Makes a new, empty store. */
  readonly create: () => Promise<StoreUnderTest>
  /** Whether `open` obeys `modules`; false for a preset, which has its own. */
  readonly takesModules: boolean
}
