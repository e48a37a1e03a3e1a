/** Ctrl-C at every stage, and two processes on one record or one store. Rules: J2, W12, W23, G81, S23. */
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { faultsOf, historyOf, makeTiny, runTiny, startTiny, type TinyOutcome } from "./tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

const made = () => {
  const tiny = makeTiny()
  cleanups.push(tiny.remove)
  return tiny
}

const passed = (log: string): string => {
  try {
    return readFileSync(log, "utf8")
  } catch {
    return ""
  }
}

/** Runs until `point` is passed, then does something to the process. */
const untilPassed = async (
  record: string,
  point: string,
  act: (pid: number) => void,
  more: { readonly group?: boolean } = {}
): Promise<TinyOutcome> => {
  const log = join(record, `passed-${point}`)
  let timer: NodeJS.Timeout | undefined
  try {
    return await startTiny(record, { log, ...more }, (child) => {
      timer = setInterval(() => {
        if (!passed(log).includes(`${point}\n`)) return
        clearInterval(timer)
        act(child.pid!)
      }, 1)
    })
  } finally {
    clearInterval(timer)
  }
}

describe("Ctrl-C", () => {
  const rows: readonly (readonly [to: string, group: boolean, stages: readonly string[]])[] = [
    [
      "the process",
      false,
      ["repair.bound", "layerfs.import.scanned", "workspace.mounted", "turn.attemptSaved", "checkout.cloned"]
    ],
    ["its whole group", true, ["layerfs.import.read", "workspace.held", "turn.attemptSaved", "checkout.made"]]
  ]
  for (const [to, group, stages] of rows) {
    it(`W12 S23 J2 to ${to} at ${stages.join(", then ")} ends it in order each time, leaves no process, mount or scratch, and the same record goes on`, async () => {
      const { record } = made()
      for (const stage of stages) {
        const ended = await untilPassed(record, stage, (pid) => process.kill(group ? -pid : pid, "SIGINT"), { group })
        expect([stage, ended.signal, ended.stderr]).toEqual([stage, null, ""])
        // It ended by itself: what it left waits for a decision and is listed; nothing else is left.
        const faults = historyOf(record, { mayBeLeft: 3 })
        expect([stage, ...faults]).toEqual([stage])
      }
      expect(faultsOf(record, runTiny(record).output, "two", true)).toEqual([])
    }, 600_000)
  }
})

describe("two processes", () => {
  it("J2 G81 on one run and record: the second gets one typed error at once, naming the first, and writes nothing; the first finishes", async () => {
    const { record } = made()
    const listing = () =>
      ["", "attempts", "results", "verdicts"].flatMap((name) =>
        readdirSync(join(record, name)).map((file) => `${name}/${file} ${statSync(join(record, name, file)).mtimeMs}`)
      )
    let second: TinyOutcome | undefined
    let pid: number | undefined
    const first = await untilPassed(record, "repair.sourceTaken", (running) => {
      pid = running
      process.kill(running, "SIGSTOP")
      const before = listing()
      second = runTiny(record)
      const after = listing()
      process.kill(running, "SIGCONT")
      expect(after).toEqual(before)
    })
    expect(second?.output.error).toMatchObject({ code: "RUN_IN_PROGRESS", pid })
    expect(second?.output.error.remedy).not.toBe("")
    expect(faultsOf(record, first.output, "two", false)).toEqual([])
    // The lock died with its process: the same record opens again.
    expect(faultsOf(record, runTiny(record).output, "two", false)).toEqual([])
  }, 600_000)

  it("J2 L12 G3 two runs with names and records of their own on one store, at once: both finish, nothing of one is in the other", async () => {
    const [a, b] = [made(), made()]
    const store = join(a.record, "store")
    writeFileSync(join(b.record, "source", "other.txt"), "uncommitted work of b\n")
    const [first, second] = await Promise.all([
      startTiny(a.record, { run: "first", store }),
      startTiny(b.record, { run: "second", store })
    ])
    expect(faultsOf(a.record, first.output, "two", false)).toEqual([])
    for (const { output } of [first, second]) {
      expect(output.report.attempts.map((one: any) => one.outcome)).toEqual(["refused", "handedOver", "accepted"])
      expect(output.quota.spent.usd).toBeCloseTo(0.3, 6)
    }
    expect(first.output.report.goal).not.toBe(second.output.report.goal)
  }, 600_000)
})
