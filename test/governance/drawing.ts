/** What the random calls are drawn from: a seeded source of choices, and the world as the journal and earlier replies tell it. */
import type { Fence } from "../../src/governance/index.ts"
import type { Record_ } from "./factRules.ts"

/** A seeded source of choices. */
export interface Pick {
  /** A whole number from 0 to below `below`. */
  readonly number: (below: number) => number
  readonly chance: (percent: number) => boolean
  readonly one: <A>(from: readonly A[]) => A | undefined
}

/** What may be named: the records that the journal gives, oldest first, the fences that were handed out, who asks. */
export interface World {
  readonly all: (kind: string) => readonly Record_[]
  /** Fences, newest last. */
  readonly fences: readonly Fence[]
  /** The process that will make the call. */
  readonly pid: number
  readonly now: number
  /** Grows with every call. */
  readonly serial: number
}

export type Draw = (world: World, pick: Pick) => object | undefined

export const agents = ["ada", "bob", "eve"] as const

/** By call: how often it is drawn, and what it is given. */
export type Commands = Readonly<Record<string, readonly [weight: number, draw: Draw]>>

export const goalOf = (world: World, pick: Pick): string | undefined => pick.one(world.all("goal"))?.["id"]

/** The newest fence of a todo that is held; now and then an older one, or a wrong token. */
export const fenceOf = (world: World, pick: Pick, todo?: string): Fence | undefined => {
  const mine = world.fences.filter((fence) => todo === undefined || fence.todo === todo)
  const fence = pick.chance(85) && todo !== undefined ? mine.at(-1) : pick.one(mine.slice(-12))
  if (fence === undefined || !pick.chance(3)) return fence
  return { ...fence, token: "guessed" }
}
