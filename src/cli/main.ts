/**
 * The `coppice` command: a thin reader over the services; it runs and exits.
 * Promise: exit code 0 when all is well, 1 when something is missing, 2 when the command line was not understood; answers go
 * to stdout, complaints to stderr; help, version and an unknown command load no provider. Rules: P1, V3.
 */
import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import { diagnose } from "../assembly/Doctor.ts"
import { coppiceVersion } from "../assembly/Preset.ts"
import * as Result from "effect/Result"
import { storedHistory } from "../assembly/StoredHistory.ts"
import { graphSvg } from "../workspace/HistoryGraphSvg.ts"
import { graphText } from "../workspace/HistoryGraphText.ts"
import { type Asked, readCommandLine, usage } from "./CommandLine.ts"
import { doctorTable } from "./DoctorTable.ts"

const showHistory = async (asked: Extract<Asked, { readonly do: "history" }>): Promise<number> => {
  const { ref, provider, only, limit, as } = asked
  const store = asked.store === undefined ? undefined : resolve(asked.store)
  const read = storedHistory({ store, ref, provider, only, ...(limit === undefined ? {} : { limit }) })
  const found = await Effect.runPromise(Effect.result(read))
  if (Result.isFailure(found)) {
    console.error(`${found.failure.code}: ${found.failure.message}\nRemedy: ${found.failure.remedy}`)
    return 1
  }
  const graph = found.success
  const text = graph.rows.length === 0 ? "(the project has no branch yet)" : graphText(graph)
  console.log(as === "json" ? JSON.stringify(graph) : as === "svg" ? graphSvg(graph) : text)
  return 0
}

const main = async (argv: readonly string[]): Promise<number> => {
  const asked = readCommandLine(argv)
  switch (asked.do) {
    case "help":
      console.log(usage)
      return 0
    case "version":
      console.log(coppiceVersion)
      return 0
    case "usageError":
      console.error(`USAGE: ${asked.message}\n\n${usage}`)
      return 2
    case "doctor": {
      const store = asked.store === undefined ? undefined : resolve(asked.store)
      const report = await Effect.runPromise(diagnose({ store }))
      console.log(asked.json ? JSON.stringify(report) : doctorTable(report))
      return report.ok ? 0 : 1
    }
    case "history":
      return showHistory(asked)
  }
}

process.exitCode = await main(process.argv.slice(2))
