/** Gates, obligations and completing a goal through the promise entry, on a real store. Rules: G12, G15, G40, G41; V2. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { open } from "../../src/promise.ts"

const store = mkdtempSync(join(tmpdir(), "coppice-promise-gates-"))
afterAll(() => rmSync(store, { recursive: true, force: true }))

test("G40 G15 G12 V2 a plain host asks, is answered, owes an attempt, and completes its goal with the same refusals", async () => {
  await using coppice = await open({ preset: "minimal", store })
  const { id: goal } = await coppice.goals.open({ title: "a goal", budget: { usd: 1 } })
  for (const agentId of ["ada", "bob"]) await coppice.agents.register({ goal, agentId })
  const todo = await coppice.todos.add({ goal, title: "a todo" })
  const asking = { goal, kind: "userDecision", question: "May it?", agents: ["ada"] } as const
  const gate = await coppice.gates.ask(asking)
  expect(await coppice.gates.ask(asking)).toMatchObject({ id: gate.id, asked: false, lane: "owner" })
  expect(await coppice.todos.nextWork({ goal, agent: "ada" })).toMatchObject({
    _tag: "none",
    gated: [{ todo: null, gates: [gate.id] }]
  })
  await expect(coppice.leases.acquire({ todo: todo.id, agent: "ada" })).rejects.toMatchObject({
    _tag: "Gated",
    code: "GATED",
    gates: [{ gate: gate.id, standing: "open" }]
  })
  const due = await coppice.obligations.open({ goal, todo: todo.id, reason: "promised" })
  await expect(coppice.todos.defer({ todo: todo.id, reason: "later" })).rejects.toMatchObject({
    _tag: "ObligationOpen",
    obligations: [{ id: due.id, reason: "promised" }]
  })
  expect(await coppice.goals.get({ goal })).toMatchObject({ obligations: [{ id: due.id }], gates: { count: 1 } })
  const closure = { reason: "done" }
  await expect(coppice.goals.complete({ goal, closure })).rejects.toMatchObject({
    code: "FRONTIER_NOT_EMPTY",
    parts: [{ kind: "gate" }, { kind: "obligation" }, { kind: "todo" }]
  })
  const by = { role: "person", name: "Vera" } as const
  await coppice.gates.decide({ gate: gate.id, by, allow: false, reason: "not now", reach: { kind: "scope" } })
  await coppice.obligations.waive({ obligation: due.id, by, reason: "withdrawn" })
  await coppice.todos.supersede({ todo: todo.id, reason: "withdrawn" })
  expect((await coppice.goals.frontier({ goal })).parts).toEqual([])
  expect(await coppice.goals.complete({ goal, closure })).toMatchObject({ state: "completed", closure })
})
