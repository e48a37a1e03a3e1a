/**
 * Repairs that are killed at random moments and at random points, run again, and checked; the small repair of the tests, and
 * with --full the demo itself.
 * Promise: after each kill what stands on disk is consistent, after the last run everything holds. Rules: J2, G75, G82, L8.
 */
import { spawn } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { checkHistory } from "../../test/journey/historyCheck.ts"
import { faultsOf, historyOf, makeTiny, startTiny } from "../../test/journey/tiny.ts"
import { seededRandom } from "../../test/seededRandom.ts"
import type { SoakOptions, SoakResult } from "../soak.ts"

/** Each name in the order in which it was passed, with how often it had been passed by then. */
export const passagesIn = (log: string): string[] => {
  const counts = new Map<string, number>()
  return readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((name) => {
      const n = (counts.get(name) ?? 0) + 1
      counts.set(name, n)
      return `${name}:${n}`
    })
}

/** One record: killed up to four times, half of them by the clock and half at a point, then run to its end. */
const oneRound = async (
  random: (below: number) => number,
  measured: { readonly wallMs: number; readonly passages: readonly string[] }
): Promise<{ kills: readonly string[]; faults: readonly string[]; kept: string | null }> => {
  const tiny = makeTiny()
  const kills: string[] = []
  const ended = (faults: readonly string[]) => ({ kills, faults, kept: faults.length > 0 ? tiny.record : null })
  for (let n = 1 + random(4); n > 0; n -= 1) {
    const byClock = random(2) === 0
    const killAfterMs = random(Math.ceil(measured.wallMs))
    const crashAt = measured.passages[random(measured.passages.length)]!
    const { signal } = await startTiny(tiny.record, byClock ? { killAfterMs } : { crashAt })
    // What was to die may have ended before: then that run was a whole one, and the next is its repetition.
    if (signal === "SIGKILL") kills.push(byClock ? `${killAfterMs} ms` : crashAt)
    const midway = historyOf(tiny.record, { midway: true })
    if (midway.length > 0) return ended(midway)
  }
  const { output, stderr } = await startTiny(tiny.record)
  const faults = faultsOf(tiny.record, output, "two", true)
  if (faults.length > 0) return ended([...faults, stderr.slice(-2000)])
  tiny.remove()
  return ended([])
}

/** The wall time of a whole repair, and every passage of it in order. */
export const measureTiny = async () => {
  const tiny = makeTiny()
  const log = join(tiny.record, "passed")
  const begun = performance.now()
  const { output } = await startTiny(tiny.record, { log })
  const wallMs = performance.now() - begun
  const faults = faultsOf(tiny.record, output, "two", false)
  if (faults.length > 0) throw new Error(`The repair fails without any kill: ${faults.join("; ")}`)
  const passages = passagesIn(log)
  tiny.remove()
  return { wallMs, passages }
}

export const soakDemo = async (options: SoakOptions): Promise<SoakResult> => {
  const random = seededRandom(options.seed)
  const measured = await measureTiny()
  const until = performance.now() + options.minutes * 60_000
  let rounds = 0
  let kills = 0
  while (performance.now() < until) {
    rounds += 1
    const round = await oneRound(random, measured)
    kills += round.kills.length
    if (round.faults.length > 0) {
      options.say(`round ${rounds}, killed at ${round.kills.join(", then ")}`)
      return { rounds, kills, faults: round.faults, kept: round.kept }
    }
    if (rounds % 10 === 0) options.say(`${rounds} rounds, ${kills} kills, no fault`)
  }
  return { rounds, kills, faults: [], kept: null }
}

const demo = fileURLToPath(new URL("../../examples/explore-repair/demo.ts", import.meta.url))

const runDemo = (record: string, killAfterMs?: number) =>
  new Promise<{ signal: NodeJS.Signals | null; stdout: string }>((resolve, reject) => {
    const child = spawn(process.execPath, [demo, "--json", "--record", record], { stdio: ["ignore", "pipe", "ignore"] })
    const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfterMs)
    let stdout = ""
    child.stdout.on("data", (chunk: Buffer) => {
      stdout += chunk.toString("utf8")
    })
    child.on("error", reject)
    child.on("close", (_, signal) => {
      clearTimeout(timer)
      resolve({ signal, stdout })
    })
  })

/** The demo with its own repository, installs and oracle: slow, so each record is killed twice. */
export const soakFullDemo = async (options: SoakOptions): Promise<SoakResult> => {
  const random = seededRandom(options.seed)
  const until = performance.now() + options.minutes * 60_000
  let rounds = 0
  let kills = 0
  let wallMs = 40_000
  while (performance.now() < until) {
    rounds += 1
    const record = mkdtempSync(join(tmpdir(), "coppice-soak-demo-"))
    for (let n = 0; n < 2; n += 1) {
      const { signal } = await runDemo(record, random(wallMs))
      if (signal === "SIGKILL") kills += 1
    }
    const begun = performance.now()
    const { stdout } = await runDemo(record)
    wallMs = Math.max(10_000, performance.now() - begun)
    const said = JSON.parse(stdout.trim().split("\n").at(-1) ?? "null") as { ok?: boolean } | null
    const faults = [
      ...(said?.ok === true ? [] : [`the demo says ${stdout.slice(0, 2000)}`]),
      ...checkHistory({ store: join(record, "store"), record })
    ]
    if (faults.length > 0) return { rounds, kills, faults, kept: record }
    rmSync(record, { recursive: true, force: true })
    options.say(`${rounds} rounds, ${kills} kills, no fault`)
  }
  return { rounds, kills, faults: [], kept: null }
}
