/**
 * The area `layerfs`: storage and history of the default provider, beside git, restic, borg, tar with zstd and bare yardsticks.
 * Promise: every row interleaves what it measures with what it is held against, checks the outcome before a time counts, and
 * reports raw figures; what cannot run here or does not exist yet is named with its reason. Rules: 04 "Numbers"; L1, L3, L8, L10.
 */
import type { BenchOptions } from "./main.ts"
import { lookupRow, manyCallRows, restoreRows, spliceBytesRows, spliceRows } from "./layerfs-calls.ts"
import { historyRows } from "./layerfs-history.ts"
import { importRows, manyFilesRows } from "./layerfs-import.ts"
import { HostDelay, type LayerFsBench } from "./layerfs-scene.ts"
import { withScratch } from "./measure.ts"
import type { AreaResult, Row, Skipped } from "./report.ts"

/** The rows, in the order in which they are measured. */
export const rowIds = [
  "import.21k",
  "import.again",
  "import.bytes",
  "import.100k",
  "import.100k.memory",
  "history.committed",
  "history.compacted",
  "history.cost",
  "history.read",
  "compact.pause",
  "compact.extra",
  "fork",
  "commit.empty",
  "commit.10of100k",
  "diff.neighbours.100k",
  "lookup.depth",
  "restore.one",
  "restore.10k",
  "verify",
  "splice.4k",
  "splice.bytes",
  "eventLoopDelay"
] as const

type RowId = (typeof rowIds)[number]

/** Every row of the area that `options.only` does not leave out. */
export const run = (options: BenchOptions): Promise<AreaResult> =>
  withScratch(async (scratch) => {
    const rows: Row[] = []
    const skipped: Skipped[] = []
    const bench: LayerFsBench = { options, scratch, delay: new HostDelay() }
    const wanted = (...ids: readonly RowId[]): boolean =>
      options.only === undefined || ids.some((id) => id.startsWith(options.only as string))
    const keep = (some: readonly Row[]): void => {
      rows.push(...some.filter(({ id }) => options.only === undefined || id.startsWith(options.only)))
    }
    /** Measures rows that belong together. What cannot be measured is named with its reason, never given a figure. */
    const measure = async (ids: readonly RowId[], work: () => Promise<readonly Row[]>): Promise<void> => {
      if (!wanted(...ids)) return
      options.progress(ids.filter((id) => wanted(id)).join(", "))
      try {
        keep(await work())
      } catch (error) {
        const reason = String((error as Error).message).split("\n", 1)[0] ?? ""
        for (const id of ids) if (wanted(id)) skipped.push({ id, reason })
      }
    }

    await measure(["import.21k", "import.again", "import.bytes"], async () => {
      const { rows: imported, missing } = await importRows(bench)
      for (const reason of missing) if (wanted("import.21k")) skipped.push({ id: "import.21k", reason })
      return imported
    })
    await measure(["import.100k", "import.100k.memory"], () => manyFilesRows(bench))
    await measure(
      ["history.committed", "history.compacted", "history.cost", "history.read", "compact.pause", "compact.extra"],
      () => historyRows(bench)
    )
    await measure(["fork", "commit.empty", "commit.10of100k", "diff.neighbours.100k"], () => manyCallRows(bench))
    await measure(["lookup.depth"], () => lookupRow(bench))
    await measure(["restore.one", "restore.10k", "verify"], () => restoreRows(bench))
    await measure(["splice.4k"], () => spliceRows(bench))
    await measure(["splice.bytes"], () => spliceBytesRows(bench))
    if (rows.length > 0 && wanted("eventLoopDelay")) keep([bench.delay.row()])
    return { rows, skipped }
  })
