/**
 * The rows of a history of states: `history.committed`, `history.compacted`, `history.cost`, `history.read`, `compact.pause`, `compact.extra`.
 * Promise: git holds the very same states, each found equal file by file before a figure counts; git is fully repacked
 * (`repack -adf --depth=50 --window=50`), ours counts packs and index after the WAL is written back. Rules: 04 "Numbers"; L3, L8, L9.
 */
import { spawn } from "node:child_process"
import { readdirSync, readFileSync, statSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { FileOperation, WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { census } from "./compare.ts"
import { type LayerFsBench, storedBytes } from "./layerfs-scene.ts"
import { command, timed } from "./measure.ts"
import { withStore } from "./provider.ts"
import { generatedSteps, repositorySteps, type Step } from "./repository.ts"
import { figures, percentile, type Row } from "./report.ts"
import { verdict } from "./workspace.ts"

const states = 150
/** Of the generated repository's first state. */
const firstFiles = 2500
/** Files of each state that are read back, spread over its paths. */
const readBack = 3

const stepsOf = (bench: LayerFsBench): AsyncIterable<Step> | Iterable<Step> =>
  bench.options.repo === undefined
    ? generatedSteps(bench.options.seed, states, firstFiles)
    : repositorySteps(bench.options.repo, states)

/** A step as one batch of operations; a write makes the directories that it needs. */
const operationsOf = (step: Step): FileOperation[] => [
  ...step.removes.map((path) => ({ op: "remove" as const, path })),
  ...step.moves.map(({ from, to }) => ({ op: "move" as const, from, to })),
  ...[...step.writes].map(([path, bytes]) => ({ op: "write" as const, path, bytes }))
]

/** Leads `tree` one state on; gives the bytes of the files that changed. */
const advance = (tree: Map<string, Buffer>, step: Step): number => {
  for (const path of step.removes) tree.delete(path)
  for (const { from, to } of step.moves) {
    tree.set(to, tree.get(from) as Buffer)
    tree.delete(from)
  }
  for (const [path, bytes] of step.writes) tree.set(path, bytes)
  return [...step.writes.values()].reduce((sum, bytes) => sum + bytes.length, 0)
}

/** Feeds git's own bulk format (git-fast-import(1)); each state is one commit. */
const gitHistory = (repository: string) => {
  const child = spawn("git", ["fast-import", "--quiet"], { cwd: repository, stdio: ["pipe", "ignore", "inherit"] })
  const ended = new Promise<void>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`git fast-import ended with ${code}`))))
  })
  let n = 0
  const write = async (data: string | Buffer): Promise<void> => {
    if (!child.stdin.write(data)) await new Promise((resolve) => child.stdin.once("drain", resolve))
  }
  const quoted = (path: string): string => JSON.stringify(path)
  return {
    add: async (step: Step): Promise<void> => {
      await write(
        `commit refs/heads/main\nmark :${++n}\ncommitter bench <bench@localhost> ${1_700_000_000 + n} +0000\n`
      )
      await write(`data ${Buffer.byteLength(step.message)}\n${step.message}\n${n > 1 ? `from :${n - 1}\n` : ""}`)
      for (const path of step.removes) await write(`D ${quoted(path)}\n`)
      for (const { from, to } of step.moves) await write(`R ${quoted(from)} ${quoted(to)}\n`)
      for (const [path, bytes] of step.writes) {
        await write(`M 100644 inline ${quoted(path)}\ndata ${bytes.length}\n`)
        await write(bytes)
        await write("\n")
      }
      await write("\n")
    },
    end: (): Promise<void> => {
      child.stdin.end()
      return ended
    }
  }
}

/** Pack and its index; the reverse index and whatever else git may keep beside them are left out in its favour. */
const gitPacked = async (repository: string): Promise<number> => {
  const objects = join(repository, "objects", "pack")
  await command(["git", "repack", "-adf", "--depth=50", "--window=50", "-q"], repository)
  return readdirSync(objects)
    .filter((name) => /\.(pack|idx)$/.test(name))
    .reduce((sum, name) => sum + statSync(join(objects, name)).size, 0)
}

interface Sample {
  readonly commit: string
  readonly path: string
  readonly bytes: Buffer
}

interface Made {
  readonly states: number
  readonly head: string
  readonly seconds: number
  readonly logical: number
  /** New bytes of packs and bytes of changed files, a pair a commit. */
  readonly costs: readonly (readonly [stored: number, changed: number])[]
  readonly samples: readonly Sample[]
  readonly gitBytes: number
}

