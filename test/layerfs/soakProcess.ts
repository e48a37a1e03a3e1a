/**
 * Starts the soak of the workspace store: killer and checker in one process, both programs built once as one file.
 * Promise: each round is told as it ends; the process has ended when the answer comes. Rules: L8.
 */
import { spawn } from "node:child_process"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"

/** The sums so far, and the faults of the last round. */
export interface SoakTotal {
  readonly rounds: number
  readonly kills: number
  /** Of the kills, those at a crash point; the others came at a random moment. */
  readonly atPoints: number
  /** Calls that were acknowledged. */
  readonly answers: number
  readonly faults: readonly string[]
  /** Where the fault can be looked at. */
  readonly kept: string | null
}

/** Kills until so many processes were killed or so many minutes have passed, in the empty directory `place`. */
export const soakStore = async (
  place: string,
  { seed, kills, minutes }: { readonly seed: number; readonly kills: number; readonly minutes: number },
  onRound: (total: SoakTotal) => void = () => {}
): Promise<SoakTotal> => {
  const program = (name: string): Promise<string> => oneFile(join(import.meta.dirname, name))
  const [killer, victim] = await Promise.all([program("soakRun.ts"), program("soakChild.ts")])
  const running = spawn(process.execPath, [killer, place, victim, String(seed), String(kills), String(minutes)], {
    stdio: ["ignore", "pipe", "pipe"],
    env: oneFileEnvironment()
  })
  let total: SoakTotal = { rounds: 0, kills: 0, atPoints: 0, answers: 0, faults: [], kept: null }
  let errors = ""
  running.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-4000)
  })
  createInterface({ input: running.stdout }).on("line", (line) => {
    total = JSON.parse(line) as SoakTotal
    onRound(total)
  })
  return new Promise((resolve, reject) => {
    running.on("error", reject)
    running.on("close", (code, signal) => {
      const isPlain = code === (total.faults.length === 0 ? 0 : 1)
      resolve(
        isPlain
          ? total
          : { ...total, faults: [...total.faults, `ended with ${String(code ?? signal)}: ${errors}`], kept: place }
      )
    })
  })
}
