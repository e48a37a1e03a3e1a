/**
 * The rows of checkpoints, and of a fork that starts from one.
 * Promise: what a checkpoint holds is read back from the store before its time counts. Rules: W8, W10, L1, L14.
 */
import * as Effect from "effect/Effect"
import { bareCommit, spawnTrue, timed } from "./measure.ts"
import { filesOf, forkOf, openWorkspace, shortfall } from "./provider.ts"
import { figures, type Row } from "./report.ts"
import { type Bench, verdict } from "./workspace.ts"

const emptyRow = async ({ provider, base, scratch }: Bench, yardstickName: string): Promise<Row> => {
  const yardstick = bareCommit(scratch)
  const { workspace, close } = await openWorkspace(provider, await forkOf(provider, base.commit))
  const ours: number[] = []
  const bare: number[] = []
  const faults = new Set<string>()
  const fault = shortfall(workspace)
  if (fault !== undefined) faults.add(fault)
  try {
    for (let round = -3; round < 40; round++) {
      const commit = yardstick.commit()
      const [ms, saved] = await timed(() => Effect.runPromise(workspace.checkpoint()))
      if (saved.outcome !== "unchanged" || saved.commit !== base.commit)
        faults.add("a checkpoint without changes made a commit")
      if (round < 0) continue
      ours.push(ms)
      bare.push(commit)
    }
  } finally {
    yardstick.close()
    await close()
  }
  return {
    id: "checkpoint.empty",
    unit: "ms",
    ours: figures(ours),
    yardstick: { name: yardstickName, ...figures(bare) },
    peers: {},
    ...verdict(faults)
  }
}

/** Ten files of the tree are appended to in the workspace, then saved; each round takes other files where there are enough. */
const tenEditsRow = async ({ provider, base, scratch }: Bench, yardstickName: string): Promise<Row> => {
  const rounds = 20
  const files = await filesOf(provider, base.commit, (rounds + 2) * 10)
  const yardstick = bareCommit(scratch)
  const { workspace, close } = await openWorkspace(provider, await forkOf(provider, base.commit))
  const ours: number[] = []
  const bare: number[] = []
  const faults = new Set<string>()
  const fault = shortfall(workspace)
  if (fault !== undefined) faults.add(fault)
  let head = base.commit
  try {
    for (let round = -2; round < rounds; round++) {
      const edited = Array.from({ length: 10 }, (_, i) => files[((round + 2) * 10 + i) % files.length] as string)
      const expected = new Map<string, Buffer>()
      for (const file of edited) {
        const bytes = await Effect.runPromise(workspace.read(file))
        expected.set(file, Buffer.concat([bytes, Buffer.from(`// edit ${round}\n`)]))
        await Effect.runPromise(workspace.write(file, expected.get(file) as Buffer))
      }
      const commit = yardstick.commit()
      const [ms, saved] = await timed(() => Effect.runPromise(workspace.checkpoint({ message: `edit ${round}` })))
      if (saved.outcome !== "committed") {
        faults.add("ten edits made no commit")
        continue
      }
      const { changes } = await Effect.runPromise(provider.diff(head, saved.commit))
      if (changes.length !== expected.size || changes.some((change) => !expected.has(change.path))) {
        faults.add("the commit holds other changes than the ten edits")
      }
      for (const [file, bytes] of expected) {
        const stored = await Effect.runPromise(provider.readAt(saved.commit, file))
        if (Buffer.compare(bytes, stored) !== 0) faults.add("an edit reads back differently")
      }
      head = saved.commit
      if (round < 0) continue
      ours.push(ms)
      bare.push(commit)
    }
  } finally {
    yardstick.close()
    await close()
  }
  const judged = verdict(faults)
  return {
    id: "checkpoint.tenEdits",
    unit: "ms",
    ours: figures(ours),
    yardstick: { name: yardstickName, ...figures(bare) },
    peers: {},
    correct: judged.correct,
    note: [`tree of ${base.files} files`, judged.note].filter((part) => part !== "").join("; ")
  }
}

export const checkpointRows = (
  bench: Bench,
  yardstickName: string
): readonly { readonly id: "checkpoint.empty" | "checkpoint.tenEdits"; readonly run: () => Promise<Row> }[] => [
  { id: "checkpoint.empty", run: () => emptyRow(bench, yardstickName) },
  { id: "checkpoint.tenEdits", run: () => tenEditsRow(bench, yardstickName) }
]

/** An attempt edits, is saved and closed; the time runs from the fork of what it saved until a workspace of that is ready. */
export const forkFromCheckpointRow = async ({ provider, base }: Bench, yardstickName: string): Promise<Row> => {
  const ours: number[] = []
  const opened: number[] = []
  const bare: number[] = []
  const faults = new Set<string>()
  for (let round = -1; round < 15; round++) {
    const attempt = await openWorkspace(provider, await forkOf(provider, base.commit))
    const text = `round ${round}\n`
    const made = await Effect.runPromise(
      attempt.workspace.exec(`mkdir -p bench && printf %s '${text}' > bench/attempt.txt`)
    )
    if (made.exitCode !== 0) faults.add("the attempt could not edit")
    const saved = await Effect.runPromise(attempt.workspace.checkpoint())
    await attempt.close()
    if (saved.outcome !== "committed") {
      faults.add("the attempt made no commit")
      continue
    }
    const spawn = await spawnTrue()
    let openMs = 0
    const [ms, child] = await timed(async () => {
      const branch = await forkOf(provider, saved.commit)
      const [took, workspace] = await timed(() => openWorkspace(provider, branch))
      openMs = took
      return workspace
    })
    const bytes = await Effect.runPromise(child.workspace.read("bench/attempt.txt"))
    if (Buffer.from(bytes).toString() !== text) faults.add("the fork does not show what its checkpoint holds")
    const fault = shortfall(child.workspace)
    if (fault !== undefined) faults.add(fault)
    await child.close()
    if (round < 0) continue
    ours.push(ms)
    opened.push(openMs)
    bare.push(spawn)
  }
  const judged = verdict(faults)
  return {
    id: "fork.fromCheckpoint.ready",
    unit: "ms",
    ours: figures(ours),
    yardstick: { name: yardstickName, ...figures(bare) },
    peers: {},
    correct: judged.correct,
    note: [`fork and open together; open alone ${figures(opened).p50.toFixed(1)} ms`, judged.note]
      .filter((part) => part !== "")
      .join("; ")
  }
}
