/**
 * Commits of one process wait in line, and those of several branches that wait together become durable together: one flush of the
 * pack, one transaction (group commit).
 * Promise: nobody is answered before his commit is durable; the order of the line is the order of the commits; when one of a group
 * cannot be (its head moved, its id is taken, its quota is used up), nothing of the group was done and each is run again alone, so that
 * everybody is answered as if he had been alone; whoever gives up waiting before the commit of his own stands leaves nothing, and what
 * others had in the group stays. Rules: L2, L8, W9, W10, W15; 04 "Storage" (group commit).
 *
 * Nobody waits for company: a group is what stood in line when its first member was ready.
 */
import { crashPoint } from "../../src/base/CrashPoint.ts"
import type { ObjectWriter } from "./PackedObjects.ts"
import { Cancelled, stillWanted } from "../../src/workspace/kit/Steps.ts"
import type { Added } from "../../src/workspace/kit/RefStore.ts"
import type { AddStored } from "./LayerRefs.ts"
import type { CallScope } from "./StoreServer.ts"

/** Commits of one group at most, and how long the first one waits for those behind it to be built, in milliseconds. */
const most = 64
const longest = 10

/** What a call in the line writes with. */
export interface Turn {
  readonly objects: ObjectWriter
  /** What is staged may be flushed now, beside what the call still does: the next step is `land`. */
  readonly flushSoon: () => void
  /** Makes what was staged durable. Rejects as `RefStore.addCommit` does; the writer has then forgotten it. */
  readonly land: (staged: AddStored) => Promise<Added>
}

export interface CommitLineOptions {
  readonly writer: () => Promise<ObjectWriter>
  /** See `SqliteRefs.addCommit`. */
  readonly addCommit: (input: AddStored, beforeTry: () => void) => Promise<Added>
  readonly addCommits: (inputs: readonly AddStored[]) => Promise<boolean>
}

/** Whoever waits for a call. */
type Caller = Pick<CallScope, "cancelled" | "onCancel">

/** A call that waits or runs. */
interface Entry {
  /** Calls with equal keys never share a group; one without a key runs alone. */
  readonly key: string | null
  /** Without a turn it needs no writer. */
  readonly work: { readonly withTurn: (turn: Turn) => Promise<unknown> } | { readonly without: () => Promise<unknown> }
  readonly resolve: (value: never) => void
  readonly reject: (error: unknown) => void
  readonly cancelled: () => boolean
}

/** A call that has staged its commit and waits for it to land. */
interface Member {
  readonly entry: Entry
  readonly staged: AddStored
  readonly landed: (added: Added) => void
  readonly failed: (error: unknown) => void
  /** Settles when the call has ended, however. */
  readonly ended: Promise<void>
}

/** Ends a call that is run again. */
const again = Symbol("again")

export class CommitLine {
  readonly #options: CommitLineOptions
  #waiting: Entry[] = []
  #isRunning = false
  /** The flush that the only member of a group began early. */
  #flushing: Promise<void> | undefined

  constructor(options: CommitLineOptions) {
    this.#options = options
  }

