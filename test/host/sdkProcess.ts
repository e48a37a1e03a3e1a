/**
 * A process that embeds the SDK and runs one turn: the tests start it, and kill it.
 * Arguments: the root, the hold ("" for the strongest), the script of the host. Prints the turn's report when it ends.
 */
import * as Effect from "effect/Effect"
import { processHost } from "../../providers/host-process/index.ts"
import type { Hold } from "../../src/base/ProcessTree.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"

const [root = "", hold = "", script = ""] = process.argv.slice(2)
const environment = plainDirectory(root, {
  passEnv: ["COPPICE_TEST_MARK"],
  ...(hold === "" ? {} : { hold: hold as Hold })
})
const turn = processHost(["sh", "-c", script], { graceMs: 200 }).turn({
  environment,
  request: {
    protocol: "coppice.turn",
    version: 1,
    turnKey: "turn-key-1",
    goal: { id: "goal_1", title: "a goal" },
    todo: { id: "todo_1", title: "a todo" },
    instruction: "do it",
    findings: [],
    root,
    budget: { usd: null, timeLimitMs: 60_000 }
  },
  timeLimitMs: 60_000
})
console.log(JSON.stringify(await Effect.runPromise(turn)))
