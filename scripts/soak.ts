/**
 * `npm run soak -- demo --minutes 5 [--full]`, `-- matrix [--only NAME] [--passages N]`, `-- layerfs --rounds 1000 --minutes 60`,
 * `-- governance --minutes 10`: kills that go on for as long as they are let.
 * Promise: every random choice comes from the printed seed (--seed repeats); after each kill and each rerun everything is
 * checked; the first fault ends the soak with a non-zero code and keeps the directory it was found in.
 * Rules: L8, G75, G82, J2; 02 "Numbers".
 */
import { parseArgs } from "node:util"
import { soakDemo, soakFullDemo } from "./soak/demo.ts"
import { soakGovernance } from "./soak/governance.ts"
import { soakLayerFs } from "./soak/layerfs.ts"
import { soakMatrix } from "./soak/matrix.ts"

export interface SoakOptions {
  readonly seed: number
  readonly minutes: number
  readonly rounds: number
  readonly passages: number
  readonly only: string | undefined
  readonly jobs: number
  readonly say: (text: string) => void
}

/** What a soak came to; printed as one line of JSON. */
export interface SoakResult {
  readonly rounds: number
  readonly kills: number
  readonly faults: readonly string[]
  /** Where the first fault can be looked at; null when there was none. */
  readonly kept: string | null
}

const usage =
  "npm run soak -- demo [--minutes N] [--full] | matrix [--only NAME] [--passages N] | layerfs [--minutes N] [--rounds N] | governance [--minutes N]   [--seed S] [--jobs N]"

const fail = (text: string): never => {
  console.error(`${text}\n${usage}`)
  process.exit(2)
}

const number = (name: string, text: string | undefined, fallback: number): number => {
  const value = text === undefined ? fallback : Number(text)
  return Number.isFinite(value) && value > 0 ? value : fail(`--${name} takes a number above 0.`)
}

const given = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        minutes: { type: "string" },
        rounds: { type: "string" },
        passages: { type: "string" },
        only: { type: "string" },
        seed: { type: "string" },
        jobs: { type: "string" },
        full: { type: "boolean", default: false }
      }
    })
  } catch (error) {
    return fail((error as Error).message)
  }
}

const { values, positionals } = given()
const options: SoakOptions = {
  seed: number("seed", values.seed, 1 + (Date.now() % 1_000_000)),
  minutes: number("minutes", values.minutes, 5),
  rounds: number("rounds", values.rounds, 1000),
  passages: number("passages", values.passages, 3),
  only: values.only,
  jobs: number("jobs", values.jobs, 2),
  say: (text) => process.stderr.write(`${text}\n`)
}
const soaks: Readonly<Record<string, (options: SoakOptions) => Promise<SoakResult>>> = {
  demo: values.full ? soakFullDemo : soakDemo,
  matrix: soakMatrix,
  layerfs: soakLayerFs,
  governance: soakGovernance
}
const [what = "", ...more] = positionals
const soak = more.length === 0 ? soaks[what] : undefined
if (soak === undefined) fail(`There is no soak "${positionals.join(" ")}".`)
options.say(`seed ${options.seed}`)
const result = await soak!(options)
console.log(JSON.stringify({ soak: what, seed: options.seed, ...result }))
process.exitCode = result.faults.length === 0 ? 0 : 1
