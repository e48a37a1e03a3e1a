/**
 * The area `governance`: claims and settlements beside bare `node:sqlite`, the event loop under foreign writers, a large store.
 * Promise: at `synchronous=FULL`; the yardstick executes the same statements, taken down from the authority itself, in turn with
 * what it is held against; what was written is counted and verified before a time counts. Rules: governance.md, "Figures"; G3, G4, G22.
 */
import { spawn } from "node:child_process"
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { openAuthority } from "../providers/authority-sqlite/index.ts"
import { Todos } from "../src/governance/index.ts"
import { largeRows } from "./governance-large.ts"
import { callsOf, type Kind, makeScene, runIn, type Scene } from "./governance-scene.ts"
import type { BenchOptions } from "./main.ts"
import { command, timed, withScratch } from "./measure.ts"
import { type AreaResult, figures, percentile, type Row, type Skipped } from "./report.ts"
import { bare, recording } from "./statements.ts"
import { verdict } from "./workspace.ts"

/** The rows, in the order in which they are measured. */
export const rowIds = [
  "claim.one",
  "settle.one",
  "claim.64",
  "settle.64",
  "eventLoopDelay",
  "open.large",
  "nextWork.large",
  "verify.rate"
] as const

/**
 * Commands before anything counts: a host lives for hours, and the engine compiles what ran some hundred times. Both sides run
 * them; the note says what the share was while ours was still interpreted.
 */
const warmUpCommands = 400

const yardstickName = "bare node:sqlite, same statements"

/** Head and length of a journal: two stores with the same head hold the same history. */
const headOf = (directory: string): { readonly seq: number; readonly hash: string } => {
  const db = new DatabaseSync(join(directory, "authority.db"), { readOnly: true })
  const found = db.prepare("SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1").get() as {
    seq: number
    hash: string
  }
  db.close()
  return { ...found }
}

