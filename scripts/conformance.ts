/**
 * `npm run conformance -- --provider NAME [--json] [--only TEXT] [--seed N] [--rounds N]`: the workspace suite over one provider, in each of its
 * projections, outside of any test runner.
 * Promise: every scenario is told as passed, failed or skipped, with the reason; exit code 1 when one failed or none could be run, 2 when the arguments cannot be
 * meant; the seed of the random work is told and `--seed` repeats it. Rules: K1 to K4, W1.
 */
import { join } from "node:path"
import { parseArgs } from "node:util"
import { workspaceConformance } from "../src/testkit/index.ts"
import { oneFile } from "../test/oneFile.ts"
import { runScenarios, type ScenarioResult } from "../test/testkit/runScenarios.ts"
import { kindOf, lackOfKind, type WorkspaceKind, workspaceKinds, workspacesOf } from "../test/testkit/workspaceKinds.ts"

const kinds = Object.keys(workspaceKinds) as WorkspaceKind[]
const providers = [...new Set(kinds.map((kind) => kindOf(kind).provider))]

const usage = `npm run conformance -- --provider ${providers.join("|")} [--json] [--only TEXT] [--seed N] [--rounds N]`

const fail = (what: string): never => {
  console.error(`BAD_ARGUMENT: ${what}\nRemedy: ${usage}`)
  process.exit(2)
}

const given = () => {
  try {
    return parseArgs({
      options: {
        provider: { type: "string" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
        only: { type: "string", default: "" },
        seed: { type: "string" },
        rounds: { type: "string", default: "6" }
      }
    }).values
  } catch (error) {
    return fail((error as Error).message)
  }
}

const whole = (name: string, text: string): number =>
  /^[1-9]\d{0,8}$/.test(text) ? Number(text) : fail(`--${name} takes a whole number above 0.`)

const { provider, json, only, help, ...numbers } = given()
if (help) {
  console.log(`${usage}

  --provider  which one; each of its projections and file systems that this machine has is run
  --json      one object: every scenario with its outcome, and what could not be run with the reason
  --only      scenarios whose title holds this text
  --seed      of the random work; told in every run
  --rounds    of the random work; 6 when absent
  exit code   0 all passed, 1 one failed or none could be run, 2 not understood`)
  process.exit(0)
}
if (provider === undefined) fail("--provider is missing.")
const chosen = kinds.filter((kind) => kindOf(kind).provider === provider)
if (chosen.length === 0) fail(`There is no provider ${provider}.`)
const seed = whole("seed", numbers.seed ?? String(1 + (Date.now() % 1_000_000)))
const rounds = whole("rounds", numbers.rounds)

const count = (results: readonly ScenarioResult[], outcome: ScenarioResult["outcome"]): number =>
  results.filter((one) => one.outcome === outcome).length

const program = await oneFile(join(import.meta.dirname, "../test/testkit/programs/workspaces.ts"))
const say = (text: string): void => void (json || console.log(text))
const suites = []
const lacking = []
for (const kind of chosen) {
  const lack = lackOfKind(kind)
  if (lack !== null) {
    lacking.push({ kind, lack })
    say(`${kind} cannot be run here: ${lack}`)
    continue
  }
  say(`${kind}, seed ${seed}`)
  const under = workspacesOf(kind, { worker: [process.execPath, program, "serve", kind], fuzz: { seed, rounds } })
  const scenarios = await runScenarios(await workspaceConformance(under), only, ({ outcome, scenario, reason }) =>
    say(`  ${outcome.padEnd(7)} ${scenario}${reason === undefined ? "" : `\n          ${reason}`}`)
  )
  const [passed, failed, skipped] = (["passed", "failed", "skipped"] as const).map((one) => count(scenarios, one))
  say(`  ${passed} passed, ${failed} failed, ${skipped} skipped`)
  suites.push({ kind, passed, failed, skipped, scenarios })
}
if (suites.length > 0 && suites.every(({ scenarios }) => scenarios.length === 0)) {
  fail(`No scenario has --only ${only} in its title.`)
}
const ok = suites.length > 0 && suites.every(({ failed }) => failed === 0)
if (json) console.log(JSON.stringify({ provider, seed, rounds, ok, suites, lacking }))
process.exitCode = ok ? 0 : 1
