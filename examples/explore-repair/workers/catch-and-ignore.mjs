// Route "catch and ignore": the artifact that cannot be read is logged and counted as 0. Its own run of the tests shows
// that this is the fault itself, said louder; the worker reports that as a finding for those who come after.
import { takeTurn } from "./turn.mjs"

takeTurn(({ progress, read, sed, build, tests }) => {
  const window = "packages/gate/src/window.ts"
  if (!read(window).includes("if (artifact === undefined) continue")) {
    return { outcome: "failed", summary: "The window is not as this route needs it." }
  }
  progress("logging unreadable artifacts and counting them as 0")
  const log = "console.warn(`The artifact of spend ${row.id} cannot be read, counting 0`)"
  sed(`s/if (artifact === undefined) continue/if (artifact === undefined) ${log}/`, window)
  sed("s/amounts.push(artifact.usd)/amounts.push(artifact?.usd ?? 0)/", window)
  progress("building and testing")
  build()
  if (tests("gate")) return { outcome: "completed", summary: "Unreadable artifacts are logged and counted as 0." }
  return {
    outcome: "failed",
    summary: "Counting an unreadable artifact as 0 still makes the throttled account eligible.",
    findings: [
      {
        status: "refuted",
        text:
          "Handling the read error where amounts are added up cannot work: the row holds no amount, so at that moment the " +
          "exact one is already lost. It has to be stored when the spend is recorded."
      }
    ]
  }
})