const packBytes = (store: string): number => census(join(store, "layerfs", "packs")).bytes

/** Puts the states into our store, one commit each, and the same into git. */
const make = async (bench: LayerFsBench, provider: WorkspaceProvider, store: string): Promise<Made> => {
  const repository = join(bench.scratch, "history.git")
  await command(["git", "init", "-q", "--bare", "--initial-branch=main", repository])
  const git = gitHistory(repository)
  const { layer } = await Effect.runPromise(provider.createEmpty({ name: "history" }))
  const branch = (await Effect.runPromise(provider.fork(layer))).id
  const tree = new Map<string, Buffer>()
  const costs: (readonly [number, number])[] = []
  const samples: Sample[] = []
  let [seconds, logical, head, n] = [0, 0, "", 0]
  for await (const found of stepsOf(bench)) {
    const step = { ...found, removes: found.removes.filter((path) => tree.has(path)) }
    const before = packBytes(store)
    const [ms, outcome] = await bench.delay.timed(
      provider.applyTo(branch, operationsOf(step), { message: step.message })
    )
    const changed = advance(tree, step)
    await git.add(step)
    if (outcome.outcome === "committed") costs.push([packBytes(store) - before, changed])
    seconds += ms / 1000
    head = outcome.commit
    for (const bytes of tree.values()) logical += bytes.length
    const paths = [...tree.keys()]
    for (let i = 0; i < readBack; i++) {
      const path = paths[(n * 7919 + i * 104_729) % paths.length] as string
      samples.push({ commit: head, path, bytes: tree.get(path) as Buffer })
    }
    n += 1
  }
  await git.end()
  const exported = join(bench.scratch, "history-head")
  await Effect.runPromise(provider.exportDirectory(head, exported))
  const work = join(bench.scratch, "history-git")
  await command(["git", "clone", "-q", "--branch", "main", repository, work])
  await rm(join(work, ".git"), { recursive: true })
  for (const [path, bytes] of tree) {
    for (const root of [exported, work]) {
      if (!readFileSync(join(root, path)).equals(bytes)) throw new Error(`${path} of the last state differs`)
    }
  }
  if (census(exported).files !== tree.size || census(work).files !== tree.size)
    throw new Error("the last state holds other files")
  for (const directory of [exported, work]) await rm(directory, { recursive: true })
  const gitBytes = await gitPacked(repository)
  await rm(repository, { recursive: true })
  return { states: n, head, seconds, logical, costs, samples, gitBytes }
}

/** Bytes in packs for each byte of a changed file, over some commits. */
const costOf = (costs: Made["costs"]): number =>
  costs.reduce((sum, [stored]) => sum + stored, 0) / costs.reduce((sum, [, changed]) => sum + changed, 0)

/** Milliseconds to read each sample; those that give other bytes are faults. */
const readAll = async (bench: LayerFsBench, store: string, samples: readonly Sample[], faults: Set<string>) => {
  const ms: number[] = []
  await withStore(store, async (provider) => {
    // Old and new in turn, so that no chain of versions is walked from one to the next.
    const order = samples.map((_, n) => samples[(n * 211) % samples.length] as Sample)
    for (const { commit, path, bytes } of order) {
      const [took, read] = await bench.delay.timed(provider.readAt(commit, path))
      if (!bytes.equals(read)) faults.add("a file of an older state reads back differently")
      ms.push(took)
    }
  })
  return ms
}

