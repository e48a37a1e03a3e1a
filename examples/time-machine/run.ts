/**
 * `node examples/time-machine/run.ts [DIRECTORY] [--svg FILE] [--json]`: see README.md beside it.
 * Promise: a table and the graph (or with --json one object) on stdout; exit code 0 when the call was found and the fork before it
 * works, 2 when not; killed at any point and run again with the same DIRECTORY it goes on. Without one it leaves nothing behind.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { parseArgs } from "node:util"
import { type Found, timeMachine } from "./machine.ts"

const usage = (): never => {
  console.error("usage: node run.ts [DIRECTORY] [--svg FILE] [--json]")
  process.exit(2)
}
const given = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: { svg: { type: "string" }, json: { type: "boolean", default: false } }
    })
  } catch {
    return usage()
  }
}

const table = ({ calls, added, broken, suspects, culprit, works, graph }: Found): string =>
  [
    `calls       ${calls} commits, ${added} of them made now`,
    `test        ${broken}`,
    ...suspects.flatMap(({ call, message, line, writtenAt, before }) => [
      `blame       ${call} "${message}" wrote \`${line}\` at ${writtenAt}`,
      `            before it: ${before}`
    ]),
    `culprit     ${culprit ?? "none of them"}`,
    ...(works === null ? [] : [`fork        the state before it works: ${works.test} (${works.branch})`]),
    "",
    graph
  ].join("\n")

const { values, positionals } = given()
const [directory] = positionals
if (
  positionals.length > 1 ||
  (directory !== undefined && existsSync(directory) && !statSync(directory).isDirectory())
) {
  usage()
}
// Not below /tmp: commands inside of a workspace have a private one.
const place = directory === undefined ? mkdtempSync("/var/tmp/coppice-time-machine-") : resolve(directory)
mkdirSync(place, { recursive: true })
console.error(`directory   ${place}`)
try {
  const found = await timeMachine(join(place, "store"), (text) => console.error(`progress    ${text}`))
  if (values.svg !== undefined) writeFileSync(values.svg, found.svg)
  console.log(values.json ? JSON.stringify(found) : table(found))
  process.exitCode = found.culprit !== null && found.works !== null ? 0 : 2
  // Nobody named it, so nobody comes back to it; after a failure it stays, and the first line said where it is.
  if (directory === undefined) rmSync(place, { recursive: true, force: true })
} catch (error) {
  const { message, remedy } = error as { readonly message: string; readonly remedy?: string }
  if (remedy === undefined) throw error
  console.error(`${message} ${remedy}`)
  process.exitCode = 1
}
