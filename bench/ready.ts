/**
 * How long until a workspace of a cached base can be used, as whoever runs this; also a program of its own, so that root's
 * bench can run it as an ordinary user (`node ready.js TREE STORE ROUNDS`, JSON on stdout).
 * Promise: a time counts only when the workspace showed the right bytes, under the overlay, isolated. Rules: W7, W17, L1.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { spawnTrue, timed } from "./measure.ts"
import { filesOf, forkOf, openWorkspace, shortfall, withStore } from "./provider.ts"

export interface ReadySamples {
  /** Milliseconds from `open` to its answer. */
  readonly open: readonly number[]
  /** Milliseconds of a bare spawn of `true`, taken in turn with the above. */
  readonly spawn: readonly number[]
  /** What was wrong; empty when every round was right. */
  readonly faults: readonly string[]
}

/** Opens and closes `rounds` workspaces of `commit`, each on a branch of its own. The first one fills the cache, uncounted. */
export const measureReady = async (
  provider: WorkspaceProvider,
  commit: string,
  source: string,
  rounds: number,
  /** Waits for what an opening may find ready. */
  prepared: () => Promise<void> = async () => {}
): Promise<ReadySamples> => {
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
    const [ms, { workspace, close }] = await timed(() => openWorkspace(provider, branch))
    const bytes = await Effect.runPromise(workspace.read(file))
    if (Buffer.compare(expected, bytes) !== 0) faults.add("a workspace showed other bytes than its base")
    const fault = shortfall(workspace)
    if (fault !== undefined) faults.add(fault)
    await close()
    if (round < 0) continue
    open.push(ms)
    spawn.push(bare)
  }
  return { open, spawn, faults: [...faults] }
}

const main = async ([tree = "", store = "", rounds = ""]: readonly string[]): Promise<void> => {
  const samples = await withStore(store, async (provider) => {
    const receipt = await Effect.runPromise(provider.importDirectory({ source: tree }))
    return measureReady(provider, receipt.commit, tree, Number(rounds))
  })
  console.log(JSON.stringify(samples))
}

if (import.meta.main) await main(process.argv.slice(2))
