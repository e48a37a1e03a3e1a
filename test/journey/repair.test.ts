import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, expect, it } from "vitest"
import { processHost } from "../../providers/host-process/index.ts"
import { exploreRepair, type RepairOptions, requireAccepted } from "../../src/index.ts"
import { standard } from "../../src/standard.ts"
import { makeTiny } from "./tiny.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

/** A repository whose oracle takes `right`, and agents that are given as shell lines. */
const scene = () => {
  const tiny = makeTiny()
  cleanups.push(tiny.remove)
  writeFileSync(join(tiny.record, "held-out", "judge.sh"), "grep -qx right value.txt\n")
  const answer = (more: string) =>
    `node -e 'const r=JSON.parse(require("fs").readFileSync(0)); console.log(JSON.stringify({protocol:"coppice.turn",version:1,turnKey:r.turnKey,outcome:"completed",summary:"done",${more}}))'`
  const route = (id: string, shell: string, usage = "usage:{usd:0.1}") => ({
    id,
    title: id,
    instruction: "repair",
    host: processHost(["sh", "-c", `${shell}; ${answer(usage)}`]),
    usd: 0.3,
    timeLimit: "20 seconds" as const
  })
  const run = (options: Partial<RepairOptions> & Pick<RepairOptions, "routes">) =>
    exploreRepair({
      run: "r",
      title: "make it right",
      budget: { usd: 2, slots: 9 },
      source: join(tiny.record, "source"),
      record: tiny.record,
      oracle: { judge: ["sh", join(tiny.record, "held-out", "judge.sh")], heldOut: join(tiny.record, "held-out") },
      ...options
    }).pipe(Effect.provide(standard({ store: join(tiny.record, "store") })))
  return { ...tiny, route, run }
}

it("G72 two attempts that pass at once: one is accepted, the other is told so, both are settled and paid", async () => {
  const { route, run } = scene()
  const report = await Effect.runPromise(
    run({ routes: [route("a", "echo right > value.txt"), route("b", "echo right > value.txt")] })
  )
  expect(report.attempts.map((attempt) => attempt.outcome).toSorted()).toEqual(["accepted", "passedNotChosen"])
  expect(report.settlements).toEqual({ accepted: 1, total: 2 })
  expect(report.quota).toMatchObject({ spent: 0.2, reserved: 0 })
})

it("E15 G55 attempts that fail, hang, delete everything, leave a background process or lose the budget stay in the report", async () => {
  const { route, run, record } = scene()
  const report = await Effect.runPromise(
    run({
      budget: { usd: 1, slots: 9 },
      workers: 1,
      routes: [
        route("exits", "exit 3"),
        { ...route("hangs", "sleep 600"), timeLimit: "1 second" },
        route("deletes", 'rm -rf "$PWD"/* "$PWD"/.g*'),
        route("background", "setsid sleep 600 >/dev/null 2>&1 & echo right > value.txt"),
        route("too-late", "echo right > value.txt")
      ]
    })
  )
  const outcome = Object.fromEntries(report.attempts.map((a) => [a.id, [a.outcome, a.reason]]))
  expect(outcome["exits"]).toEqual(["failed", expect.stringContaining("exit code 3")])
  expect(outcome["hangs"]?.[0]).toBe("failed")
  expect(outcome["deletes"]?.[0]).toBe("refused")
  expect(outcome["background"]?.[0]).toBe("accepted")
  // Two costs are unknown and stay held: what is left does not hold a fifth attempt, which was never started.
  expect(outcome["too-late"]).toEqual(["failed", expect.stringContaining("QUOTA_EXCEEDED")])
  expect(report.quota).toMatchObject({ spent: 0.2, reserved: 0.6 })
  expect(readFileSync(join(record, "source", "value.txt"), "utf8")).toBe("wrong\n")
})

it("W17 C115 attempts cannot read held-out tests, the store, the record or the origin's repository outside their own copy", async () => {
  const { route, run, record } = scene()
  const probe = ["held-out/judge.sh", "store/authority.db", "verdicts", "results"]
    .map((name) => `test -e ${join(record, name)} && echo ${name} >> seen.txt`)
    .join("; ")
  const report = await Effect.runPromise(
    run({ routes: [route("spy", `${probe}; echo right > value.txt; touch seen.txt`)] })
  )
  const patch = readFileSync(join(record, "attempts", "spy.patch"), "utf8")
  expect(patch).toContain("seen.txt")
  for (const name of ["judge.sh", "authority.db", "verdicts", "results"]) expect(patch).not.toContain(name)
  expect(report.attempts[0]).toMatchObject({ isolation: "enforced", outcome: "accepted" })
})

