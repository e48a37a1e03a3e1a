// A worker for the journey's tests: speaks the stdio turn protocol and does what its first argument says.
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const request = JSON.parse(readFileSync(0, "utf8"))
const file = join(request.root, "value.txt")
const answer = (outcome, summary, more = {}) =>
  console.log(
    JSON.stringify({
      protocol: "coppice.turn",
      version: 1,
      turnKey: request.turnKey,
      outcome,
      summary,
      usage: { usd: 0.1 },
      ...more
    })
  )
switch (process.argv[2]) {
  case "hide":
    writeFileSync(file, "hidden\n")
    answer("completed", "looks right")
    break
  case "give-up":
    writeFileSync(file, "worse\n")
    answer("failed", "does not work", { findings: [{ status: "refuted", text: "worse is not better" }] })
    break
  case "half":
    writeFileSync(file, "half\n")
    writeFileSync(join(request.root, "ignored", "notes.txt"), "warm state\n")
    answer("progress", "half way", { findings: [{ status: "tentative", text: "append the second half" }] })
    break
  case "finish": {
    if (readFileSync(file, "utf8") !== "half\n") {
      answer("failed", "not the state that was handed over")
      break
    }
    readFileSync(join(request.root, "ignored", "notes.txt"))
    writeFileSync(file, "half and half\n")
    answer("completed", "finished", { usedFindings: request.findings.map((finding) => finding.id) })
    break
  }
  case "nothing":
    answer("completed", "nothing to do")
    break
}