/** Fsyncs of a process that does all commands of the scene, counted by strace(1); null where there is no strace. */
const countedFsyncs = async (
  options: BenchOptions,
  scratch: string,
  scene: Scene,
  kind: Kind,
  directory: string
): Promise<{ readonly commands: number; readonly fsyncs: number } | null> => {
  const file = join(scratch, "scene.json")
  const trace = join(scratch, "fsyncs.txt")
  writeFileSync(file, JSON.stringify(scene))
  const program = join(options.root, "bench", "governance-fsyncs.ts")
  const strace = ["strace", "-f", "-ttt", "--seccomp-bpf", "-e", "trace=fsync,fdatasync", "-o", trace] as const
  try {
    const told = await command([...strace, process.execPath, program, directory, file, kind])
    const { commands, from, to } = JSON.parse(told) as { commands: number; from: number; to: number }
    const fsyncs = readFileSync(trace, "utf8")
      .split("\n")
      .filter((line) => {
        const [, seconds = ""] = /^\d+\s+(\d+\.\d+)\s+f(?:data)?sync\(/.exec(line) ?? []
        return Number(seconds) * 1000 >= from && Number(seconds) * 1000 <= to
      }).length
    return { commands, fsyncs }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null
    throw error
  }
}

/** `kind` by one caller, or by 64 at once, against the same statements: `units` groups of `size` commands. */
const againstBare = async (
  options: BenchOptions,
  scratch: string,
  kind: Kind,
  size: 1 | 64,
  units: number
): Promise<Row> => {
  const id = `${kind}.${size === 1 ? "one" : "64"}`
  const warmUp = Math.max(Math.ceil(warmUpCommands / size), Math.ceil(units / 10))
  const total = (units + warmUp) * size
  options.progress(`${id}: a store for ${total} commands`)
  const place = (name: string): string => join(scratch, `${id}-${name}`)
  // One command more than is measured: the counting of fsyncs spends it before it begins.
  const scene = await makeScene(place("made"), kind === "claim" ? total + 1 : 0, kind === "settle" ? total + 1 : 0)
  const copy = (name: string): string => {
    cpSync(place("made"), place(name), { recursive: true })
    return place(name)
  }
  const groups = Array.from({ length: units + warmUp }, (_, unit) =>
    callsOf(scene, kind).slice(unit * size, (unit + 1) * size)
  )
  const faults = new Set<string>()

  const taken = await recording(join(copy("recorded"), "authority.db"))
  for (const group of groups) await Promise.all(group.map(runIn(taken.store)))
  const transactions = taken.transactions()
  await taken.store.close()
  if (transactions.length !== groups.length) faults.add("the recording has another number of transactions")

  const store = await openAuthority({ directory: copy("ours") })
  const run = runIn(store)
  const yardstick = bare(join(copy("bare"), "authority.db"), transactions)
  const ours: number[] = []
  const theirs: number[] = []
  const early: number[] = []
  const done = new Set<string | undefined>()
  try {
    for (const [number, group] of groups.entries()) {
      const [ms, got] = await timed(() => Promise.all(group.map(run)))
      const bareMs = yardstick.run(transactions[number]!)
      for (const one of got) done.add(one)
      if (number < warmUp) {
        if (number < warmUp / 4) early.push(bareMs / ms)
        continue
      }
      ours.push(ms)
      theirs.push(bareMs)
    }
    if (done.has(undefined) || done.size !== total) faults.add(`${done.size} of ${total} commands took effect once`)
    if (!(await store.verify()).ok) faults.add("the journal does not verify")
  } finally {
    await store.close()
    yardstick.close()
  }
  const [recorded, replayed, written] = ["recorded", "bare", "ours"].map((name) => headOf(place(name)))
  if (recorded!.hash !== replayed!.hash) faults.add("the yardstick wrote another history")
  if (written!.seq !== recorded!.seq) faults.add("the yardstick wrote another number of facts")

  const counted = size === 1 ? null : await countedFsyncs(options, scratch, scene, kind, copy("counted"))
  const sum = (samples: readonly number[]): number => samples.reduce((a, b) => a + b, 0)
  const perSecond = (samples: readonly number[]): number =>
    Number(((1000 * size * samples.length) / sum(samples)).toPrecision(6))
  const ratios = ours.map((ms, index) => theirs[index]! / ms)
  const judged = verdict(faults)
  return {
    id,
    unit: "ms",
    ours: {
      ...figures(ours),
      perSecond: perSecond(ours),
      ...(counted === null ? {} : { commandsPerFsync: Number((counted.commands / counted.fsyncs).toPrecision(4)) })
    },
    yardstick: {
      name: size === 1 ? yardstickName : `${yardstickName}, 64 a transaction with a savepoint each`,
      ...figures(theirs),
      perSecond: perSecond(theirs),
      ...(size === 1 ? {} : { commandsPerFsync: 64 })
    },
    peers: {},
    correct: judged.correct,
    note: [
      `${size === 1 ? "one caller" : "64 callers at once, until the last is answered"}; ${transactions[warmUp]?.length ?? 0} statements a transaction; ` +
        `speed against the yardstick: ${(perSecond(ours) / perSecond(theirs)).toFixed(2)} in all, ${percentile(ratios, 0.5).toFixed(2)} at the median of pairs, ` +
        `after ${warmUp * size} commands (${percentile(early, 0.5).toFixed(2)} over the first ${early.length * size})`,
      ...(size === 1
        ? []
        : [
            counted === null
              ? "fsyncs not counted: no strace"
              : `${counted.fsyncs} fsyncs for ${counted.commands} commands, counted by strace`
          ]),
      judged.note
    ]
      .filter((part) => part !== "")
      .join("; ")
  }
}

const writers = 3

/** How late timers fire in a process with 64 callers in flight, while three other processes write the same file. */
const eventLoopRow = async (options: BenchOptions, scratch: string): Promise<Row> => {
  const directory = join(scratch, "event-loop")
  const { goal } = await makeScene(directory, 64, 0)
  const program = join(options.root, "bench", "governance-writer.ts")
  const children = Array.from({ length: writers }, () =>
    spawn(process.execPath, [program, directory, goal], { stdio: ["ignore", "pipe", "inherit"] })
  )
  const faults = new Set<string>()
  const store = await openAuthority({ directory })
  const run = runIn(store)
  let commands = 0
  const seconds = Math.max(2, options.runs)
  const histogram = monitorEventLoopDelay({ resolution: 1 })
  try {
    await Promise.all(children.map((child) => new Promise((resolve) => child.stdout.once("data", resolve))))
    const before = headOf(directory).seq
    const until = performance.now() + seconds * 1000
    const caller = async (): Promise<void> => {
      while (performance.now() < until) {
        await run(Effect.andThen(Todos.add({ goal, title: "Written here" }), Todos.nextWork({ goal, agent: "ada" })))
        commands += 2
      }
    }
    histogram.enable()
    await Promise.all(Array.from({ length: 64 }, caller))
    histogram.disable()
    const theirs = headOf(directory).seq - before - commands
    if (theirs < writers) faults.add("the other processes hardly wrote")
  } finally {
    const ended = children.map((child) => new Promise((resolve) => child.once("exit", resolve)))
    for (const child of children) child.kill("SIGKILL")
    await Promise.all(ended)
  }
  if (!(await store.verify()).ok) faults.add("the journal does not verify")
  await store.close()
  const ms = (share: number): number => Number((histogram.percentile(share) / 1e6).toPrecision(6))
  const judged = verdict(faults)
  return {
    id: "eventLoopDelay",
    unit: "ms",
    ours: { p50: ms(50), p99: ms(99), n: histogram.count, perSecond: Number((commands / seconds).toPrecision(4)) },
    yardstick: null,
    peers: {},
    correct: judged.correct,
    note: [
      `64 callers adding and claiming for ${seconds} s, ${writers} other processes writing the same file; how late a timer of 1 ms fires`,
      judged.note
    ]
      .filter((part) => part !== "")
      .join("; ")
  }
}

/** Measures the rows whose ids start with `only`, or all. */
export const run = (options: BenchOptions): Promise<AreaResult> =>
  withScratch(async (scratch) => {
    const rows: Row[] = []
    const skipped: Skipped[] = []
    const wanted = (id: string): boolean => options.only === undefined || id.startsWith(options.only)
    const one = 40 * options.runs
    const many = 4 * options.runs
    for (const [kind, size] of [
      ["claim", 1],
      ["settle", 1],
      ["claim", 64],
      ["settle", 64]
    ] as const) {
      const id = `${kind}.${size === 1 ? "one" : "64"}`
      if (!wanted(id)) continue
      mkdirSync(join(scratch, id))
      rows.push(await againstBare(options, join(scratch, id), kind, size, size === 1 ? one : many))
    }
    if (wanted("eventLoopDelay")) rows.push(await eventLoopRow(options, scratch))
    if (rowIds.slice(5).some(wanted)) rows.push(...(await largeRows(options, scratch, wanted)))
    return { rows, skipped }
  })
