/**
 * The rows of the large store: `open.large`, `nextWork.large`, `verify.rate`.
 * Promise: measured on a copy of the generated store at `synchronous=FULL`; every claim is of another todo, and the chain is whole
 * before a rate counts. Rules: G4, G22; governance.md, "Figures".
 */
import { cpSync } from "node:fs"
import { join } from "node:path"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { openAuthority } from "../providers/authority-sqlite/index.ts"
import { Todos } from "../src/governance/index.ts"
import { runIn } from "./governance-scene.ts"
import { cachedLargeStore } from "./large-store.ts"
import type { BenchOptions } from "./main.ts"
import { bareCommit, timed } from "./measure.ts"
import { figures, rate, type Row } from "./report.ts"
import { verdict } from "./workspace.ts"

const commitName = "bare durable one-row SQLite commit"

export const largeRows = async (
  options: BenchOptions,
  scratch: string,
  wanted: (id: string) => boolean
): Promise<readonly Row[]> => {
  const { directory: kept, facts } = await cachedLargeStore(options.root, options.progress)
  const directory = join(scratch, "large")
  cpSync(kept, directory, { recursive: true })
  const size = `${facts.todos} todos, ${facts.journalRows} journal rows`
  // The generated leases are alive at the store's own time; it goes on from there.
  const started = performance.now()
  const open = () => openAuthority({ directory, now: () => facts.now + Math.round(performance.now() - started) })
  const next = { goal: facts.goal, agent: "ada" } as const
  const claimed = new Set<string>()
  const claimedTwice = new Set<string>()
  const keep = (got: { readonly _tag: string; readonly todo?: { readonly id: string } }): void => {
    const id = got.todo?.id ?? "nothing"
    if (claimed.has(id) || got.todo === undefined)
      claimedTwice.add("a claim gave nothing, or a todo that was given before")
    claimed.add(id)
  }
  const yardstick = bareCommit(scratch)
  const rows: Row[] = []
  try {
    if (wanted("open.large")) {
      const ours: number[] = []
      const bare: number[] = []
      for (let round = 0; round < 4 * options.runs; round++) {
        const [ms, store] = await timed(async () => {
          const store = await open()
          keep(await runIn(store)(Todos.nextWork(next)))
          return store
        })
        await store.close()
        ours.push(ms)
        bare.push(yardstick.commit())
      }
      const judged = verdict(claimedTwice)
      const note = `opening a store of ${size} until its first claim is durable; the file is in the page cache`
      rows.push({
        id: "open.large",
        unit: "ms",
        ours: figures(ours),
        yardstick: { name: commitName, ...figures(bare) },
        peers: {},
        correct: judged.correct,
        note: judged.correct ? note : `${note}; ${judged.note}`
      })
    }
    const store = await open()
    const run = runIn(store)
    try {
      if (wanted("nextWork.large")) {
        options.progress("nextWork.large")
        const ours: number[] = []
        const bare: number[] = []
        const none: number[] = []
        const faults = new Set<string>()
        for (let round = 0; round < 100 * options.runs; round++) {
          const [ms, got] = await timed(() => run(Todos.nextWork(next)))
          keep(got)
          ours.push(ms)
          bare.push(yardstick.commit())
          if (round % 10 !== 0) continue
          const [noneMs, nothing] = await timed(() => run(Todos.nextWork({ ...next, agent: "idle" })))
          if (nothing._tag !== "none" || nothing.withheld.unfinished !== facts.unfinished)
            faults.add("the count of what is withheld is wrong")
          none.push(noneMs)
        }
        const judged = verdict([...claimedTwice, ...faults])
        const note = `one durable claim of the best of ${facts.ready} ready todos behind ${facts.unfinished - facts.ready} leased, deferred, blocked or unsuited ones of higher priority; store of ${size}`
        rows.push({
          id: "nextWork.large",
          unit: "ms",
          ours: figures(ours),
          yardstick: { name: commitName, ...figures(bare) },
          peers: { "nothing to give, every unfinished todo counted under its reason": figures(none) },
          correct: judged.correct,
          note: judged.correct ? note : `${note}; ${judged.note}`
        })
      }
      if (wanted("verify.rate")) {
        options.progress("verify.rate")
        const seconds: number[] = []
        const faults = new Set<string>()
        const delay = monitorEventLoopDelay({ resolution: 1 })
        let entries = 0
        for (let round = 0; round < Math.min(options.runs, 3); round++) {
          delay.enable()
          const [ms, told] = await timed(store.verify)
          delay.disable()
          if (!told.ok || told.entries < facts.journalRows) faults.add("the journal does not verify whole")
          entries = told.entries
          seconds.push(ms / 1000)
        }
        const judged = verdict(faults)
        const note = `journal rows a second, each link hashed again; meanwhile a timer of 1 ms fires after ${(delay.percentile(99) / 1e6).toFixed(1)} ms at p99`
        rows.push({
          id: "verify.rate",
          unit: "s",
          ours: rate(seconds, entries),
          yardstick: null,
          peers: {},
          correct: judged.correct,
          note: judged.correct ? note : `${note}; ${judged.note}`
        })
      }
    } finally {
      await store.close()
    }
  } finally {
    yardstick.close()
  }
  return rows
}
