/**
 * The kill matrix: a repair is killed at every point, at each of its first passages, run again and checked; then once more
 * with a second kill, at a seeded point, in the recovery; and every write that can be made to fail fails at several passages.
 * Promise: a listed point that no cell reached is itself a fault. Rules: G75, G82, L8, J2.
 */
import { crashPoints } from "../../src/base/CrashPointList.ts"
import { faultPoints } from "../../src/base/FaultPoint.ts"
import { faultsAfterFailedWrite, faultsOf, makeTiny, startTiny } from "../../test/journey/tiny.ts"
import { seededRandom } from "../../test/seededRandom.ts"
import type { SoakOptions, SoakResult } from "../soak.ts"
import { measureTiny } from "./demo.ts"

/** Points that only a rerun passes, with the kill that makes it pass them. */
const firstKilledAt: Readonly<Record<string, string>> = {
  "layerfs.open.reclaimed": "layerfs.commit.packSynced",
  "workspace.sweeping": "workspace.closed",
  "recovery.claimed": "turn.hostEnded:2",
  "recovery.mounted": "turn.hostEnded:2",
  "recovery.forked": "turn.hostEnded:2",
  "recovery.committed": "turn.hostEnded:2",
  "recovery.closed": "turn.hostEnded:2",
  "turn.lost": "turn.hostEnded:2",
  "turn.startedOver": "turn.hostEnded:2"
}

/** Points of calls that a repair does not make: tests of the workspaces and of governance kill there. */
const elsewhere = [
  "workspace.kept",
  "workspace.discarded",
  "authority.backedUp",
  "delivery.dispatched",
  "delivery.sent",
  "delivery.resolved"
]

interface Cell {
  readonly kills: readonly string[]
  /** A write fails here, before any kill. */
  readonly fault?: string
  /** Whether each kill must happen; the second kill of a pair may come too late. */
  readonly certain: boolean
}

const runCell = async ({ kills, fault, certain }: Cell) => {
  const tiny = makeTiny()
  const faults: string[] = []
  if (fault !== undefined) {
    faults.push(...faultsAfterFailedWrite(tiny.record, await startTiny(tiny.record, { fault })))
  }
  let killed = 0
  for (const crashAt of kills) {
    const { signal } = await startTiny(tiny.record, { crashAt })
    if (signal === "SIGKILL") killed += 1
    else if (certain) faults.push(`${crashAt} was not reached`)
  }
  const { output, stderr } = await startTiny(tiny.record)
  faults.push(...faultsOf(tiny.record, output, "two", true))
  if (faults.length === 0) tiny.remove()
  else faults.push(stderr.slice(-2000))
  return { killed, faults, kept: faults.length === 0 ? null : tiny.record }
}

/** Every cell: first all points at their first passage, so that a short run says most. */
const cellsOf = (options: SoakOptions, passages: readonly string[]): Cell[] => {
  const random = seededRandom(options.seed)
  const names = Object.keys(crashPoints).filter((name) => !elsewhere.includes(name) && !name.startsWith("effect."))
  const wanted = names.filter((name) => options.only === undefined || name.startsWith(options.only))
  const cells: Cell[] = []
  for (let n = 1; n <= options.passages; n += 1) {
    for (const name of wanted) {
      const before = firstKilledAt[name]
      if (before !== undefined) {
        if (n === 1) cells.push({ kills: [before, name], certain: true })
      } else if (passages.includes(`${name}:${n}`)) cells.push({ kills: [`${name}:${n}`], certain: true })
      else if (n === 1) cells.push({ kills: [name], certain: true })
    }
  }
  for (const name of wanted) {
    const second = passages[random(passages.length)]!
    cells.push({
      kills: [...(firstKilledAt[name] === undefined ? [] : [firstKilledAt[name]]), name, second],
      certain: false
    })
  }
  for (const name of faultPoints.filter((one) => options.only === undefined || one.startsWith(options.only))) {
    for (const code of ["ENOSPC", "EIO"]) {
      for (let n = 1; n <= options.passages; n += 1) {
        cells.push({ kills: [], fault: `${name}:${1 + (n - 1) * 3}:${code}`, certain: false })
      }
    }
  }
  return cells
}

export const soakMatrix = async (options: SoakOptions): Promise<SoakResult> => {
  const { passages } = await measureTiny()
  const cells = cellsOf(options, passages)
  options.say(`${cells.length} cells`)
  if (cells.length === 0) return { rounds: 0, kills: 0, faults: [`no point begins with "${options.only}"`], kept: null }
  let kills = 0
  let done = 0
  let failed: { faults: readonly string[]; kept: string | null } | undefined
  const worker = async (): Promise<void> => {
    for (let cell = cells.shift(); cell !== undefined && failed === undefined; cell = cells.shift()) {
      const { killed, faults, kept } = await runCell(cell)
      kills += killed
      done += 1
      if (faults.length > 0)
        failed ??= { faults: [`${cell.fault ?? "no fault"}, killed at ${cell.kills.join(", then ")}`, ...faults], kept }
      if (done % 20 === 0) options.say(`${done} cells, ${kills} kills, no fault`)
    }
  }
  await Promise.all(Array.from({ length: options.jobs }, worker))
  return { rounds: done, kills, faults: failed?.faults ?? [], kept: failed?.kept ?? null }
}
