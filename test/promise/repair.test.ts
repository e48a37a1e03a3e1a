/**
 * The composed journeys of the promise entry, on a small real repository with each kind of agent.
 * Promise: the same report as the journeys themselves give, without a host or an effect in the caller's hands. Rules: J2, S54, W14.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { type AgentSpec, type ExploreRepairOptions, open } from "../../src/promise.ts"
import { makeTiny } from "../journey/tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const clean of cleanups.splice(0)) clean()
})

/** A repository whose judge takes `right`. */
const scene = () => {
  const tiny = makeTiny()
  cleanups.push(tiny.remove)
  const { record } = tiny
  const source = join(record, "source")
  writeFileSync(join(record, "held-out", "judge.sh"), "grep -qx right value.txt\n")
  return { record, source, heldOut: join(record, "held-out"), store: join(record, "store") }
}

const answer = `node -e 'const r=JSON.parse(require("fs").readFileSync(0)); console.log(JSON.stringify({protocol:"coppice.turn",version:1,turnKey:r.turnKey,outcome:"completed",summary:"done",usage:{usd:0.1}}))'`

test("J2 S54 a program, a command and a function are agents of one run; the right one is accepted and every step is told", async () => {
  const { record, source, heldOut, store } = scene()
  const agents: Record<string, AgentSpec> = {
    program: { program: ["sh", "-c", `echo wrong again > value.txt; ${answer}`] },
    command: { command: "echo right > value.txt", usd: 0 },
    function: {
      name: "mine",
      turn: ({ request, say }) => {
        say(`looked at ${request.goal.title}`)
        return { outcome: "failed", summary: "no idea", usage: { usd: 0.05 } }
      }
    }
  }
  const options: ExploreRepairOptions = {
    run: "r",
    title: "make it right",
    budget: { usd: 2, slots: 9 },
    source,
    record,
    routes: Object.entries(agents).map(([id, agent]) => ({
      id,
      title: id,
      instruction: "repair",
      agent,
      usd: 0.3,
      timeLimit: "2 minutes"
    })),
    oracle: { judge: ["sh", join(heldOut, "judge.sh")], heldOut }
  }
  await using coppice = await open({ store })
  const run = coppice.exploreRepair(options)
  const told: string[] = []
  for await (const step of run.progress) told.push(`${step.attempt ?? "run"} ${step.stage} ${step.text}`)
  const report = await run.result
  const outcomes = Object.fromEntries(report.attempts.map(({ id, outcome, usd }) => [id, { outcome, usd }]))
  expect(outcomes).toEqual({
    program: { outcome: "refused", usd: 0.1 },
    command: { outcome: "accepted", usd: 0 },
    function: { outcome: "failed", usd: 0.05 }
  })
  expect(report.accepted).toMatchObject({ attempt: "command", patch: "fix.patch", verification: { outcome: "passed" } })
  expect(readFileSync(join(record, "fix.patch"), "utf8")).toContain("+right")
  expect(told).toContain("function work looked at make it right")
  expect(told.some((line) => line.startsWith("command verdict passed"))).toBe(true)
  const goal = await coppice.goals.get({ goal: report.goal })
  expect(goal).toMatchObject({ title: "make it right", budget: { usd: 2, slots: 9 } })
  const settled = await coppice.settlements.list({ goal: report.goal })
  expect({ total: settled.total, accepted: settled.accepted }).toEqual({ total: 3, accepted: 1 })
  expect(coppice.assembly().parts.find((part) => part.name === "host-process")).toMatchObject({ loaded: true })

  const again = await coppice.exploreRepair(options)
  expect(again.accepted?.candidate).toBe(report.accepted?.candidate)
  expect((await coppice.settlements.list({ goal: report.goal })).total).toBe(3)
}, 120_000)

test("J2 W14 a repository is repaired by plain commands; a run that is cancelled half way ends, and the store takes the next", async () => {
  const { source, store, record } = scene()
  const options = {
    repository: source,
    attempts: ["echo wrong again > value.txt", { id: "b", command: "echo right > value.txt", timeLimit: "1 minute" }],
    verify: "grep -qx right value.txt",
    record: join(record, "run"),
    retryInterrupted: true,
    replay: false
  } as const
  await using coppice = await open({ store })
  const stop = new AbortController()
  const slow = [{ id: "a1", command: "sleep 1000" }, options.attempts[1]]
  const first = coppice.repairRepository(
    { ...options, attempts: slow, record: join(record, "stopped") },
    { signal: stop.signal }
  )
  const cancelled = (async () => {
    for await (const step of first.progress) if (step.stage === "ready" && step.attempt === "a1") stop.abort()
  })()
  await expect(cancelled).rejects.toMatchObject({ _tag: "Cancelled", name: "AbortError" })
  await expect(first.result).rejects.toMatchObject({ code: "CANCELLED" })

  const report = await coppice.repairRepository({ ...options, run: "second" })
  expect(report.attempts.map(({ id, outcome }) => [id, outcome])).toEqual([
    ["a1", "refused"],
    ["b", "accepted"]
  ])
  expect(report.base.outcome).toBe("failed")
  expect(report.source).toMatchObject({ branch: "main", changes: 0 })
  expect(existsSync(join(options.record, report.accepted!.patch))).toBe(true)
}, 120_000)

test("J2 what a journey is asked wrongly is refused by the code of the error, before anything was started", async () => {
  const { source, store, record, heldOut } = scene()
  await using coppice = await open({ store })
  const base = { run: "r", title: "t", budget: { usd: 1, slots: 1 }, source, record }
  const oracle = { judge: ["true"] as const, heldOut }
  const route = { id: "a", title: "a", instruction: "i", usd: 0.1 }
  const cases: readonly (readonly [() => Promise<unknown>, object])[] = [
    [
      () => coppice.exploreRepair({ ...base, oracle, routes: [{ ...route, agent: {} as never }] }),
      { code: "BAD_ARGUMENT", argument: "agent" }
    ],
    [
      () =>
        coppice.exploreRepair({
          ...base,
          oracle,
          routes: [{ ...route, agent: { command: "true" }, timeLimit: "soon" as never }]
        }),
      { code: "BAD_ARGUMENT", argument: "timeLimit" }
    ],
    [
      () => coppice.repairRepository({ repository: source, attempts: [], verify: "true", record }),
      { code: "REPAIR_OPTIONS", option: "attempts" }
    ],
    [
      () => coppice.repairRepository({ repository: source, attempts: [{} as never], verify: "true", record }),
      { code: "REPAIR_OPTIONS" }
    ],
    [
      () =>
        coppice.repairRepository({ repository: join(record, "held-out"), attempts: ["true"], verify: "true", record }),
      { remedy: expect.any(String) }
    ],
    // A place at which nothing can be made, and a file in the way.
    [
      () =>
        coppice.repairRepository({ repository: source, attempts: ["true"], verify: "true", record: "/proc/nowhere/r" }),
      { code: "FILE_NOT_WRITTEN", remedy: expect.any(String) }
    ],
    [
      () =>
        coppice.repairRepository({
          repository: source,
          attempts: ["true"],
          verify: "true",
          record: join(heldOut, "judge.sh", "r")
        }),
      { code: "FILE_NOT_WRITTEN", remedy: expect.any(String) }
    ],
    [() => coppice.repairRepository(undefined as never), { code: "BAD_ARGUMENT" }]
  ]
  for (const [call, shape] of cases) {
    const error = await call().then(
      () => undefined,
      (thrown: unknown) => thrown
    )
    expect(error).toMatchObject(shape)
  }
})
