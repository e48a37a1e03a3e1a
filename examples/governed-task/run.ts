/**
 * `node examples/governed-task/run.ts [DIRECTORY] [--retry] [--lazy] [--json]`: see README.md beside it.
 * Promise: a table (or with --json one object) on stdout; exit code 0 when the work was accepted, 2 when it was not; killed at any
 * point and run again with the same DIRECTORY it goes on. Without one it leaves nothing behind once it has ended.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../../src/index.ts"
import { minimal } from "../../src/minimal.ts"
import { taskTable } from "./table.ts"
import { runTask } from "./task.ts"

const usage = (): never => {
  console.error("usage: node run.ts [DIRECTORY] [--retry] [--lazy] [--json]")
  process.exit(2)
}
const given = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        retry: { type: "boolean", default: false },
        lazy: { type: "boolean", default: false },
        json: { type: "boolean", default: false }
      }
    })
  } catch {
    return usage()
  }
}
const { values, positionals } = given()
const [directory] = positionals
if (
  positionals.length > 1 ||
  (directory !== undefined && existsSync(directory) && !statSync(directory).isDirectory())
) {
  usage()
}
const place = directory === undefined ? mkdtempSync(join(tmpdir(), "coppice-task-")) : resolve(directory)
mkdirSync(place, { recursive: true })
console.error(`directory   ${place}`)

const { retry, lazy } = values
const task = runTask({ place, retry, lazy, onProgress: (text) => console.error(`progress    ${text}`) })
try {
  const report = await Effect.runPromise(Effect.provide(task, minimal({ store: join(place, "store") })))
  console.log(values.json ? JSON.stringify(report) : taskTable(report))
  process.exitCode = report.settlements.some((settlement) => settlement.accepted) ? 0 : 2
  // Nobody named it, so nobody comes back to it; after a failure it stays, and the first line said where it is.
  if (directory === undefined) rmSync(place, { recursive: true, force: true })
} catch (error) {
  if (!isCoppiceError(error)) throw error
  console.error(`${error.message} ${error.remedy}`)
  process.exitCode = 1
}
