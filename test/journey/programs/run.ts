/**
 * Runs a small repair in a process of its own, so that a test may kill it: `node run.ts RECORD retry|explain two|all RUN STORE`.
 * Prints the report, and what the stores say, as one JSON line. Every receipt that a caller has seen goes to `seen.jsonl`.
 */
import { appendFileSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import { processHost } from "../../../providers/host-process/index.ts"
import { Explore } from "../../../src/explore/index.ts"
import { Authority, Candidates, Quota, Turns } from "../../../src/governance/index.ts"
import { exploreRepair, isCoppiceError, type Route } from "../../../src/index.ts"
import { standard } from "../../../src/standard.ts"
import { Workspaces } from "../../../src/workspace/WorkspaceProvider.ts"

const record = process.argv[2]!
// What is left in the temporary directory is then seen by the history check.
process.env["TMPDIR"] = join(record, "tmp")
mkdirSync(join(record, "tmp"), { recursive: true })
const source = join(record, "source")
const worker = fileURLToPath(new URL("worker.mjs", import.meta.url))
const route = (id: string, behaviour: string): Route => ({
  id,
  title: behaviour,
  instruction: behaviour,
  host: processHost([process.execPath, worker, behaviour]),
  usd: 0.3,
  timeLimit: "1 minute"
})

/** The authority, with each receipt written down once its caller has it: whatever dies later must not lose it (G2). */
const seenReceipts = Effect.map(Authority, (authority): Authority["Service"] => ({
  ...authority,
  commit: (command) =>
    Effect.tap(authority.commit<never, never>(command), ({ seq }) =>
      Effect.map(authority.journal({ after: seq - 1, limit: 1 }), ([last]) =>
        appendFileSync(
          join(record, "seen.jsonl"),
          `${JSON.stringify({ id: command.id, seq, facts: last?.command === command.id })}\n`
        )
      )
    )
}))

const program = Effect.gen(function* () {
  const report = yield* exploreRepair({
    run: process.argv[5] ?? "tiny",
    title: "make the value right",
    budget: { usd: 5, slots: 20 },
    source,
    prepare: { argv: ["sh", "-c", "echo prepared > ignored/prepared.txt"] },
    routes:
      process.argv[4] === "all"
        ? [route("a1", "hide"), route("a2", "give-up"), route("a3", "half"), route("a4", "nothing")]
        : [route("a1", "hide"), route("a3", "half")],
    receiver: route("r1", "finish"),
    oracle: {
      name: "tiny-oracle",
      judge: ["sh", join(record, "held-out", "judge.sh")],
      heldOut: join(record, "held-out"),
      dependencies: {
        install: ["mkdir", "clean-dependencies"],
        decidedBy: [".gitignore"],
        directories: ["clean-dependencies"]
      },
      timeLimit: "1 minute"
    },
    replay: [{ argv: ["grep", "-q", "half and half", "value.txt"], blame: "candidate" }],
    record,
    retryInterrupted: process.argv[3] !== "explain"
  })
  const workspaces = yield* Workspaces
  const authority = yield* Authority
  const turns = yield* Turns.list({ goal: report.goal })
  return {
    report,
    journal: yield* authority.verify,
    store: yield* workspaces.verify(),
    left: yield* workspaces.left,
    planned: (yield* Candidates.planned({ goal: report.goal })).items.length,
    candidates: (yield* Candidates.list({ goal: report.goal })).items.map(({ state, operationId }) => ({
      state,
      operationId
    })),
    quota: yield* Quota.status({ goal: report.goal }),
    turns: turns.items.map(({ phase, state, attempts, todo }) => ({ phase, state, todo, attempts: attempts.length })),
    graph: yield* Explore.graph({ goal: report.goal })
  }
})

// As the demo does: Ctrl-C ends workers, workspaces and checkouts in order, and the same record goes on.
const stop = new AbortController()
process.once("SIGINT", () => stop.abort()).once("SIGTERM", () => stop.abort())
try {
  console.log(
    JSON.stringify(
      await Effect.runPromise(
        program.pipe(
          Effect.provideServiceEffect(Authority, seenReceipts),
          Effect.provide(standard({ store: process.argv[6] ?? join(record, "store") }))
        ),
        { signal: stop.signal }
      )
    )
  )
} catch (error) {
  console.log(JSON.stringify({ error: isCoppiceError(error) ? error : String((error as Error).stack) }))
  process.exitCode = 1
}
