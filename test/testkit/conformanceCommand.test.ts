/**
 * `npm run conformance` as people run it. Promise: it tells each scenario's outcome and reason, its exit code agrees, and arguments that
 * cannot be meant are refused with what can. Rules: K1, W1.
 */
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { expect, test } from "vitest"
import type { ScenarioResult } from "./runScenarios.ts"

const script = join(import.meta.dirname, "../../scripts/conformance.ts")

const run = (...args: readonly string[]) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: "utf8" })
  return { status, stdout, stderr }
}

test("W1 a missing or unknown provider, a number that is none, an unknown option and a title that nothing has are refused with the usage", () => {
  for (const args of [
    [],
    ["--provider", "nothing"],
    ["--provider", "layerfs", "--seed", "-1"],
    ["--provider", "layerfs", "--rounds", "1.5"],
    ["--provider", "layerfs", "--what"],
    ["--provider", "layerfs", "layerfs"],
    ["--provider", "layerfs", "--only", "no scenario of this title"]
  ]) {
    const refused = {
      status: 2,
      stderr: expect.stringMatching(/^BAD_ARGUMENT: [^]+\nRemedy: npm run conformance -- --provider layerfs/)
    }
    expect(run(...args), args.join(" ")).toMatchObject(refused)
  }
}, 300_000)

test("K1 W1 it runs each projection of a provider and prints what passed and what was skipped, with the reason, as JSON", () => {
  const { status, stdout, stderr } = run(
    "--provider",
    "layerfs",
    "--only",
    "extended attributes",
    "--seed",
    "7",
    "--json"
  )
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" })
  const told = JSON.parse(stdout) as { readonly suites: readonly { readonly scenarios: readonly ScenarioResult[] }[] }
  expect(told).toMatchObject({ provider: "layerfs", seed: 7, ok: true, lacking: [] })
  expect(told.suites).toMatchObject([{ kind: "layerfs-overlay" }, { kind: "layerfs-lazy" }, { kind: "layerfs-copy" }])
  for (const { scenarios } of told.suites) {
    expect(scenarios.map(({ outcome }) => outcome)).toEqual(["skipped", "skipped", "passed"])
    expect(scenarios[0]!.reason).toBe("the manifest says xattrs: false, and this is about true")
  }
}, 300_000)
