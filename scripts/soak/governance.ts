/**
 * Random histories of the authority, one seed after the other, for as long as they are let.
 * Promise: every invariant after every kill; the first faulty history is kept, with the script of what was asked.
 * Rules: G1, G2, G3, G72; 02 "Numbers".
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { runHistory } from "../../test/governance/history.ts"
import type { SoakOptions, SoakResult } from "../soak.ts"

/** `rounds` counts histories: that of the seed, and those of the seeds after it. */
export const soakGovernance = async (options: SoakOptions): Promise<SoakResult> => {
  const until = performance.now() + options.minutes * 60_000
  let [next, rounds, kills] = [options.seed, 0, 0]
  let failed: { readonly faults: readonly string[]; readonly kept: string } | undefined
  const worker = async (): Promise<void> => {
    while (performance.now() < until && failed === undefined) {
      const seed = next++
      const directory = mkdtempSync(join(tmpdir(), "coppice-soak-governance-"))
      const history = await runHistory({
        seed,
        directory,
        inTurns: seed % 2 === 0,
        processes: 2 + (seed % 3),
        rounds: 60,
        kills: 10
      })
      rounds += 1
      kills += history.kills
      if (history.faults.length > 0) failed ??= { faults: [`seed ${seed}`, ...history.faults], kept: directory }
      else rmSync(directory, { recursive: true, force: true })
      if (rounds % 10 === 0) options.say(`${rounds} histories, ${kills} kills, no fault`)
    }
  }
  await Promise.all(Array.from({ length: options.jobs }, worker))
  return { rounds, kills, faults: failed?.faults ?? [], kept: failed?.kept ?? null }
}
