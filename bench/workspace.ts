/**
 * The area `workspace`: import, fork, ready, exec and checkpoint of the default provider, beside git, cp and bare yardsticks.
 * Promise: every row interleaves what it measures with its yardstick, checks the outcome before a time counts, and reports
 * raw figures. Rules: workspaces.md, "Figures"; L1, L2, W8, W17.
 */
import { statSync } from "node:fs"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { ImportReceipt, OpenOptions, WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { checkpointRows, forkFromCheckpointRow } from "./checkpoints.ts"
import { census, differences } from "./compare.ts"
import { demoRow } from "./demo.ts"
import { eventLoopRow, peakMemoryRow } from "./import-load.ts"
import type { BenchOptions } from "./main.ts"
import { bareCommit, command, interleave, spawnTrue, timed, withScratch } from "./measure.ts"
import { readyAsOrdinaryUser } from "./ordinary-user.ts"
import { parallelRow } from "./parallel.ts"
import { peersOf } from "./peers.ts"
import { forkOf, openWorkspace, shortfall, withStore } from "./provider.ts"
import { measureReady, type ReadySamples } from "./ready.ts"
import { rerunRow } from "./rerun.ts"
import { type AreaResult, figures, rate, type Row, type Skipped } from "./report.ts"
import { generateTree } from "./tree.ts"

/** The rows, in the order in which they are measured. */
export const rowIds = [
  "demo.seconds",
  "rerun.afterKill",
  "import.seconds",
  "store.bytes",
  "import.eventLoopDelay",
  "import.peakMemory",
  "fork.overBareCommit",
  "ready.cached.root",
  "ready.cached.user",
  "exec.overhead",
  "checkpoint.empty",
  "checkpoint.tenEdits",
  "fork.fromCheckpoint.ready",
  "parallel.32"
] as const

type RowId = (typeof rowIds)[number]

export const spawnName = "spawn of true"
export const commitName = "bare durable one-row SQLite commit"

/** What a row needs: the tree, the open store that holds it, and scratch space on the same file system. */
export interface Bench {
  readonly options: BenchOptions
  readonly scratch: string
  readonly source: string
  readonly provider: WorkspaceProvider
  readonly base: ImportReceipt
}

/** Correct, and a sentence for the note when it is not. */
export const verdict = (faults: Iterable<string>): { readonly correct: boolean; readonly note: string } => {
  const list = [...faults]
  return { correct: list.length === 0, note: list.join("; ") }
}

export const joined = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("; ")

/** What a store costs: its index and its packs. The cache and the work directories can be rebuilt from these. */
const storeBytes = (store: string): number => {
  const size = (name: string): number => statSync(join(store, "layerfs", name), { throwIfNoEntry: false })?.size ?? 0
  return census(join(store, "layerfs", "packs")).bytes + size("index.db") + size("index.db-wal")
}

/** Imports the tree `runs` times into fresh stores, in turn with `git add -A`, `cp -a` and the peers on the same tree. */
const importRows = async (
  options: BenchOptions,
  scratch: string,
  source: string,
  store: string
): Promise<{
  readonly rows: readonly Row[]
  readonly base: ImportReceipt | undefined
  readonly missing: readonly string[]
}> => {
  const expected = census(source)
  const seconds = { ours: [] as number[], git: [] as number[], cp: [] as number[] }
  const faults = new Set<string>()
  let stored = 0
  let base: ImportReceipt | undefined
  let gitStored = 0

  const ours = async (round: number): Promise<void> => {
    // The last round's store stays: the other rows use it.
    const place = round === options.runs - 1 ? store : join(scratch, `store-${round}`)
    await withStore(place, async (provider) => {
      await command(["sync"])
      const [ms, receipt] = await timed(() => Effect.runPromise(provider.importDirectory({ source })))
      seconds.ours.push(ms / 1000)
      base = receipt
      if (
        receipt.files !== expected.files ||
        receipt.symlinks !== expected.symlinks ||
        receipt.bytes !== expected.bytes
      ) {
        faults.add("the receipt does not count what lies in the source")
      }
      if (round === 0) {
        const exported = join(scratch, "exported")
        await Effect.runPromise(provider.exportDirectory(receipt.commit, exported))
        for (const difference of differences(source, exported)) faults.add(difference)
        await rm(exported, { recursive: true })
      }
    })
    stored = storeBytes(place)
    if (place !== store) await rm(place, { recursive: true })
  }
  const git = async (): Promise<void> => {
    const repository = join(scratch, "git")
    const at = [`--git-dir=${repository}`, `--work-tree=${source}`] as const
    await command(["git", "init", "-q", "--bare", repository])
    await command(["sync"])
    const [ms] = await timed(() => command(["git", ...at, "add", "-A", "-f", "."], source))
    seconds.git.push(ms / 1000)
    const listed = (await command(["git", ...at, "ls-files", "-z"], source)).split("\0").length - 1
    if (listed !== expected.files + expected.symlinks) faults.add("git did not store the whole tree")
    gitStored = census(repository).bytes
    await rm(repository, { recursive: true })
  }
  const cp = async (): Promise<void> => {
    await command(["sync"])
    const [ms] = await timed(() => command(["cp", "-a", source, join(scratch, "copy")]))
    seconds.cp.push(ms / 1000)
    await rm(join(scratch, "copy"), { recursive: true })
  }
  const others = await peersOf(source, scratch, options.seed)
  await interleave(options.runs, [ours, git, cp, ...others.runs.map(({ round }) => round)])

  const judged = verdict(faults)
  const rows: readonly Row[] = [
    {
      id: "import.seconds",
      unit: "s",
      ours: rate(seconds.ours, expected.files),
      yardstick: { name: "git add -A", ...rate(seconds.git, expected.files) },
      peers: {
        git: figures(seconds.git),
        cp: figures(seconds.cp),
        ...Object.fromEntries(
          others.runs.filter(({ seconds: took }) => took.length > 0).map((peer) => [peer.name, figures(peer.seconds)])
        )
      },
      correct: judged.correct,
      note: joined(
        `${expected.files} files, ${(expected.bytes / 1e6).toFixed(0)} MB, warm page cache; ours is durable (fsync), git and cp are not; perSecond counts files`,
        judged.note
      )
    },
    {
      id: "store.bytes",
      unit: "bytes",
      ours: figures([stored]),
      yardstick: { name: "git objects after git add -A", ...figures([gitStored]) },
      peers: { git: figures([gitStored]) },
      correct: judged.correct,
      note: `index and packs against git's whole directory, apparent sizes; ${(expected.bytes / 1e6).toFixed(0)} MB logical`
    }
  ]
  return { rows, base, missing: others.missing }
}

const forkRow = async ({ provider, base, scratch }: Bench): Promise<Row> => {
  const rounds = 200
  const yardstick = bareCommit(scratch)
  const ours: number[] = []
  const bare: number[] = []
  const faults = new Set<string>()
  const ids = new Set<string>()
  try {
    for (let round = -20; round < rounds; round++) {
      const commit = yardstick.commit()
      const [ms, branch] = await timed(() => Effect.runPromise(provider.fork(base.commit)))
      if (branch.head !== base.commit || branch.durability !== "full") faults.add("a fork stands on another commit")
      ids.add(branch.id)
      if (round < 0) continue
      ours.push(ms)
      bare.push(commit)
    }
  } finally {
    yardstick.close()
  }
  if (ids.size !== rounds + 20) faults.add("two forks share an id")
  for (const id of ids) {
    const read = await Effect.runPromise(provider.branch(id))
    if (read.head !== base.commit) faults.add("a fork reads back differently")
  }
  const [a, b] = [figures(ours), figures(bare)]
  const judged = verdict(faults)
  return {
    id: "fork.overBareCommit",
    unit: "ms",
    ours: a,
    yardstick: { name: commitName, ...b },
    peers: {},
    correct: judged.correct,
    note: joined(`p50 difference ${(a.p50 - b.p50).toFixed(3)} ms, interleaved`, judged.note)
  }
}

export const readyRow = (id: string, { open, spawn, faults }: ReadySamples, how = "base cached, overlay"): Row => {
  const judged = verdict(faults)
  return {
    id,
    unit: "ms",
    ours: figures(open),
    yardstick: { name: spawnName, ...figures(spawn) },
    peers: {},
    correct: judged.correct,
    note: joined(`from open to its answer, ${how}, isolation in force`, judged.note)
  }
}

/** With `residentShell` the commands go through one shell that stays. */
export const execRow = async (
  { provider, base }: Bench,
  id = "exec.overhead",
  options: Pick<OpenOptions, "residentShell"> = {}
): Promise<Row> => {
  const { workspace, close } = await openWorkspace(provider, await forkOf(provider, base.commit), options)
  const over: number[] = []
  const whole: number[] = []
  const bare: number[] = []
  const faults = new Set<string>()
  const fault = shortfall(workspace)
  if (fault !== undefined) faults.add(fault)
  try {
    for (let round = -3; round < 40; round++) {
      const spawn = await spawnTrue()
      const [ms, result] = await timed(() => Effect.runPromise(workspace.exec(["true"])))
      if (result.exitCode !== 0 || result.timedOut) faults.add("true did not exit with 0")
      if (round < 0) continue
      over.push(ms - spawn)
      whole.push(ms)
      bare.push(spawn)
    }
    const proof = await Effect.runPromise(workspace.exec("printf %s inside > .bench-exec && cat .bench-exec"))
    if (proof.stdout.text !== "inside") faults.add("exec did not run in the workspace")
    await Effect.runPromise(workspace.discard("bench"))
  } finally {
    await close()
  }
  const judged = verdict(faults)
  return {
    id,
    unit: "ms",
    ours: figures(over),
    yardstick: { name: spawnName, ...figures(bare) },
    peers: {},
    correct: judged.correct,
    note: joined(
      `exec of true minus the spawn beside it; the whole call took ${figures(whole).p50.toFixed(1)} ms`,
      judged.note
    )
  }
}

/** Every row of the area that `options.only` does not leave out. */
export const run = (options: BenchOptions): Promise<AreaResult> =>
  withScratch(async (scratch) => {
    const rows: Row[] = []
    const skipped: Skipped[] = []
    const wanted = (...ids: readonly RowId[]): boolean =>
      options.only === undefined || ids.some((id) => id.startsWith(options.only as string))
    const skip = (id: RowId, reason: string): void => {
      skipped.push({ id, reason })
    }
    /** Measures one row. What cannot be measured is named with its reason, never given a figure. */
    const row = async (id: RowId, measure: () => Promise<Row>): Promise<void> => {
      if (!wanted(id)) return
      options.progress(id)
      try {
        rows.push(await measure())
      } catch (error) {
        skip(id, String((error as Error).message).split("\n", 1)[0] ?? "")
      }
    }

    await row("demo.seconds", () => demoRow(options))
    await row("rerun.afterKill", () => rerunRow(options))

    const source = options.tree ?? join(scratch, "tree")
    if (options.tree === undefined) {
      options.progress(`tree of ${options.files} files, seed ${options.seed}`)
      generateTree(source, { seed: options.seed, files: options.files, bytes: options.bytes })
    }
    const store = join(scratch, "store")
    await mkdir(store, { mode: 0o700 })
    let receipt: ImportReceipt | undefined
    if (wanted("import.seconds", "store.bytes")) {
      options.progress("import.seconds, store.bytes")
      const imported = await importRows(options, scratch, source, store)
      rows.push(...imported.rows.filter((one) => wanted(one.id as RowId)))
      receipt = imported.base
      for (const reason of imported.missing) if (wanted("import.seconds")) skip("import.seconds", reason)
    }
    await row("import.eventLoopDelay", () => eventLoopRow(options, scratch, source))
    await row("import.peakMemory", () => peakMemoryRow(options, scratch))
    await withStore(store, async (provider) => {
      const base = receipt ?? (await Effect.runPromise(provider.importDirectory({ source })))
      const bench: Bench = { options, scratch, source, provider, base }
      const root = process.getuid?.() === 0
      await row("fork.overBareCommit", () => forkRow(bench))
      if (root) {
        await row("ready.cached.root", async () =>
          readyRow("ready.cached.root", await measureReady(provider, base.commit, source, 40))
        )
        await row("ready.cached.user", async () =>
          readyRow(
            "ready.cached.user",
            await readyAsOrdinaryUser({ root: options.root, scratch, tree: source, rounds: 40 })
          )
        )
      } else {
        if (wanted("ready.cached.root")) skip("ready.cached.root", "started as an ordinary user")
        await row("ready.cached.user", async () =>
          readyRow("ready.cached.user", await measureReady(provider, base.commit, source, 40))
        )
      }
      await row("exec.overhead", () => execRow(bench))
      for (const measure of checkpointRows(bench, commitName)) await row(measure.id, measure.run)
      await row("fork.fromCheckpoint.ready", () => forkFromCheckpointRow(bench, spawnName))
      await row("parallel.32", () => parallelRow(bench, commitName))
    })
    return { rows, skipped }
  })
