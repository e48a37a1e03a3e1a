/**
 * The row `parallel.32`: 32 loops at once on one store, each forking, opening, editing, saving and closing.
 * Promise: every commit is read back; a single failure makes the row incorrect and is counted in its note. Rules: W11, W10, L8.
 */
import * as Effect from "effect/Effect"
import { bareCommit, timed } from "./measure.ts"
import { forkOf, openWorkspace, shortfall } from "./provider.ts"
import { figures, type Row } from "./report.ts"
import { type Bench, verdict } from "./workspace.ts"

const loops = 32

export const parallelRow = async ({ provider, base, scratch, options }: Bench, yardstickName: string): Promise<Row> => {
  const yardstick = bareCommit(scratch)
  const bare: number[] = []
  const checkpoints: number[] = []
  const whole: number[] = []
  const faults = new Set<string>()
  let failures = 0
  const once = async (loop: number, round: number): Promise<void> => {
    const text = `loop ${loop}, round ${round}\n`
    const { workspace, close } = await openWorkspace(provider, await forkOf(provider, base.commit))
    try {
      const fault = shortfall(workspace)
      if (fault !== undefined) faults.add(fault)
      await Effect.runPromise(workspace.write(`bench-${loop}.txt`, text))
      const [ms, saved] = await timed(() => Effect.runPromise(workspace.checkpoint({ message: text })))
      checkpoints.push(ms)
      if (saved.outcome !== "committed" || saved.changedPaths !== 1)
        return void faults.add("an edit made no commit of its own")
      const stored = await Effect.runPromise(provider.readAt(saved.commit, `bench-${loop}.txt`))
      if (Buffer.from(stored).toString() !== text) faults.add("a commit holds other bytes")
    } finally {
      await close()
    }
  }
  const rounds = Math.max(3, options.runs)
  const loop = async (number: number): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const [ms] = await timed(() =>
        once(number, round).catch((error: Error) => {
          failures++
          faults.add(`a loop failed: ${error.message.split("\n", 1)[0]}`)
        })
      )
      whole.push(ms)
    }
  }
  try {
    // The first checkpoint of a process waits until all of the cached base has been looked at.
    await once(loops, 0)
    checkpoints.length = 0
    for (let n = 0; n < 20; n++) bare.push(yardstick.commit())
    await Promise.all(Array.from({ length: loops }, (_, number) => loop(number)))
  } finally {
    yardstick.close()
  }
  const judged = verdict(faults)
  return {
    id: "parallel.32",
    unit: "ms",
    ours: figures(checkpoints),
    yardstick: { name: `${yardstickName}, alone`, ...figures(bare) },
    peers: {},
    correct: judged.correct,
    note: [
      `${loops} loops at once, ${rounds} rounds each, ${failures} failures; the checkpoint alone, after a first one; a whole loop took ${figures(whole).p50.toFixed(0)} ms`,
      judged.note
    ]
      .filter((part) => part !== "")
      .join("; ")
  }
}
