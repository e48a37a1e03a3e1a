/** What the session tests share: the minimal preset over a store of its own, and a turn in a plain directory. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { afterAll } from "vitest"
import { minimal } from "../../src/minimal.ts"
import {
  Agents,
  type Authority,
  Authority as AuthorityTag,
  type Fence,
  Goals,
  type JournalEntry,
  Quota,
  Settlements,
  Todos,
  type TurnRecord,
  Turns
} from "../../src/governance/index.ts"
import type { Host } from "../../src/host/index.ts"
import { driveTurn, type TurnSpec } from "../../src/session/index.ts"
import { plainWork } from "./plainWork.ts"

const cleanups: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const clean of cleanups.splice(0)) await clean()
})

export interface Scene {
  readonly place: string
  readonly files: string
  readonly goal: string
  readonly todo: string
  readonly fence: Fence
  readonly run: <A, E>(effect: Effect.Effect<A, E, Authority>) => Promise<A>
  /** The error of an effect that must fail. */
  readonly fails: (effect: Effect.Effect<unknown, any, Authority>) => Promise<any>
  /** Drives the one turn of this scene. */
  readonly drive: (host: Host, more?: Partial<TurnSpec>) => ReturnType<typeof driven>
  readonly turns: () => Promise<readonly TurnRecord[]>
  readonly journal: (prefix?: string) => Promise<readonly JournalEntry[]>
  readonly quota: () => Promise<{ readonly reserved: number; readonly spent: number; readonly owed: number }>
  readonly settlements: () => Promise<{ readonly total: number; readonly accepted: number }>
}

const driven = (scene: Omit<Scene, "drive">, host: Host, more: Partial<TurnSpec>) =>
  driveTurn(
    {
      goal: { id: scene.goal, title: "Make the value right" },
      todo: { id: scene.todo, title: "Write it" },
      agent: "ada",
      fence: scene.fence,
      host,
      instruction: "write the value",
      findings: [],
      bound: { usd: 1, slots: 1 },
      timeLimitMs: 30_000,
      interrupted: "explain",
      ...more
    },
    plainWork(scene.place, scene.files, { goal: scene.goal, todo: scene.todo })
  )

/** A goal with one todo that agent `ada` holds, on the minimal preset. */
export const newScene = async (budget: { usd: number; slots: number } = { usd: 5, slots: 5 }): Promise<Scene> => {
  const place = mkdtempSync(join(tmpdir(), "coppice-session-"))
  const files = join(place, "files")
  mkdirSync(files)
  const runtime = ManagedRuntime.make(minimal({ store: join(place, "store") }))
  cleanups.push(async () => {
    await runtime.dispose()
    rmSync(place, { recursive: true, force: true })
  })
  const run: Scene["run"] = (effect) => runtime.runPromise(effect)
  const fails: Scene["fails"] = (effect) => runtime.runPromise(Effect.flip(effect))
  const goal = (await run(Goals.open({ title: "Make the value right", budget }))).id
  await run(Agents.register({ goal, agentId: "ada" }))
  await run(Agents.register({ goal, agentId: "bob" }))
  const todo = (await run(Todos.add({ goal, title: "Write it" }))).id
  const work = await run(Todos.nextWork({ goal, agent: "ada" }))
  if (work._tag !== "claimed") throw new Error("the only todo was not claimed")
  const scene: Omit<Scene, "drive"> = {
    place,
    files,
    goal,
    todo,
    fence: work.lease.fence,
    run,
    fails,
    turns: async () => (await run(Turns.list({ goal }))).items,
    journal: async (prefix = "") =>
      (await run(Effect.flatMap(AuthorityTag, (authority) => authority.journal({ limit: 10_000 })))).filter((entry) =>
        entry.type.startsWith(prefix)
      ),
    quota: async () => {
      const { reserved, spent, owed } = await run(Quota.status({ goal }))
      return { reserved: reserved.usd, spent: spent.usd, owed: owed.length }
    },
    settlements: async () => {
      const { total, accepted } = await run(Settlements.list({ goal }))
      return { total, accepted }
    }
  }
  return { ...scene, drive: (host, more = {}) => driven(scene, host, more) }
}

export const read = (scene: Scene, name: string): string => readFileSync(join(scene.files, name), "utf8")