  /** Runs a call when its turn comes. Cancelled before, it leaves the line; in its turn it is to look itself. */
  run<A>(key: string | null, { cancelled, onCancel }: Caller, call: (turn: Turn) => Promise<A>): Promise<A> {
    return new Promise<A>((resolve, reject) => {
      stillWanted(cancelled)
      const entry: Entry = { key, work: { withTurn: call }, resolve, reject, cancelled }
      onCancel(() => {
        if (!this.#waiting.includes(entry)) return
        this.#waiting = this.#waiting.filter((other) => other !== entry)
        reject(new Cancelled())
      })
      this.#join(entry)
    })
  }

  /** Runs something that needs no writer, and that the writer may be taken away in, when all before it have ended. */
  between(run: () => Promise<void>): Promise<void> {
    return new Promise<void>((resolve, reject) =>
      this.#join({ key: null, work: { without: run }, resolve: () => resolve(), reject, cancelled: () => false })
    )
  }

  #join(entry: Entry): void {
    this.#waiting.push(entry)
    if (!this.#isRunning) void this.#work()
  }

  async #work(): Promise<void> {
    this.#isRunning = true
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if ("withTurn" in next.work) await this.#group(false)
      else {
        this.#waiting.shift()
        await next.work.without().then((value) => next.resolve(value as never), next.reject)
      }
    }
    this.#isRunning = false
  }

  async #group(isAlone: boolean): Promise<void> {
    let objects: ObjectWriter
    try {
      objects = await this.#options.writer()
    } catch (error) {
      this.#waiting.shift()?.reject(error)
      return
    }
    this.#flushing = undefined
    const members: Member[] = []
    const started = performance.now()
    const isOver = (): boolean => performance.now() - started >= longest
    const isLast = (): boolean => isAlone || this.#waiting.length === 0 || isOver()
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      const { key, work } = next
      if (!("withTurn" in work)) break
      if (members.length > 0) {
        if (members.length >= most || isOver() || this.#flushing !== undefined) break
        if (key === null || members.some(({ entry }) => entry.key === key)) break
      }
      this.#waiting.shift()
      const member = await this.#begin(next, work.withTurn, objects, isLast)
      if (member !== undefined) members.push(member)
      // A flush that began for what was given up covers nothing that is written from here on.
      else this.#flushing = undefined
      // Without a key it may have changed the writer itself; run again, it is the only one meant.
      if (key === null || isAlone) break
    }
    if (members.length > 0) await this.#land(members, objects)
  }

  /** Runs a call until it has staged a commit; undefined when it ended without one. */
  #begin(
    entry: Entry,
    call: (turn: Turn) => Promise<unknown>,
    objects: ObjectWriter,
    isLast: () => boolean
  ): Promise<Member | undefined> {
    return new Promise((resolve) => {
      const flushSoon = (): void => {
        if (isLast()) this.#flushing = objects.syncBeside()
      }
      const land = (staged: AddStored): Promise<Added> =>
        new Promise((landed, failed) => {
          // From here on it is in the group's hands; a call that fails before forgets what it staged.
          objects.keep()
          resolve({ entry, staged, landed, failed, ended })
        })
      // Not at once: it may stage a commit without ever waiting, and `ended` must stand then.
      const ended = Promise.resolve()
        .then(() => call({ objects, flushSoon, land }))
        .then(
          (value) => entry.resolve(value as never),
          (error: unknown) => {
            if (error !== again) entry.reject(error)
          }
        )
      void ended.then(() => resolve(undefined))
    })
  }

  async #land(members: readonly Member[], objects: ObjectWriter): Promise<void> {
    const flushing = this.#flushing ?? objects.syncBeside()
    this.#flushing = undefined
    try {
      await flushing
      crashPoint("layerfs.commit.packSynced")
      const added = await this.#add(members)
      if (added?.kind === "added") objects.committed()
      else objects.abandonAll()
      for (const { landed, failed } of members) {
        if (added === undefined) failed(again)
        else landed(added)
      }
      await Promise.all(members.map(({ ended }) => ended))
      if (added !== undefined) return
    } catch (error) {
      objects.abandonAll()
      for (const { failed } of members) failed(error)
      await Promise.all(members.map(({ ended }) => ended))
      return
    }
    for (const { entry } of members) {
      this.#waiting.unshift(entry)
      await this.#group(true)
    }
  }

  /** Undefined when not all of them can be: then none is. */
  async #add(members: readonly Member[]): Promise<Added | undefined> {
    if (members.length === 1) {
      const { staged, entry } = members[0]!
      return this.#options.addCommit(staged, () => stillWanted(entry.cancelled))
    }
    // Whoever gave up stays: those behind it have built on what it wrote.
    const all = await this.#options.addCommits(members.map(({ staged }) => staged))
    return all ? { kind: "added" } : undefined
  }
}
