// An agent, as any program can be one: a request on stdin, the work in its working directory, a result on stdout.
// It adds up ledger.csv and writes total.txt. Called with `lazy` it only says that it did.
import { appendFileSync, readFileSync, writeFileSync } from "node:fs"

const request = JSON.parse(readFileSync(0, "utf8"))
appendFileSync("dispatches.log", `${request.turnKey}\n`)
console.error(JSON.stringify({ coppice: "progress", text: "adding up" }))
if (process.argv[2] !== "lazy") {
  const cents = readFileSync("ledger.csv", "utf8")
    .trim()
    .split("\n")
    .map((line) => Math.round(Number(line.split(",")[1]) * 100))
  writeFileSync("total.txt", `${(cents.reduce((sum, amount) => sum + amount, 0) / 100).toFixed(2)}\n`)
}
console.log(
  JSON.stringify({
    protocol: "coppice.turn",
    version: 1,
    turnKey: request.turnKey,
    outcome: "completed",
    summary: "total.txt is written",
    usage: { usd: 0.05 }
  })
)
