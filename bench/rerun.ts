/**
 * The row `rerun.afterKill`: what a crash costs beyond the work that was left.
 * Promise: a killed run and its rerun together, less one whole run beside them; it counts only when the rerun's outcome is
 * whole. Rules: G82, W23, J2; workspaces.md, "Figures".
 */
import { faultsOf, makeTiny, startTiny } from "../test/journey/tiny.ts"
import type { BenchOptions } from "./main.ts"
import { timed } from "./measure.ts"
import { figures, type Row } from "./report.ts"

/** Two hosts have answered, their files lie in uppers that nobody committed: the rerun has to recover both. */
const killedAt = "turn.resultRecorded:2"

export const rerunRow = async (options: BenchOptions): Promise<Row> => {
  const beyond: number[] = []
  const whole: number[] = []
  const faults = new Set<string>()
  for (let round = 0; round < options.runs; round += 1) {
    const [undisturbed, killed] = [makeTiny(), makeTiny()]
    try {
      const [wholeMs, one] = await timed(() => startTiny(undisturbed.record))
      const [untilKillMs, { signal }] = await timed(() => startTiny(killed.record, { crashAt: killedAt }))
      const [rerunMs, rerun] = await timed(() => startTiny(killed.record))
      if (signal !== "SIGKILL") faults.add(`${killedAt} was not reached`)
      for (const fault of faultsOf(undisturbed.record, one.output, "two", false)) faults.add(fault)
      for (const fault of faultsOf(killed.record, rerun.output, "two", true)) faults.add(fault)
      whole.push(wholeMs / 1000)
      beyond.push((untilKillMs + rerunMs - wholeMs) / 1000)
    } finally {
      undisturbed.remove()
      killed.remove()
    }
  }
  return {
    id: "rerun.afterKill",
    unit: "s",
    ours: figures(beyond),
    yardstick: { name: "one whole run", ...figures(whole) },
    peers: {},
    correct: faults.size === 0,
    note: ["time until the kill, and the rerun's, less a whole run's", ...faults].join("; ")
  }
}
