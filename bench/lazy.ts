/**
 * The rows `lazy.*`: a tree that is served from the store, read by a workspace that nobody has read in before, and once more.
 * Promise: each cold round has a mount of its own, of which the kernel knows nothing; both sides print the same, and the contents are compared before a time counts.
 * Rules: workspaces.md, "Figures"; L10, W7, W17.
 */
import { rmSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { cachedTree } from "./cached-tree.ts"
import { checkProject, inside, measure, outside } from "./inside.ts"
import { projectTree } from "./inside-trees.ts"
import type { BenchOptions } from "./main.ts"
import { command } from "./measure.ts"
import { forkOf, openWorkspace, shortfall, withStore } from "./provider.ts"
import { figures, type Row } from "./report.ts"
import { joined, verdict } from "./workspace.ts"

interface ColdTask {
  readonly id: string
  readonly text: string
  readonly note: string
}

const coldTasks: readonly ColdTask[] = [
  {
    id: "lazy.find",
    text: "find . -type f -newermt 1990-01-01 | wc -l",
    note: "every file looked at, by a mount that is new"
  },
  {
    id: "lazy.readAll",
    text: "find . -type f -print0 | xargs -0 cat | wc -c",
    note: "every file read, by a mount that is new"
  }
]

const secondPass = {
  id: "lazy.tsc.second",
  text: checkProject,
  note: "tsc --noEmit of this project's sources, the second and later times in one workspace"
}

export const lazyIds = [...coldTasks.map(({ id }) => id), secondPass.id]

const contents = "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum"

type Measure = (id: string, row: () => Promise<Row>) => Promise<void>

const inLazy = async <A>(
  provider: WorkspaceProvider,
  commit: string,
  use: (workspace: Awaited<ReturnType<typeof openWorkspace>>["workspace"]) => Promise<A>
): Promise<A> => {
  const { workspace, close } = await openWorkspace(provider, await forkOf(provider, commit), { projection: "lazy" })
  try {
    return await use(workspace)
  } finally {
    await Effect.runPromise(workspace.discard("bench"))
    await close()
  }
}

const coldRow = async (
  { id, text, note }: ColdTask,
  provider: WorkspaceProvider,
  commit: string,
  plain: string,
  rounds: number
): Promise<Row> => {
  const faults = new Set<string>()
  const expected = await outside(plain, contents)
  const seen = await inLazy(provider, commit, (workspace) => inside(workspace, contents))
  if (seen.said !== expected.said) faults.add("the contents are not those of the source")
  const ours: number[] = []
  const bare: number[] = []
  for (let round = -1; round < rounds; round++) {
    const there = await outside(plain, text)
    const here = await inLazy(provider, commit, (workspace) => {
      const fault = shortfall(workspace, "lazy")
      if (fault !== undefined) faults.add(fault)
      return inside(workspace, text)
    })
    if (here.code !== 0 || here.said !== there.said)
      faults.add(`it printed something else inside: ${here.said.slice(0, 200)}`)
    if (round < 0) continue
    ours.push(here.ms)
    bare.push(there.ms)
  }
  const judged = verdict(faults)
  return {
    id,
    unit: "ms",
    ours: figures(ours),
    yardstick: { name: "the same in a plain directory, warm", ...figures(bare) },
    peers: {},
    correct: judged.correct,
    note: joined(note, judged.note)
  }
}

export const lazyRows = async (options: BenchOptions, scratch: string, row: Measure): Promise<void> => {
  const wanted = (id: string): boolean => options.only === undefined || id.startsWith(options.only)
  const cold = coldTasks.filter(({ id }) => wanted(id))
  if (cold.length > 0) {
    const { seed, files, bytes, progress } = options
    const source = join(scratch, "lazy-source")
    await command(["cp", "-a", options.tree ?? cachedTree(options.root, { seed, files, bytes }, progress), source])
    await withStore(join(scratch, "lazy-store"), async (provider) => {
      const { commit } = await Effect.runPromise(provider.importDirectory({ source }))
      for (const task of cold) await row(task.id, () => coldRow(task, provider, commit, source, options.runs))
    })
    rmSync(source, { recursive: true, force: true })
  }
  if (!wanted(secondPass.id)) return
  await row(secondPass.id, async () => {
    const source = join(scratch, "lazy-project")
    await projectTree(options.root, source)
    return withStore(join(scratch, "lazy-project-store"), async (provider) => {
      const { commit } = await Effect.runPromise(provider.importDirectory({ source }))
      return inLazy(provider, commit, (workspace) => measure(secondPass, workspace, source, options.runs, "lazy"))
    })
  })
}
