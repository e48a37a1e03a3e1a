// node repair.ts SOURCE RECORD AGENT HELD_OUT: several agents try to repair one repository; what passes comes out as a patch.
import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import { exploreRepair, type Route, requireAccepted } from "coppice"
import { processHost } from "coppice/providers/host-process"
import { standard } from "coppice/standard"

const [source, record, agent, heldOut] = process.argv.slice(2).map((path) => resolve(path)) as [
  string,
  string,
  string,
  string
]

// Any program that speaks the stdio turn protocol: one JSON request on stdin, one JSON result on stdout.
const route = (id: string, title: string): Route => ({
  id,
  title,
  instruction: "Make the tests pass without changing them.",
  host: processHost(["node", agent, id]),
  usd: 0.5,
  timeLimit: "5 minutes"
})

const program = exploreRepair({
  run: "repair-1", // the same name again goes on where a killed run stopped
  title: "the tests are red",
  budget: { usd: 2, slots: 4 },
  source, // a git repository, dependencies installed; only read
  record, // patch, verdicts, findings
  routes: [route("a1", "the smallest change"), route("a2", "at the root of it")],
  oracle: { judge: ["node", `${heldOut}/judge.mjs`], heldOut }, // runs in a clean checkout; attempts cannot read it
  onProgress: ({ attempt, stage, text }) => console.error(attempt ?? "run", stage, text)
})

const report = await Effect.runPromise(
  program.pipe(Effect.flatMap(requireAccepted), Effect.provide(standard({ store: `${record}/store` })))
)
console.log(JSON.stringify({ patch: report.accepted?.patch, attempts: report.attempts.length, quota: report.quota }))
