/**
 * The area `projections`: how soon a workspace is there, what a command costs, how fast programs run inside, and one script over every
 * provider. Promise: as the area `workspace`; what this machine or this build cannot do is skipped with its reason. Rules: workspaces.md,
 * "Figures"; L1, L2, W17, E19, C7.
 */
import { mkdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openLayerFs } from "../providers/layerfs/index.ts"
import { cachedTree } from "./cached-tree.ts"
import { insideIds, insideRows } from "./inside.ts"
import { lazyIds, lazyRows } from "./lazy.ts"
import type { BenchOptions } from "./main.ts"
import { command, withScratch } from "./measure.ts"
import { readyAsOrdinaryUser, readyOfBuild } from "./ordinary-user.ts"
import { parallelRow } from "./parallel.ts"
import { withProvider, withStore } from "./provider.ts"
import { measureReady, poolFull } from "./ready.ts"
import { replayIds, replayRows } from "./replay.ts"
import { type AreaResult, type Row, rowLine, type Skipped } from "./report.ts"
import { fullSize } from "./tree.ts"
import { type Bench, commitName, execRow, readyRow } from "./workspace.ts"

const readySizes = ["100", "100k"] as const
const readyIds = readySizes.flatMap((size) => [`ready.cached.root.${size}`, `ready.cached.user.${size}`])

const readyLazyIds = ["ready.lazy.root.100k", "ready.lazy.user.100k", "ready.lazy.pool.100k"] as const

/** The rows, in the order in which they are measured. */
export const rowIds = [
  ...readyIds,
  "ready.pool.100k",
  ...readyLazyIds,
  "exec.overhead",
  "exec.resident",
  "parallel.32",
  ...insideIds,
  ...lazyIds,
  ...replayIds
]

const rounds = 40

/** 100 files of 20 KB; 100,000 of 2 KB, or as many as were asked for. */
const treeFor = (size: (typeof readySizes)[number], options: BenchOptions): string => {
  const asked = options.files === fullSize.files ? 100_000 : options.files
  const files = size === "100" ? Math.min(100, asked) : asked
  const bytes = size === "100" ? 2e6 : Math.max(1e6, files * 2000)
  return cachedTree(options.root, { seed: options.seed, files, bytes }, options.progress)
}

/** From a pool that is full again before each opening. */
const poolRow = (store: string, source: string): Promise<Row> =>
  withProvider(openLayerFs({ store, warmPool: 2 }), async (provider) => {
    const { commit } = await Effect.runPromise(provider.importDirectory({ source }))
    return readyRow("ready.pool.100k", await measureReady(provider, commit, source, rounds, poolFull(provider)))
  })

const served = "base served from the store and never written out"

/** As root by a thread, as an ordinary user by a process, which stands ready in the third row. */
const readyLazyRows = async (
  at: { readonly root: string; readonly scratch: string; readonly tree: string },
  row: (id: string, measure: () => Promise<Row>) => Promise<void>
): Promise<void> => {
  const [asRoot, asUser, pooled] = readyLazyIds
  await row(asRoot, async () => readyRow(asRoot, await readyOfBuild({ ...at, rounds, way: "lazy" }), served))
  for (const [id, way] of [
    [asUser, "lazy"],
    [pooled, "pool"]
  ] as const) {
    await row(id, async () =>
      readyRow(id, await readyAsOrdinaryUser({ ...at, rounds, way }), `${served}, as an ordinary user`)
    )
  }
}

/** Every row of the area that `options.only` does not leave out. */
export const run = (options: BenchOptions): Promise<AreaResult> =>
  withScratch(async (scratch) => {
    const rows: Row[] = []
    const skipped: Skipped[] = []
    const wanted = (id: string): boolean => options.only === undefined || id.startsWith(options.only)
    const skip = (id: string, reason: string): void => {
      if (wanted(id)) skipped.push({ id, reason })
    }
    const row = async (id: string, measure: () => Promise<Row>): Promise<void> => {
      if (!wanted(id)) return
      options.progress(id)
      try {
        const measured = await measure()
        rows.push(measured)
        options.progress(rowLine(measured))
      } catch (error) {
        skip(id, String((error as Error).message).split("\n", 1)[0] ?? "")
      }
    }
    const isRoot = process.getuid?.() === 0

    for (const size of readySizes) {
      const [asRoot, asUser] = [`ready.cached.root.${size}`, `ready.cached.user.${size}`]
      const shared = size === "100k" ? ["ready.pool.100k", "exec.overhead", "exec.resident", "parallel.32"] : []
      const lazy = size === "100k" ? readyLazyIds : []
      if (![asRoot, asUser, ...shared, ...lazy].some(wanted)) continue
      const place = join(scratch, size)
      mkdirSync(place)
      // An ordinary user may not be able to get to where the tree is kept.
      const source = join(place, "tree")
      await command(["cp", "-a", options.tree ?? treeFor(size, options), source])
      if ([asRoot, ...shared].some(wanted) || !isRoot) {
        await withStore(join(place, "store"), async (provider) => {
          const base = await Effect.runPromise(provider.importDirectory({ source }))
          const own = isRoot ? asRoot : asUser
          await row(own, async () => readyRow(own, await measureReady(provider, base.commit, source, rounds)))
          if (!isRoot) skip(asRoot, "started as an ordinary user")
          if (size === "100") return
          const bench: Bench = { options, scratch, source, provider, base }
          await row("exec.overhead", () => execRow(bench))
          await row("exec.resident", () => execRow(bench, "exec.resident", { residentShell: true }))
          await row("parallel.32", () => parallelRow(bench, commitName))
        })
      }
      if (size === "100k") await row("ready.pool.100k", () => poolRow(join(place, "store"), source))
      if (lazy.some(wanted)) {
        if (isRoot) await readyLazyRows({ root: options.root, scratch: place, tree: source }, row)
        else for (const id of lazy) skip(id, "started as an ordinary user")
      }
      if (isRoot) {
        const input = { root: options.root, scratch: place, tree: source, rounds }
        await row(asUser, async () => readyRow(asUser, await readyAsOrdinaryUser(input)))
      }
      rmSync(place, { recursive: true, force: true })
    }
    await insideRows(options, scratch, row)
    await lazyRows(options, scratch, row)
    if (replayIds.some(wanted)) {
      const replay = await replayRows(options, scratch)
      rows.push(...replay.rows)
      skipped.push(...replay.skipped)
    }
    return { rows, skipped }
  })
