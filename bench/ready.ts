/**
 * How long until a workspace can be used, as whoever runs this: of a cached base, or of one that is served; also a program of its own, so that root's
 * bench can run it as an ordinary user (`node ready.js TREE STORE ROUNDS overlay|lazy|pool`, JSON on stdout).
 * Promise: a time counts only when the workspace showed the right bytes, by the projection asked for, isolated. Rules: W7, W17, L1.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { spawnTrue, timed } from "./measure.ts"
import { openLayerFs } from "../providers/layerfs/index.ts"
import { filesOf, forkOf, openWorkspace, shortfall, withProvider } from "./provider.ts"

export interface ReadySamples {
  /** Milliseconds from `open` to its answer. */
  readonly open: readonly number[]
  /** Milliseconds of a bare spawn of `true`, taken in turn with the above. */
  readonly spawn: readonly number[]
  /** What was wrong; empty when every round was right. */
  readonly faults: readonly string[]
}

/** How the workspaces of a row are opened: `pool` is lazy too, with a server that stands ready. */
export type Way = "overlay" | "lazy" | "pool"

/** Until the pool is full. */
export const poolFull = (provider: WorkspaceProvider) => async (): Promise<void> => {
  for (let waits = 0; waits < 1500; waits++) {
    const { pool } = await Effect.runPromise(provider.stats)
    if (pool !== undefined && pool.ready === pool.size) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  throw new Error("the pool was not full after half a minute")
}

/** Opens and closes `rounds` workspaces of `commit`, each on a branch of its own. The first one fills the cache, uncounted. */
export const measureReady = async (
  provider: WorkspaceProvider,
  commit: string,
  source: string,
  rounds: number,
  /** Waits for what an opening may find ready. */
  prepared: () => Promise<void> = async () => {},
  way: Way = "overlay"
): Promise<ReadySamples> => {
  const projection = way === "overlay" ? "overlay" : "lazy"
  const [file] = await filesOf(provider, commit, 1)
  if (file === undefined) throw new Error("The tree holds no file to check a workspace by")
  const expected = readFileSync(join(source, file))
  const open: number[] = []
  const spawn: number[] = []
  const faults = new Set<string>()
  for (let round = -1; round < rounds; round++) {
    const branch = await forkOf(provider, commit)
    await prepared()
    const bare = await spawnTrue()
    const [ms, { workspace, close }] = await timed(() => openWorkspace(provider, branch, { projection }))
    const bytes = await Effect.runPromise(workspace.read(file))
    if (Buffer.compare(expected, bytes) !== 0) faults.add("a workspace showed other bytes than its base")
    const fault = shortfall(workspace, projection)
    if (fault !== undefined) faults.add(fault)
    await close()
    if (round < 0) continue
    open.push(ms)
    spawn.push(bare)
  }
  return { open, spawn, faults: [...faults] }
}

const main = async ([tree = "", store = "", rounds = "", how = ""]: readonly string[]): Promise<void> => {
  const way = how as Way
  const open = openLayerFs({ store, ...(way === "pool" ? { warmPool: 2 } : {}) })
  const samples = await withProvider(open, async (provider) => {
    const receipt = await Effect.runPromise(provider.importDirectory({ source: tree }))
    const prepared = way === "pool" ? poolFull(provider) : undefined
    return measureReady(provider, receipt.commit, tree, Number(rounds), prepared, way)
  })
  console.log(JSON.stringify(samples))
}

if (import.meta.main) await main(process.argv.slice(2))
