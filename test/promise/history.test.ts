/** History through the promise entry: what stands when a head moves, and that nothing else moved with it. Rules: L7, L3, W3, V3. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { open, type OperationProvider } from "../../src/promise.ts"

// Not below /tmp, which is private inside workspaces.
const place = mkdtempSync("/var/tmp/coppice-promise-history-")
afterAll(() => rmSync(place, { recursive: true, force: true }))

const mail: OperationProvider = {
  name: "mail",
  kinds: [{ name: "send", readBack: "yes", retry: "keyed", stop: "none", supervision: "none" }],
  dispatch: async () => ({ state: "confirmed" }),
  readBack: async () => ({ state: "confirmed" }),
  interlocks: async () => [],
  requestStop: async () => {},
  confirmStopped: async () => ({ state: "stopped" })
}

test("L7 G60 a reset names the effects that stand since the state it goes back to, and no lease, spend or effect changes", async () => {
  mkdirSync(join(place, "source"))
  writeFileSync(join(place, "source", "f"), "0\n")
  await using coppice = await open({ preset: "standard", store: join(place, "store") })
  const { workspaces, goals, effects, quota } = coppice
  const goal = (await goals.open({ title: "Tell the customers", budget: { usd: 2 } })).id
  const base = await workspaces.importDirectory(join(place, "source"))
  const branch = await workspaces.fork(base, "work")
  const step = async (call: string, of: object = { goal, agent: "a1" }): Promise<string> =>
    (
      await workspaces.applyTo(branch, [{ op: "write", path: "f", bytes: `${call}\n` }], {
        actor: { call, ...of },
        message: call
      })
    ).commit
  const operations = await coppice.operations.activate(mail)
  const send = (name: string) =>
    operations.run({ effect: `${goal}/${name}`, goal, kind: "send", operation: { to: name }, summary: `mail ${name}` })
  // What stands between two commits is told by time: each side has a millisecond of its own.
  const later = async (): Promise<void> => {
    for (const at = Date.now(); Date.now() === at; ) await new Promise((resolve) => setImmediate(resolve))
  }
  await send("before")
  await later()
  const first = await step("c1")
  await later()
  await send("within")
  await effects.plan({
    effect: `${goal}/planned`,
    goal,
    provider: "mail",
    kind: mail.kinds[0]!,
    operation: { to: "nobody" },
    summary: "not sent"
  })
  const second = await step("c2")
  const third = await step("c3", {})
  const seen = async () => ({
    effects: (await effects.list({ goal })).items,
    quota: { ...(await quota.status({ goal })), asOf: 0 },
    goal: { ...(await goals.get({ goal })), asOf: 0 }
  })
  const before = await seen()
  const moved = await workspaces.reset(branch, { to: first, expectedHead: third })
  expect(moved).toMatchObject({
    head: first,
    previous: third,
    undone: { commits: 2, calls: ["c3", "c2"], agents: ["a1"], goals: [goal], withoutGoal: 1 },
    effects: {
      state: "known",
      complete: true,
      effects: [{ id: `${goal}/within`, kind: "send", provider: "mail", state: "confirmed", summary: "mail within" }],
      withoutGoal: 1,
      unknownGoals: []
    }
  })
  expect(await seen()).toEqual(before)
  const back = await workspaces.undo(branch, { expectedHead: first })
  expect(back).toMatchObject({ head: third, effects: { state: "none" } })
  expect((await workspaces.undoLog(branch)).moves.map(({ kind }) => kind)).toEqual(["undo", "reset"])
  // Commits of a goal that is none of this authority's, or of none at all: nothing is known.
  await step("c4", { goal: "somebody-else" })
  const { head } = await workspaces.branch(branch.id)
  expect(await workspaces.reset(branch, { to: second, expectedHead: head })).toMatchObject({
    effects: { state: "unknown", reason: expect.stringContaining("no goal of this authority") }
  })
  const rewound = await workspaces.rewind(branch, { to: first, name: "again" })
  expect(rewound).toMatchObject({ name: "again", head: first })
  await expect(workspaces.reset(branch, { to: first, expectedHead: head })).rejects.toMatchObject({
    code: "HEAD_MOVED",
    expected: head
  })
})

test("L3 W3 V3 log, branches, diff and blame are there, in pages, and take what the other calls gave", async () => {
  await using coppice = await open({ preset: "standard", store: join(place, "other") })
  const { workspaces } = coppice
  const base = await workspaces.importDirectory(join(place, "source"))
  const branch = await workspaces.fork(base, "work")
  for (const call of ["c1", "c2"]) {
    await workspaces.applyTo(branch, [{ op: "write", path: "f", bytes: `0\n${call}\n` }], { actor: { call } })
  }
  const page = await workspaces.log(branch, { limit: 1, path: "f" })
  const rest = await workspaces.log(branch, { path: "f", after: page.next! })
  expect([...page.commits, ...rest.commits].map(({ actor }) => actor.call)).toEqual(["c2", "c1", undefined])
  expect((await workspaces.log([branch, base])).commits.length).toBe(3)
  expect((await workspaces.branches(base)).branches.map(({ name }) => name)).toEqual(["work"])
  expect((await workspaces.diff(base, branch)).changes.map(({ kind, path }) => `${kind} ${path}`)).toEqual([
    "modified f"
  ])
  const { lines, commits } = await workspaces.blame(branch, "f")
  expect(lines.map((line) => commits[line.commit]!.actor.call)).toEqual([undefined, "c2"])
  await expect(workspaces.blame(branch, "f", { limit: 0 })).rejects.toMatchObject({
    code: "QUERY_INVALID",
    field: "limit"
  })
  const gone = AbortSignal.abort()
  await expect(workspaces.log(branch, { signal: gone })).rejects.toMatchObject({ code: "CANCELLED" })
})
