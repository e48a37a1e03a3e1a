/**
 * The rows `inside.*`: the same command in a workspace and in a plain copy of its tree, in turn.
 * Promise: the command's own time, taken where it runs, so that the start of a command is in neither; both sides print the same. Rules: workspaces.md, "Figures";
 * C7, W4, W17.
 */
import { rmSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { Projection, Workspace } from "../src/workspace/WorkspaceProvider.ts"
import { npmTree, projectTree } from "./inside-trees.ts"
import type { BenchOptions } from "./main.ts"
import { command } from "./measure.ts"
import { forkOf, openWorkspace, shortfall, withStore } from "./provider.ts"
import { figures, type Row } from "./report.ts"
import { joined, verdict } from "./workspace.ts"

/** Microseconds of the command in `$1`, then what it printed. */
const clock = `s=\${EPOCHREALTIME/[.,]/}; said=$(eval "$1" 2>&1); code=$?; e=\${EPOCHREALTIME/[.,]/}; echo $((e - s)); echo $code; echo "$said"`

interface Ran {
  readonly ms: number
  readonly code: number
  readonly said: string
}

const read = (text: string): Ran => {
  const [us = "", code = "", ...said] = text.split("\n")
  return { ms: Number(us) / 1000, code: Number(code), said: said.join("\n") }
}

export const outside = async (at: string, text: string): Promise<Ran> =>
  read(await command(["bash", "-c", clock, "bash", text], at))

export const inside = async (workspace: Workspace, text: string): Promise<Ran> => {
  const { stdout, stderr, exitCode } = await Effect.runPromise(workspace.exec(["bash", "-c", clock, "bash", text]))
  if (exitCode !== 0) throw new Error(`bash ended with ${exitCode} inside: ${stderr.text.split("\\n", 1)[0]}`)
  return read(stdout.text)
}

interface Task {
  readonly id: string
  /** Run at the root of the tree. */
  readonly text: string
  /** Run before each time that counts. */
  readonly before?: string
  readonly note: string
  /** What both sides must print alike; by default everything. */
  readonly same?: (said: string) => string
  /** The milliseconds that count, where the command takes them itself. */
  readonly own?: (said: string) => number
}

/** The second and later runs: what is read lies in the page cache on both sides. */
export const measure = async (
  task: Task,
  workspace: Workspace,
  plain: string,
  rounds: number,
  projection: Projection = "overlay"
): Promise<Row> => {
  const ours: number[] = []
  const bare: number[] = []
  const faults = new Set<string>()
  const fault = shortfall(workspace, projection)
  if (fault !== undefined) faults.add(fault)
  const { same = (said: string) => said, before } = task
  for (let round = -1; round < rounds; round++) {
    if (before !== undefined) {
      await outside(plain, before)
      await inside(workspace, before)
    }
    const there = await outside(plain, task.text)
    const here = await inside(workspace, task.text)
    if (there.code !== 0) throw new Error(`outside it ended with ${there.code}: ${there.said.slice(0, 200)}`)
    if (here.code !== there.code) faults.add(`inside it ended with ${here.code}: ${here.said.slice(0, 200)}`)
    else if (same(here.said) !== same(there.said))
      faults.add(`it printed something else inside: ${same(here.said).slice(0, 200)}`)
    if (round < 0) continue
    ours.push(task.own === undefined ? here.ms : task.own(here.said))
    bare.push(task.own === undefined ? there.ms : task.own(there.said))
  }
  const { correct, note } = verdict(faults)
  return {
    id: task.id,
    unit: "ms",
    ours: figures(ours),
    yardstick: { name: "the same in a plain directory", ...figures(bare) },
    peers: {},
    correct,
    note: joined(task.note, note)
  }
}

const ownOf = (said: string) => JSON.parse(said) as { readonly ms: number; readonly digest: string }

export const checkProject = "node_modules/@typescript/typescript-*/lib/tsc --noEmit -p ."

const projectTasks: readonly Task[] = [
  {
    id: "inside.tsc",
    text: checkProject,
    note: "tsc --noEmit of this project's sources, page cache warm"
  },
  { id: "inside.gitStatus", text: "git status --porcelain", note: "page cache warm; the index is that of the base" },
  { id: "inside.tarRead", text: "tar cf - . | wc -c > /dev/null", note: "every file read, page cache warm" },
  {
    id: "inside.scaffold",
    text: "node scaffold.mjs scaffolded",
    same: (said) => ownOf(said).digest,
    own: (said) => ownOf(said).ms,
    note: "4,500 creates, 2,500 mkdirs, 19,500 lstats, 2,600 readdirs (C7)"
  }
]

const npmCi = "npm ci --offline --cache .npm-cache --ignore-scripts --no-audit --no-fund --no-update-notifier"
const counted = `${npmCi} > /dev/null && find node_modules -type f | wc -l`

const emptyTasks: readonly Task[] = [
  {
    id: "inside.npmCi.empty",
    before: "rm -rf node_modules",
    text: counted,
    note: "npm ci from a warm cache into a tree whose base has no node_modules"
  }
]
const overTasks: readonly Task[] = [
  { id: "inside.npmCi.over", text: counted, note: "npm ci from a warm cache over an installed node_modules" }
]

export const insideIds = [...projectTasks, ...emptyTasks, ...overTasks].map(({ id }) => id)

type Measure = (id: string, row: () => Promise<Row>) => Promise<void>

/** Each task in a workspace of its own, so that what one leaves weighs on no other; all on one plain copy. */
const each = async (
  options: BenchOptions,
  at: { readonly scratch: string; readonly name: string; readonly make: (target: string) => Promise<void> },
  tasks: readonly Task[],
  row: Measure
): Promise<void> => {
  const wanted = tasks.filter(({ id }) => options.only === undefined || id.startsWith(options.only))
  if (wanted.length === 0) return
  const source = join(at.scratch, `${at.name}-source`)
  const plain = join(at.scratch, `${at.name}-plain`)
  let failed: unknown
  await at.make(source).catch((error: unknown) => (failed = error))
  const fail = async () => {
    for (const { id } of wanted) await row(id, () => Promise.reject(failed as Error))
  }
  if (failed !== undefined) return fail()
  await command(["cp", "-a", source, plain])
  await withStore(join(at.scratch, `${at.name}-store`), async (provider) => {
    const { commit } = await Effect.runPromise(provider.importDirectory({ source }))
    for (const task of wanted) {
      await row(task.id, async () => {
        const { workspace, close } = await openWorkspace(provider, await forkOf(provider, commit))
        try {
          return await measure(task, workspace, plain, options.runs)
        } finally {
          await Effect.runPromise(workspace.discard("bench"))
          await close()
        }
      })
    }
  })
  for (const path of [source, plain]) rmSync(path, { recursive: true, force: true })
}

export const insideRows = async (options: BenchOptions, scratch: string, row: Measure): Promise<void> => {
  const project = { scratch, name: "project", make: (target: string) => projectTree(options.root, target) }
  await each(options, project, projectTasks, row)
  const template = join(scratch, "npm-template")
  let made: Promise<void> | undefined
  const npm = (name: string, extra: (target: string) => void) => ({
    scratch,
    name,
    make: async (target: string) => {
      await (made ??= npmTree(options.root, template))
      await command(["cp", "-a", template, target])
      extra(target)
    }
  })
  const without = (target: string) => rmSync(join(target, "node_modules"), { recursive: true })
  await each(options, npm("npm-empty", without), emptyTasks, row)
  await each(
    options,
    npm("npm-over", () => undefined),
    overTasks,
    row
  )
}