it("W13 a record inside the source, a source that is no repository and a source without a commit are refused, and nothing is made", async () => {
  const { run, route, record } = scene()
  const routes = [route("a", "true")]
  const source = join(record, "source")
  const failed = (options: Partial<RepairOptions>) => Effect.runPromise(Effect.flip(run({ routes, ...options })))
  expect(await failed({ record: join(source, "record") })).toMatchObject({
    code: "IMPORT_REFUSED",
    reason: "storeInside"
  })
  expect(existsSync(join(source, "record"))).toBe(false)
  expect(await failed({ source: join(record, "nothing") })).toMatchObject({
    code: "SOURCE_UNUSABLE",
    reason: "notFound"
  })
  const refused = async (options: Partial<RepairOptions>) => ((await failed(options)) as { option?: string }).option
  expect(await refused({ run: " " })).toBe("run")
  expect(await refused({ routes: [] })).toBe("routes")
  expect(await refused({ routes: [...routes, ...routes] })).toBe("routes")
  expect(await refused({ budget: { usd: 0.1, slots: 1 } })).toBe("budget")
  expect(await refused({ routes: [{ ...routes[0]!, timeLimit: "5 fortnights" as never }] })).toBe("timeLimit")
  const judge = ["sh", "judge.sh"] as const
  expect(await refused({ oracle: { judge, heldOut: join(record, "gone") } })).toBe("oracle.heldOut")
  expect(await refused({ oracle: { judge, heldOut: join(source, "ignored") } })).toBe("oracle.heldOut")
  symlinkSync(source, join(record, "link"))
  expect(await failed({ record: join(record, "link", "record") })).toMatchObject({ code: "IMPORT_REFUSED" })
  expect(await refused({ workers: 0 })).toBe("workers")
  expect(await refused({ workers: Number.NaN })).toBe("workers")
  expect(await failed({ base: "nosuch" })).toMatchObject({ code: "SOURCE_UNUSABLE", reason: "noSuchCommit" })
  expect(readdirSync(record).toSorted()).toEqual(["held-out", "link", "source", "store"])
  const empty = join(record, "empty")
  mkdirSync(empty)
  const error = await failed({ source: empty })
  expect(error).toMatchObject({ code: "SOURCE_UNUSABLE", reason: "notARepository" })
  expect(error.remedy).not.toBe("")
  expect(readdirSync(empty)).toEqual([])
})

it("E15 a run in which nothing passed is a report; requireAccepted names every attempt and why", async () => {
  const { route, run } = scene()
  const error = await Effect.runPromise(
    Effect.flip(run({ routes: [route("a", "true")] }).pipe(Effect.flatMap(requireAccepted)))
  )
  expect(error).toMatchObject({ code: "NOTHING_ACCEPTED", attempts: [{ id: "a", outcome: "failed" }] })
})

it("G2 a record that was made for another source is refused; the same run again keeps what was measured", async () => {
  const { route, run, record } = scene()
  const routes = [route("a", "echo right > value.txt")]
  const first = await Effect.runPromise(run({ routes }))
  const again = await Effect.runPromise(run({ routes }))
  expect(again.attempts).toEqual(first.attempts)
  const other = scene()
  const error = await Effect.runPromise(Effect.flip(run({ routes, source: join(other.record, "source") })))
  expect(error).toMatchObject({ code: "REPAIR_OPTIONS", option: "run" })
  expect(readFileSync(join(record, "verdicts", "a.log"), "utf8")).toContain("judge.sh")
})

it("G54 C57 a saved result that is damaged later changes no amount, and the report of the same run says that it is", async () => {
  const { route, run, record } = scene()
  const routes = [route("a", "echo right > value.txt")]
  const first = await Effect.runPromise(run({ routes }))
  expect(first.quota).toMatchObject({ spent: 0.1, reserved: 0, unreadableEvidence: 0 })
  const result = join(record, "results", `${first.attempts[0]!.turn}.json`)
  const before = readFileSync(result)
  writeFileSync(result, "[]")
  expect((await Effect.runPromise(run({ routes }))).quota).toEqual({ ...first.quota, unreadableEvidence: 1 })
  writeFileSync(result, before)
  expect((await Effect.runPromise(run({ routes }))).quota).toEqual(first.quota)
})

it("G2 E15 a run whose record was deleted still says what was accepted, gives the patch again, and calls the lost verdict unknown", async () => {
  const { route, run, record } = scene()
  const routes = [route("a", "echo right > value.txt")]
  const first = await Effect.runPromise(run({ routes }))
  const patch = readFileSync(join(record, "fix.patch"))
  for (const name of [
    "verdicts",
    "results",
    "attempts",
    "run.json",
    "about.json",
    "source.json",
    "graph.mmd",
    "graph.json",
    "fix.patch",
    "base"
  ]) {
    rmSync(join(record, name), { recursive: true, force: true })
  }
  const again = await Effect.runPromise(run({ routes }))
  expect(again.accepted).toEqual({ ...first.accepted, verification: null })
  expect(again.settlements).toEqual({ accepted: 1, total: 1 })
  expect(readFileSync(join(record, "fix.patch"))).toEqual(patch)
})

it("W16 ignored files stay out of a patch whatever an attempt does to the rules; tracked files stay in beside a stray .git and a broken index", async () => {
  const { route, run, record } = scene()
  const spoil =
    "rm .gitignore; echo secret >> ignored/dependency.txt; mkdir -p sub/.git; echo more >> sub/file.txt; echo x > .git/index"
  mkdirSync(join(record, "source", "sub"))
  writeFileSync(join(record, "source", "sub", "file.txt"), "text\n")
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.invalid", ...args], {
      cwd: join(record, "source")
    })
  git("add", "-A")
  git("commit", "-qm", "sub")
  const report = await Effect.runPromise(run({ routes: [route("a", `${spoil}; echo right > value.txt`)] }))
  expect(report.attempts[0]).toMatchObject({ outcome: "accepted", changedFiles: 3 })
  const patch = readFileSync(join(record, "fix.patch"), "utf8")
  expect(patch).not.toContain("secret")
  expect(patch).toContain("sub/file.txt")
})
