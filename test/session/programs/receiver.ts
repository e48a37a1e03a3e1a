/**
 * The receiver of deliveries, a process of its own with a log of its own: `node receiver.ts DIRECTORY MODE`.
 * Listens on a socket in DIRECTORY, prints `ready`, appends one line a message to DIRECTORY/log before it answers. MODE `answers`,
 * `deaf` (logs, and ends the connection without a reply), `mute` (logs, and never replies), `refuses`.
 * GET /ID says whether it has the message.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"

const [directory, mode] = process.argv.slice(2) as [string, string]
const log = join(directory, "log")
const has = (id: string): boolean =>
  existsSync(log) &&
  readFileSync(log, "utf8")
    .split("\n")
    .some((line) => line.includes(`"${id}"`))

createServer((request, response) => {
  if (request.method === "GET") {
    response.end(JSON.stringify({ has: has((request.url ?? "/").slice(1)) }))
    return
  }
  const chunks: Buffer[] = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    const text = Buffer.concat(chunks).toString()
    if (mode === "refuses") {
      response.statusCode = 410
      response.end("gone")
      return
    }
    appendFileSync(log, `${text}\n`)
    if (mode === "deaf") request.socket.destroy()
    else if (mode === "answers") response.end(JSON.stringify({ receipt: "seen-1" }))
  })
}).listen(join(directory, "socket"), () => console.log("ready"))
