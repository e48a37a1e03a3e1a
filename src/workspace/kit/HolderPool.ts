/**
 * Holders that stand ready before a workspace is opened: namespaces without a mount of ours.
 * Promise: one that has died or was stopped, or whose namespaces show other mounts than the machine has now, is never used; none is there unless the
 * application asked; they keep no process alive and end with their scope, or with the process. Rules: P4, W12, W17, S23.
 */
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { Holder } from "./Holder.ts"
import { stateOf } from "./Launcher.ts"
import { freshName, type Tools } from "./Machine.ts"
import { removeTree } from "./RemoveTree.ts"

interface Standing {
  readonly holder: Holder
  /** Where its mount table will be read from; named so that a sweep removes it when this process was killed. */
  readonly directory: string
  /** What was mounted when its namespaces were made: no later mount or unmount of the machine reaches them. */
  readonly mounts: string
}

/** A holder that is the caller's from now on, to be ended by it. */
export interface Taken {
  readonly holder: Holder
  /** Called when its mount table was read, or will never be. */
  readonly mounted: () => void
}

/** What stands beside a holder for one kind of workspaces, while that kind is wanted. */
export interface Equipment {
  readonly wanted: boolean
  readonly equip: (holder: Holder) => Promise<void>
  readonly isEquipped: (holder: Holder) => boolean
  readonly drop: (holder: Holder) => Promise<void>
}

export interface PoolParts {
  readonly tools: Tools
  /** `work` of the store. */
  readonly work: string
  /** Where a holder stands while it mounts. */
  readonly directory: string
  readonly size: number
  readonly equipment?: Equipment | null
}

/** Holders that die while they stand, one after the other, before nobody makes new ones until somebody takes one. */
const patience = 3

/** Until what was taken is replaced. */
const quietMs = 30

const machineMounts = (): string => fs.readFileSync("/proc/self/mountinfo", "latin1")

export class HolderPool {
  readonly #parts: PoolParts
  readonly #ready: Standing[] = []
  readonly #dropping = new Set<Promise<void>>()
  #filling: Promise<void> | undefined
  #deaths = 0
  #ended = false

  constructor(parts: PoolParts) {
    this.#parts = parts
  }

  /** Begins to make what is missing. */
  fill(): void {
    if (this.#ended || this.#filling !== undefined) return
    this.#filling = this.#make()
      .catch(() => undefined)
      .finally(() => {
        this.#filling = undefined
      })
  }

  /** Resolves when as many stand ready as can. */
  async filled(): Promise<void> {
    await this.#filling
  }

  get size(): number {
    return this.#parts.size
  }

  get ready(): number {
    return this.#ready.filter(({ holder }) => holder.alive).length
  }

  /** One that has what its taker wants first: with the equipment, or without. Undefined when none stands ready. */
  take(equipped = false): Taken | undefined {
    this.#deaths = 0
    const { equipment } = this.#parts
    const mounts = machineMounts()
    const fits = ({ holder, mounts: seen }: Standing): boolean =>
      holder.alive && seen === mounts && stateOf(holder.innerPid) !== "T"
    for (const unfit of this.#ready.filter((one) => !fits(one))) {
      this.#ready.splice(this.#ready.indexOf(unfit), 1)
      this.#drop(unfit)
    }
    const best = this.#ready.findIndex(({ holder }) => (equipment?.isEquipped(holder) === true) === equipped)
    const [next] = this.#ready.splice(Math.max(0, best), 1)
    if (next !== undefined && !equipped && equipment) this.#after(equipment.drop(next.holder))
    // Not while the caller opens its workspace: starting a process takes this thread some milliseconds.
    setTimeout(() => this.fill(), quietMs).unref()
    if (next === undefined) return undefined
    const { holder, directory } = next
    holder.ref()
    return { holder, mounted: () => this.#after(removeTree(directory)) }
  }

  async end(): Promise<void> {
    this.#ended = true
    await this.#filling
    for (const standing of this.#ready.splice(0)) this.#drop(standing)
    await Promise.all(this.#dropping)
  }

  async #make(): Promise<void> {
    await this.#equipStanding()
    const { tools, work, directory: from, size, equipment } = this.#parts
    while (!this.#ended && this.#ready.length < size && this.#deaths < patience) {
      const directory = path.join(work, freshName(randomUUID()))
      fs.mkdirSync(directory, { mode: 0o700 })
      const mounts = machineMounts()
      const holder = await Holder.start(tools, from, path.join(directory, "mounts"))
      const standing = { holder, directory, mounts }
      try {
        await holder.unshared()
        await equipment?.equip(holder)
      } catch (error) {
        this.#drop(standing)
        throw error
      }
      holder.unref()
      this.#ready.push(standing)
      void holder.gone.then(() => this.#died(standing))
    }
  }

  /** Those that stood ready before anybody wanted the equipment. */
  async #equipStanding(): Promise<void> {
    const { equipment } = this.#parts
    if (equipment?.wanted !== true) return
    for (const { holder } of this.#ready) await equipment.equip(holder)
  }

  /** One that dies while it stands is replaced. */
  async #died(standing: Standing): Promise<void> {
    const at = this.#ready.indexOf(standing)
    if (at < 0) return
    this.#ready.splice(at, 1)
    this.#deaths += 1
    await removeTree(standing.directory)
    this.fill()
  }

  #drop({ holder, directory }: Standing): void {
    const { equipment } = this.#parts
    this.#after(Promise.all([holder.end(), equipment?.drop(holder)]).then(() => removeTree(directory)))
  }

  /** Waited for at the end; what could not be taken away is left to a sweep. */
  #after(work: Promise<void>): void {
    const done = work.catch(() => undefined)
    this.#dropping.add(done)
    void done.finally(() => this.#dropping.delete(done))
  }
}