export const historyRows = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const store = join(bench.scratch, "history-store")
  const faults = new Set<string>()
  const made = await withStore(store, (provider) => make(bench, provider, store))
  const committed = storedBytes(store)
  const readCommitted = await readAll(bench, store, made.samples, faults)
  // Commits beside a compaction would weigh in its result: they run on a copy.
  const copy = join(bench.scratch, "history-copy")
  await command(["cp", "-a", store, copy])
  const beside = await compactBeside(bench, copy, made.head)
  await rm(copy, { recursive: true })
  for (const fault of beside.faults) faults.add(fault)
  await withStore(store, async (provider) => {
    const report = await Effect.runPromise(provider.compact())
    if (!report.complete) faults.add("the compaction did not end")
    if (!(await Effect.runPromise(provider.verify())).ok) faults.add("objects are damaged after the compaction")
  })
  const compacted = storedBytes(store)
  const readCompacted = await readAll(bench, store, made.samples, faults)
  await rm(store, { recursive: true })

  const judged = verdict(faults)
  const yardstick = { name: "git repack -adf --depth=50 --window=50", ...figures([made.gitBytes]) }
  // The first commit fills the tree: it is no edit.
  const edits = made.costs.slice(1)
  const third = Math.floor(edits.length / 3)
  const size = `${made.states} states, ${(made.logical / 1e6).toFixed(0)} MB logical`
  const parts = ({ packs, index }: typeof committed): string =>
    `packs ${(packs / 1e6).toFixed(2)} MB, index ${(index / 1e6).toFixed(2)} MB`
  const bytes = (id: string, stored: typeof committed): Row => ({
    id,
    unit: "bytes",
    ours: figures([stored.all]),
    yardstick,
    peers: {},
    correct: judged.correct,
    note: [size, parts(stored), judged.note].filter((part) => part !== "").join("; ")
  })
  return [
    bytes("history.committed", committed),
    bytes("history.compacted", compacted),
    {
      id: "history.cost",
      unit: "bytes",
      ours: figures([costOf(edits.slice(-third))]),
      yardstick: { name: "the first third of the edits", ...figures([costOf(edits.slice(0, third))]) },
      peers: {},
      correct: judged.correct,
      note: `bytes in packs for each byte of a changed file, last third; ${made.seconds.toFixed(1)} s for all commits`
    },
    {
      id: "history.read",
      unit: "ms",
      ours: figures(readCompacted),
      yardstick: { name: "before the compaction", ...figures(readCommitted) },
      peers: {},
      correct: judged.correct,
      note: `one file of any state, after the compaction; the slowest ${Math.max(...readCompacted).toFixed(1)} ms, before it ${Math.max(...readCommitted).toFixed(1)} ms`
    },
    ...beside.rows.map((row) => ({ ...row, correct: judged.correct }))
  ]
}

/** Compacts while small calls and commits go on beside it. */
const compactBeside = async (
  bench: LayerFsBench,
  store: string,
  head: string
): Promise<{ readonly rows: readonly Row[]; readonly faults: readonly string[] }> => {
  const faults: string[] = []
  const beside: number[] = []
  const idle: number[] = []
  let peak = 0
  let seconds = 0
  let before = 0
  await withStore(store, async (provider) => {
    const branch = (await Effect.runPromise(provider.fork(head))).id
    let n = 0
    const call = async (into: number[]): Promise<void> => {
      const [ms, outcome] = await timed(() =>
        Effect.runPromise(provider.applyTo(branch, [{ op: "write", path: "beside", bytes: `commit ${n++}` }]))
      )
      if (outcome.outcome !== "committed") faults.push("a commit beside the compaction was lost")
      into.push(ms)
    }
    for (let i = 0; i < 100; i++) await call(idle)
    before = packBytes(store)
    const state = { done: false }
    const compaction = bench.delay.timed(provider.compact()).finally(() => {
      state.done = true
    })
    while (!state.done) {
      await call(beside)
      peak = Math.max(peak, packBytes(store))
    }
    const [ms, compacted] = await compaction
    seconds = ms / 1000
    if (!compacted.complete) faults.push("the compaction did not end")
    const report = await Effect.runPromise(provider.verify())
    if (!report.ok) faults.push("objects are damaged after the compaction")
    const last = Buffer.from(await Effect.runPromise(provider.readAt(branch, "beside"))).toString()
    if (last !== `commit ${n - 1}`) faults.push("the last commit beside the compaction reads back differently")
  })
  return {
    faults,
    rows: [
      {
        id: "compact.pause",
        unit: "ms",
        ours: figures(beside),
        yardstick: { name: "the same commits before it", ...figures(idle) },
        peers: {},
        correct: faults.length === 0,
        note: `commits one after the other while a compaction of ${seconds.toFixed(1)} s goes on; p99 beyond that before it ${(percentile(beside, 0.99) - percentile(idle, 0.99)).toFixed(1)} ms`
      },
      {
        id: "compact.extra",
        unit: "bytes",
        ours: figures([Math.max(0, peak - before)]),
        yardstick: { name: "5 % of the packs before it", ...figures([Math.round(before * 0.05)]) },
        peers: {},
        correct: faults.length === 0,
        note: "packs at their largest meanwhile, beyond what they were; the bar is the larger of that and one pack, 512 MiB"
      }
    ]
  }
}
