import { execFile, execFileSync } from "node:child_process"
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import * as Effect from "effect/Effect"
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest"
import { commitFixture, type Fixture, makeFixture } from "../../examples/explore-repair/make-fixture.ts"
import { processHost } from "../../providers/host-process/index.ts"
import { prove } from "../../src/evaluator/OracleProof.ts"
import { networkVariables, plainDirectory } from "../../src/host/PlainDirectory.ts"
import type { TurnProgress, TurnRequest } from "../../src/host/TurnProtocol.ts"

const example = fileURLToPath(new URL("../../examples/explore-repair", import.meta.url))
const inExample = (path: string): string => join(example, path)
const patches = (directory: string) =>
  readdirSync(inExample(directory)).map((name) => ({ name, patch: readFileSync(inExample(join(directory, name))) }))

// Each of these builds TypeScript several times: generous bounds, no proof by time.
vi.setConfig({ testTimeout: 180_000, hookTimeout: 240_000 })

let place: string
let base: Fixture
beforeAll(async () => {
  place = mkdtempSync(join(tmpdir(), "coppice-oracle-"))
  base = await makeFixture(join(place, "base"))
})
afterAll(() => rmSync(place, { recursive: true, force: true }))

const gitEnvironment = { PATH: process.env["PATH"], GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" }
const git = (cwd: string, ...argv: string[]): string =>
  execFileSync("git", argv, { cwd, env: gitEnvironment, encoding: "utf8" })

/** A copy of a directory, links and installed dependencies included, as a worker gets it. */
const copyOf = (from: string, name: string): string => {
  const to = join(place, name)
  cpSync(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
  return to
}

const changesIn = (checkout: string): string => {
  git(checkout, "add", "-A")
  return git(checkout, "diff", "--cached", "--full-index", "--binary")
}

/** One turn of a worker, through the same host that the demo uses. */
const turnOf = async (worker: string, root: string, findings: TurnRequest["findings"] = []) => {
  const progress: TurnProgress[] = []
  const host = processHost([process.execPath, inExample(`workers/${worker}.mjs`)])
  const request: TurnRequest = {
    protocol: "coppice.turn",
    version: 1,
    turnKey: `turn of ${worker}`,
    goal: { id: "goal_1", title: "Unreadable spend must still count" },
    todo: { id: "todo_1", title: "Repair the ledger" },
    instruction: "Make the failing test pass for the right reason.",
    findings,
    root,
    budget: { usd: 1, timeLimitMs: 180_000 }
  }
  const onProgress = (line: TurnProgress): void => void progress.push(line)
  const turn = host.turn({ environment: plainDirectory(root), request, timeLimitMs: 180_000, onProgress })
  return { ...(await Effect.runPromise(turn)), progress }
}

/** The exact-amount worker's checkpoint and what the receiver made of it: made once, whichever test asks first. */
const handedOver = (() => {
  const make = async () => {
    const half = copyOf(base.path, "exact-amount")
    const giver = await turnOf("exact-amount", half)
    const text = giver.result.findings?.[0]?.text ?? ""
    const received = copyOf(half, "received")
    const receiver = await turnOf("receiver", received, [{ id: "fnd_handed_over", status: "confirmed", text }])
    return { half, received, giver: giver.result, receiver: receiver.result }
  }
  let made: ReturnType<typeof make> | undefined
  return () => (made ??= make())
})()

const exitOf = async (
  program: string,
  argv: readonly string[],
  cwd: string
): Promise<{ code: number; out: string }> => {
  const { NODE_OPTIONS: _, ...env } = process.env
  try {
    return { code: 0, out: (await promisify(execFile)(program, argv, { cwd, env })).stdout }
  } catch (error) {
    const { code, stdout } = error as { code: number; stdout: string }
    return { code, out: stdout }
  }
}

describe("the fixture", () => {
  test("is the same commit wherever it is made, and a rich tree with installed dependencies", async () => {
    expect(await commitFixture(join(place, "again"))).toBe(base.commit)
    await expect(commitFixture(join(place, "again"))).rejects.toThrow(/not empty/)
    expect(base.files).toBeGreaterThan(500)
    expect(base.downloadSeconds).toBeGreaterThan(0)
    expect(git(base.path, "status", "--porcelain")).toBe("")
    expect(git(base.path, "ls-files", "package-lock.json")).toBe("package-lock.json\n")
  })

  test("shows its fault by one failing test, and its other tests pass", async () => {
    const tests = ["core/dist/test/ledger.test.js", "gate/dist/test/gate.test.js"].map((path) => `packages/${path}`)
    const run = await exitOf(process.execPath, ["--test", "--test-reporter=tap", ...tests], base.path)
    expect(run.code).toBe(1)
    const failing = [...run.out.matchAll(/^ {4}not ok \d+ - (.*)$/gm)].map(([, name]) => name)
    expect(failing).toEqual(["keeps an account throttled when the artifact of a spend is lost"])
    expect([...run.out.matchAll(/^ {4}ok /gm)]).toHaveLength(8)
  })
})

describe("the oracle", () => {
  test("E16 the oracle is red on the base, green on two independent fixes, red on each wrong route", async () => {
    const proof = await Effect.runPromise(
      prove(
        {
          name: "ledger",
          repository: base.path,
          base: base.commit,
          dependencies: {
            install: ["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"],
            decidedBy: [
              "package-lock.json",
              "package.json",
              "packages/core/package.json",
              "packages/gate/package.json"
            ],
            directories: ["node_modules"]
          },
          prepare: [{ argv: ["npm", "run", "-s", "build"], blame: "candidate" }],
          judge: [process.execPath, inExample("held-out/verify.mjs")],
          heldOut: inExample("held-out"),
          canary: readFileSync(inExample("held-out/canary"), "utf8").trim(),
          timeLimitMs: 120_000,
          scratch: join(place, "scratch"),
          environment: (directory) => plainDirectory(directory, { passEnv: networkVariables })
        },
        { fixes: patches("fixes"), wrong: patches("wrong") },
        { concurrency: 2 }
      )
    )
    const outcomes = [...proof.fixes, ...proof.wrong].map(({ name, verdict }) => [name, verdict.outcome])
    expect(proof.broken).toEqual([])
    expect(Object.fromEntries(outcomes)).toEqual({
      "a.patch": "passed",
      "b.patch": "passed",
      "catch-and-ignore.patch": "failed",
      "half-way.patch": "failed",
      "throttle-everyone.patch": "failed"
    })
    expect(proof.proven).toBe(true)
    const throttled = proof.wrong.find(({ name }) => name === "throttle-everyone.patch")
    const checks = Object.fromEntries(throttled?.verdict.checks.map(({ name, passed }) => [name, passed]) ?? [])
    // The route that hides the symptom passes every test that its author could see.
    expect(checks).toMatchObject({ "own-tests": true, "healthy-accounts-are-left-alone": false })
  }, 300_000)

  test("C115 a candidate that carries the canary of the held-out tests is refused", async () => {
    const { received: candidate } = await handedOver()
    const canary = readFileSync(inExample("held-out/canary"), "utf8").trim()
    const passed = async () => {
      const { code, out } = await exitOf(process.execPath, [inExample("held-out/verify.mjs")], candidate)
      const { checks } = JSON.parse(out) as { checks: { name: string; passed: boolean }[] }
      return { code, passed: checks.find(({ name }) => name === "canary-never-seen")?.passed }
    }
    expect(await passed()).toEqual({ code: 0, passed: true })
    writeFileSync(join(candidate, "docs", "notes.md"), `I found ${canary} somewhere.\n`)
    expect(await passed()).toEqual({ code: 1, passed: false })
    rmSync(join(candidate, "docs", "notes.md"))
  })

  test("E16 what cannot be judged is inconclusive, neither passed nor failed", async () => {
    const empty = mkdtempSync(join(place, "empty-"))
    const { code, out } = await exitOf(process.execPath, [inExample("held-out/verify.mjs")], empty)
    expect({ code, verdict: JSON.parse(out).verdict }).toEqual({ code: 3, verdict: "inconclusive" })
  })

  test("E16 the canary stands among the held-out files and nowhere else in the example", () => {
    const canary = readFileSync(inExample("held-out/canary"), "utf8").trim()
    const found = readdirSync(example, { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isFile() && readFileSync(join(entry.parentPath, entry.name)).includes(canary))
      .map((entry) => entry.name)
    expect(found).toEqual(["canary"])
  })
})

describe("the workers", () => {
  test("S51 the route that throttles everybody believes that it is done", async () => {
    const root = copyOf(base.path, "throttle-everyone")
    const report = await turnOf("throttle-everyone", root)
    expect(report.result).toMatchObject({ outcome: "completed", usage: { usd: 0.2 } })
    expect(report.progress.length).toBeGreaterThan(0)
    expect(changesIn(root)).toBe(readFileSync(inExample("wrong/throttle-everyone.patch"), "utf8"))
  })

  test("S51 the route that catches and ignores fails by its own tests and says why", async () => {
    const root = copyOf(base.path, "catch-and-ignore")
    const report = await turnOf("catch-and-ignore", root)
    expect(report.result).toMatchObject({ outcome: "failed", findings: [{ status: "refuted" }], usage: { usd: 0.2 } })
    expect(changesIn(root)).toBe(readFileSync(inExample("wrong/catch-and-ignore.patch"), "utf8"))
  })

  test("the half-way state is handed over, and the receiver uses the finding to finish it", async () => {
    const { half, received, giver, receiver } = await handedOver()
    expect(giver).toMatchObject({ outcome: "progress", findings: [{ status: "confirmed" }], usage: { usd: 0.2 } })
    expect(changesIn(half)).toBe(readFileSync(inExample("wrong/half-way.patch"), "utf8"))
    expect(receiver).toMatchObject({ outcome: "completed", usedFindings: ["fnd_handed_over"], usage: { usd: 0.2 } })
    const verdict = await exitOf(process.execPath, [inExample("held-out/verify.mjs")], received)
    const { checks } = JSON.parse(verdict.out) as { checks: { name: string; passed: boolean }[] }
    expect(checks.filter(({ passed }) => !passed)).toEqual([])
    expect(verdict.code).toBe(0)
  })

  test("the receiver refuses a state that is not the one handed over, and a hand-over without its finding", async () => {
    const root = copyOf(base.path, "not-half-way")
    const text = "Left to do: packages/gate/src/window.ts; move it to amountOf."
    const finding = { id: "fnd_1", status: "confirmed", text } as const
    expect((await turnOf("receiver", root, [finding])).result).toMatchObject({ outcome: "failed" })
    expect((await turnOf("receiver", root)).result).toMatchObject({ outcome: "failed" })
    expect(changesIn(root)).toBe("")
  })
})
