/**
 * The row `demo.seconds`: the whole demo, as a stranger would run it.
 * Promise: it counts only when the demo itself reports an accepted patch, a passed replay and nothing left behind.
 * Rules: J2; workspaces.md, "Figures".
 */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import type { BenchOptions } from "./main.ts"
import { timed } from "./measure.ts"
import { figures, type Row } from "./report.ts"

/** The part of the demo's JSON that is read here. */
interface DemoOutput {
  readonly ok: boolean
  readonly replay: string
  readonly settlements: { readonly accepted: number; readonly total: number }
  readonly leftovers: { readonly mounts: unknown; readonly processes: unknown; readonly directories: unknown }
  readonly seconds: number
  readonly downloadSeconds: number
  readonly record: string
}

/** Nothing is left when every kind counts zero or lists nothing. */
const none = (value: unknown): boolean => value === 0 || (Array.isArray(value) && value.length === 0)

export const demoRow = async (options: BenchOptions): Promise<Row> => {
  const program = join(options.root, "examples", "explore-repair", "demo.ts")
  if (!existsSync(program)) throw new Error("There is no demo in this checkout")
  const [ms, { stdout }] = await timed(() => {
    const running = promisify(execFile)(process.execPath, [program, "--json"], {
      cwd: options.root,
      maxBuffer: 64 * 1024 * 1024
    })
    const stop = () => running.child.kill()
    process.once("exit", stop)
    return running.finally(() => process.off("exit", stop))
  })
  const demo = JSON.parse(stdout) as DemoOutput
  // The demo keeps its record for its reader; nobody reads that of a bench.
  const records = join(options.root, "record")
  if (dirname(demo.record) === records) await rm(demo.record, { recursive: true, force: true })
  const { mounts, processes, directories } = demo.leftovers
  const correct =
    demo.ok &&
    demo.replay === "passed" &&
    demo.settlements.accepted === 1 &&
    [mounts, processes, directories].every(none)
  return {
    id: "demo.seconds",
    unit: "s",
    ours: figures([ms / 1000]),
    yardstick: null,
    peers: {},
    correct,
    note: `wall clock of one run, ${demo.downloadSeconds} s of it fetching dependencies; the demo's own clock says ${demo.seconds} s`
  }
}
