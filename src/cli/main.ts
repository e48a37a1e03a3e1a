/**
 * The `coppice` command: a thin reader over the services; it runs and exits.
 * Promise: exit code 0 when all is well, 1 when something is missing, 2 when the command line was not understood; answers go
 * to stdout, complaints to stderr; help, version and an unknown command load no provider. Rules: P1, V3.
 */
import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import { diagnose } from "../assembly/Doctor.ts"
import { coppiceVersion } from "../assembly/Preset.ts"
import { readCommandLine, usage } from "./CommandLine.ts"
import { doctorTable } from "./DoctorTable.ts"

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
  }
}

process.exitCode = await main(process.argv.slice(2))
