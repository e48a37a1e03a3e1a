/**
 * The shape of a bench result, and its plain form.
 * Promise: raw figures only; nothing is compared with a bar here, an unmeasured value is null and never 0, and a row that was not
 * checked for correctness says so. Rules: workspaces.md, "Figures"; principle 7.
 */

/** Median, 99th percentile and number of the samples, in the row's unit. */
export interface Figures {
  readonly p50: number
  readonly p99: number
  readonly n: number
  /** Throughput rows: how much of what the row's note names, per second at the median. */
  readonly perSecond?: number
  readonly commandsPerFsync?: number
}

export interface Row {
  readonly id: string
  readonly unit: "ms" | "s" | "bytes"
  readonly ours: Figures
  /** What the row is held against, measured in the same run. */
  readonly yardstick: (Omit<Figures, "n"> & { readonly name: string; readonly n?: number }) | null
  readonly peers: Readonly<Record<string, Figures>>
  /** The outcome of the work was checked, apart from its time, and was right every time. */
  readonly correct: boolean
  readonly note: string
}

export interface Skipped {
  readonly id: string
  readonly reason: string
}

export interface BenchReport {
  readonly area: string
  readonly machine: Readonly<Record<string, string | number>>
  /** The commit that was measured; ends in `-dirty` when tracked files were changed. */
  readonly commit: string
  readonly rows: readonly Row[]
  readonly skipped: readonly Skipped[]
}

/** What an area of the bench gives: the rest of the report is the same for all. */
export type AreaResult = Pick<BenchReport, "rows" | "skipped">

/** Nearest-rank percentile of unsorted samples. */
export const percentile = (samples: readonly number[], share: number): number => {
  const sorted = [...samples].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN
}

const rounded = (value: number): number => Number(value.toPrecision(6))

/** Figures of a sample. Throws on an empty one: there is no figure for what was not measured. */
export const figures = (samples: readonly number[]): Figures => {
  if (samples.length === 0) throw new RangeError("No samples: an unmeasured row belongs into `skipped`")
  return { p50: rounded(percentile(samples, 0.5)), p99: rounded(percentile(samples, 0.99)), n: samples.length }
}

/** The same with a rate: `amount` of work was done in each sample, whose unit is seconds. */
export const rate = (samples: readonly number[], amount: number): Figures => {
  const one = figures(samples)
  return { ...one, perSecond: rounded(amount / one.p50) }
}

const shown = (value: number, unit: Row["unit"]): string =>
  unit === "bytes"
    ? value < 1e5
      ? `${Number(value.toPrecision(3))} B`
      : `${(value / 1e6).toFixed(2)} MB`
    : `${value.toFixed(value < 10 ? 2 : 1)} ${unit}`

/** One row on a line of its own, told while the rest is measured. */
export const rowLine = ({ id, unit, ours, yardstick, correct }: Row): string => {
  const against = yardstick === null ? "" : `, ${(ours.p50 / yardstick.p50).toFixed(2)} of ${yardstick.name}`
  return `${id}: ${shown(ours.p50, unit)}${against}${correct ? "" : ", NOT CORRECT"}`
}

/** The report as a table for people. */
export const plainTable = (report: BenchReport): string => {
  const lines = [["row", "p50", "p99", "n", "yardstick", "p50", "ratio", "correct"]]
  for (const { id, unit, ours, yardstick, correct } of report.rows) {
    lines.push([
      id,
      shown(ours.p50, unit),
      shown(ours.p99, unit),
      String(ours.n),
      yardstick?.name ?? "-",
      yardstick === null ? "-" : shown(yardstick.p50, unit),
      yardstick === null ? "-" : (ours.p50 / yardstick.p50).toFixed(2),
      correct ? "yes" : "NO"
    ])
  }
  const widths = lines[0]?.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0))) ?? []
  const text = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()
  )
  const details = report.rows.flatMap(({ id, unit, peers, note }) => [
    ...Object.entries(peers).map(([name, peer]) => `${id}: ${name} ${shown(peer.p50, unit)} (n ${peer.n})`),
    ...(note === "" ? [] : [`${id}: ${note}`])
  ])
  return [
    `${report.area} at ${report.commit}: ${Object.values(report.machine).join(", ")}`,
    "",
    ...text,
    "",
    ...details,
    ...report.skipped.map(({ id, reason }) => `${id} skipped: ${reason}`)
  ].join("\n")
}
