/**
 * `npm run rules`: which rule is shown by which test of the last run, and which one has a gap file instead.
 * Promise: an id counts only when a test that *passed* carries it in its full title; skipped, failed and unreported tests
 * never count, and without a report there is no answer. Rules: docs/spec/00-overview.md, "Reading this specification".
 */
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import {
  compareIds,
  type Gap,
  idsAndRangesIn,
  idsIn,
  readGaps,
  readSpecification,
  type Specification
} from "./specification.ts"

export interface RuleRow {
  readonly id: string
  /** Full titles of the passed tests that carry the id. */
  readonly tests: readonly string[]
  /** Path of the gap file, relative to the project. */
  readonly gap: string | null
}

export interface RulesReport {
  readonly rules: readonly RuleRow[]
  /** Ids with neither a passed test nor a gap file. */
  readonly missing: readonly string[]
}

/** A failure of this command: what is wrong, and what to do. */
export class RulesError extends Error {
  readonly code: "NO_REPORT" | "BAD_REPORT" | "BAD_ARGUMENT"
  readonly remedy: string
  constructor(code: RulesError["code"], message: string, remedy: string) {
    super(message)
    this.code = code
    this.remedy = remedy
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null
const listOf = (value: unknown): readonly unknown[] | undefined => (Array.isArray(value) ? value : undefined)

/** Full titles of the tests that passed, from a report in vitest's JSON form. */
export const passedTitles = (file: string): readonly string[] => {
  let text: string
  try {
    text = readFileSync(file, "utf8")
  } catch {
    throw new RulesError(
      "NO_REPORT",
      "There is no report of a test run (.reports/tests.json).",
      "Run `npm test` first."
    )
  }
  const bad = () =>
    new RulesError("BAD_REPORT", "The report of the last test run cannot be read.", "Run `npm test` again.")
  let report: unknown
  try {
    report = JSON.parse(text)
  } catch {
    throw bad()
  }
  const results = isRecord(report) ? listOf(report["testResults"]) : undefined
  if (results === undefined) throw bad()
  return results.flatMap((result) => {
    const tests = isRecord(result) ? listOf(result["assertionResults"]) : undefined
    if (tests === undefined) throw bad()
    return tests.flatMap((test) => {
      if (!isRecord(test) || typeof test["fullName"] !== "string") throw bad()
      return test["status"] === "passed" ? [test["fullName"]] : []
    })
  })
}

/** Joins specification, passed titles and gap files; `requested` restricts the answer. */
export const rulesReport = (input: {
  readonly spec: Specification
  readonly titles: readonly string[]
  readonly gaps: readonly Gap[]
  readonly requested?: readonly string[]
}): RulesReport => {
  const tests = new Map<string, string[]>()
  for (const title of input.titles) {
    for (const id of idsIn(title)) tests.set(id, [...(tests.get(id) ?? []), title])
  }
  const gaps = new Map(input.gaps.flatMap((gap) => gap.ids.map((id) => [id, `docs/gaps/${gap.file}`] as const)))
  const defined = new Set(input.spec.ids)
  const ids = [...(input.requested ?? input.spec.ids)].sort(compareIds)
  const rules = ids
    .filter((id) => defined.has(id))
    .map((id) => ({ id, tests: tests.get(id) ?? [], gap: gaps.get(id) ?? null }))
  const shown = new Set(rules.filter((rule) => rule.tests.length > 0 || rule.gap !== null).map((rule) => rule.id))
  return { rules, missing: ids.filter((id) => !shown.has(id)) }
}

/** The plain form, for people. */
export const table = (report: RulesReport): string => {
  const lines = report.rules.flatMap(({ id, tests, gap }) => {
    const shown = [...tests, ...(gap === null ? [] : [`gap: ${gap}`])]
    return shown.map((text, index) => `${(index === 0 ? id : "").padEnd(5)} ${text}`)
  })
  const gaps = report.rules.filter((rule) => rule.gap !== null).length
  const tested = report.rules.filter((rule) => rule.tests.length > 0).length
  lines.push("", `${tested} with passed tests, ${gaps} with a gap file, ${report.missing.length} with neither`)
  if (report.missing.length > 0) lines.push(`neither: ${report.missing.join(" ")}`)
  return lines.join("\n")
}

const readArguments = (argv: readonly string[]) => {
  try {
    return parseArgs({
      args: [...argv],
      options: {
        json: { type: "boolean", default: false },
        ids: { type: "string" },
        issue: { type: "string" },
        root: { type: "string" }
      }
    }).values
  } catch (error) {
    throw new RulesError(
      "BAD_ARGUMENT",
      (error as Error).message,
      'Use `npm run rules -- [--json] [--ids "G1,G2" | --issue FILE]`.'
    )
  }
}

const requestedIds = (
  options: ReturnType<typeof readArguments>,
  spec: Specification
): readonly string[] | undefined => {
  if (options.ids === undefined && options.issue === undefined) return undefined
  let text = options.ids ?? ""
  if (options.issue !== undefined) {
    try {
      text += `\n${readFileSync(options.issue, "utf8")}`
    } catch {
      throw new RulesError("BAD_ARGUMENT", "The file given to --issue cannot be read.", "Name a readable text file.")
    }
  }
  const ids = idsAndRangesIn(text, spec)
  if (ids.length === 0) {
    throw new RulesError(
      "BAD_ARGUMENT",
      "What was asked for names no rule id.",
      "Name ids such as G1, or `G20 to G23`."
    )
  }
  return ids
}

const main = (argv: readonly string[]): number => {
  const options = readArguments(argv)
  const root = options.root ?? dirname(dirname(fileURLToPath(import.meta.url)))
  const spec = readSpecification(join(root, "docs", "spec"))
  const requested = requestedIds(options, spec)
  const report = rulesReport({
    spec,
    titles: passedTitles(join(root, ".reports", "tests.json")),
    gaps: readGaps(join(root, "docs", "gaps")),
    ...(requested === undefined ? {} : { requested })
  })
  console.log(options.json ? JSON.stringify(report) : table(report))
  return requested !== undefined && report.missing.length > 0 ? 1 : 0
}

if (import.meta.main) {
  try {
    process.exitCode = main(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof RulesError)) throw error
    console.error(`${error.code}: ${error.message}\nRemedy: ${error.remedy}`)
    process.exitCode = 2
  }
}
