/**
 * What the suite asks of the store itself: one writer, receipts, group commit, the journal, versions, what may stand in it.
 * Promise: see AuthorityConformance.ts. Rules: G1 to G8.
 */
import assert from "node:assert/strict"
import { Agents, Goals, Leases, Todos, workModule } from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { allFacts, heldTodo, newGoal, newTodo, validatorEvidence } from "./AuthorityScene.ts"
import { endOf } from "./AuthorityWorker.ts"

const opening = { title: "Once", budget: { usd: 1 } } as const
const genesis = `sha256:${"0".repeat(64)}`

export const storeScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G1", "G2"],
    name: "a command that is sent again gives the stored receipt, from another handle and after reopening too, and writes nothing",
    body: async (scene) => {
      const command = Goals.open({ ...opening, commandId: "open-1" })
      const first = await scene.run(command)
      assert.equal(first.replayed, false)
      const facts = await scene.facts()
      for (const again of [
        await scene.run(command),
        await scene.run(command, await scene.open()),
        await scene.reopen().then(() => scene.run(command))
      ]) {
        assert.deepEqual(again, { ...first, replayed: true })
      }
      assert.deepEqual(await scene.facts(), facts)
    }
  },
  {
    rules: ["G2"],
    name: "a command id that was used for another payload is refused by its name, and nothing changes",
    body: async (scene) => {
      const first = await scene.run(Goals.open({ ...opening, commandId: "open-1" }))
      const other = Goals.open({ ...opening, title: "Twice", commandId: "open-1" })
      assert.equal((await scene.refused("IDEMPOTENCY_KEY_REUSE", other))["commandId"], "open-1")
      const ofAnotherKind = Goals.pause({ goal: first.id, commandId: "open-1" })
      await scene.refused("IDEMPOTENCY_KEY_REUSE", ofAnotherKind)
      assert.equal((await scene.facts()).length, 1)
      assert.equal((await scene.run(Goals.get({ goal: first.id }))).title, "Once")
    }
  },
  {
    rules: ["G1", "G2"],
    name: "a refusal writes no fact and no receipt: the same command succeeds once nothing is in its way",
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      const facts = await scene.facts()
      const want = Leases.acquire({ todo: todo.id, agent: "bob", commandId: "bob-wants" })
      const refusal = await scene.refused("LEASE_HELD", want)
      assert.equal(refusal["owner"], "ada")
      assert.deepEqual(await scene.facts(), facts)
      await scene.run(Leases.release({ fence }))
      const lease = await scene.run(want)
      assert.deepEqual([lease.goal, lease.owner, lease.replayed], [goal.id, "bob", false])
    }
  },
  {
    rules: ["G1", "G50"],
    name: "an unknown field, a missing one and a number that JSON cannot hold are refused at the door",
    body: async (scene) => {
      for (const input of [
        { ...opening, color: "red" },
        { budget: opening.budget },
        { ...opening, budget: { usd: Number.NaN } },
        { ...opening, budget: { usd: "1" } },
        { ...opening, budget: { usd: -1 } },
        { ...opening, budget: { slots: 1.5 } }
      ]) {
        await scene.refused("INVALID_INPUT", Goals.open(input as never))
      }
      assert.deepEqual(await scene.facts(), [])
    }
  },
  {
    rules: ["G3"],
    name: "of commands that wait together, a refusal undoes none of its neighbours",
    varies: true,
    body: async (scene) => {
      const goal = await newGoal(scene)
      const calls = Array.from({ length: 64 }, (_, number) =>
        number % 2 === 0
          ? Todos.add({ goal: goal.id, title: `todo ${number}` })
          : Todos.add({ goal: "goal_none", title: `todo ${number}` })
      )
      const ends = await Promise.all(calls.map((call) => endOf(scene.opened, call)))
      assert.deepEqual(
        ends.map((end) => ("ok" in end ? "ok" : end.refused.code)),
        calls.map((_, number) => (number % 2 === 0 ? "ok" : "NOT_FOUND"))
      )
      assert.equal((await scene.run(Todos.list({ goal: goal.id }))).total, 32)
    }
  },
  {
    rules: ["G3", "G22", "G32"],
    name: "of 64 callers at once one gets the todo, and the others are told that it is held",
    varies: true,
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const want = () => Leases.acquire({ todo: todo.id, agent: "ada" })
      const ends = await Promise.all(Array.from({ length: 64 }, () => endOf(scene.opened, want())))
      const winners = ends.filter((end) => "ok" in end)
      const codes = new Set(ends.flatMap((end) => ("ok" in end ? [] : [end.refused.code])))
      assert.deepEqual([winners.length, [...codes]], [1, ["LEASE_HELD"]])
      assert.equal((await scene.facts("lease.")).length, 1)
    }
  },
  {
    rules: ["G3", "G22"],
    name: "of four processes that race for forty todos each todo goes to one, and none is told that the store is busy",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const goal = await newGoal(scene)
      for (let number = 0; number < 40; number++) await newTodo(scene, goal, { title: `todo ${number}` })
      const workers = await Promise.all(Array.from({ length: 4 }, () => scene.worker()))
      const ends = await Promise.all(
        workers.flatMap((worker) =>
          Array.from({ length: 20 }, () => worker.call("Todos.nextWork", { goal: goal.id, agent: "ada" }))
        )
      )
      const answers = ends.map((end) => ("ok" in end ? end.ok : end.refused.code))
      const claimed = answers.filter((answer) => answer._tag === "claimed").map((answer) => answer.todo.id)
      assert.deepEqual([claimed.length, new Set(claimed).size], [40, 40])
      assert.equal(answers.filter((answer) => answer._tag === "none" && answer.reason === "allWithheld").length, 40)
      assert.deepEqual(await scene.run(scene.opened.authority.verify), { ok: true, entries: 83, brokenAt: null })
    }
  },
  {
    rules: ["G2", "G3"],
    name: "what a process had been answered before it was killed is found by its command id; what it had not is there once or not at all",
    needs: ["worker"],
    varies: true,
    body: async (scene) => {
      const goal = await newGoal(scene)
      const worker = await scene.worker()
      const input = (number: number) => ({ goal: goal.id, title: `todo ${number}`, commandId: `add-${number}` })
      const answered: number[] = []
      const sent = Array.from({ length: 40 }, async (_, number) => {
        await worker.call("Todos.add", input(number))
        answered.push(number)
        if (answered.length === 10) await worker.kill()
      })
      await Promise.allSettled(sent)
      assert.ok(answered.length >= 10)
      await scene.reopen()
      for (const number of answered) {
        assert.equal((await scene.run(Todos.add(input(number)))).replayed, true)
      }
      for (let number = 0; number < 40; number++) await scene.run(Todos.add(input(number)))
      const { total, items } = await scene.run(Todos.list({ goal: goal.id }))
      assert.deepEqual([total, new Set(items.map((todo) => todo.title)).size], [40, 40])
      assert.equal((await scene.run(scene.opened.authority.verify)).ok, true)
    }
  },
  {
    rules: ["G4"],
    name: "the journal is read by cursor in the order of its sequence, each entry naming the hash of the one before, and verifies",
    body: async (scene) => {
      await heldTodo(scene)
      const whole = await scene.run(scene.opened.authority.journal())
      const pages = []
      for (let after = 0; ; ) {
        const page = await scene.run(scene.opened.authority.journal({ after, limit: 2 }))
        if (page.length === 0) break
        pages.push(...page)
        after = page.at(-1)!.seq
      }
      assert.deepEqual(pages, whole)
      assert.deepEqual(
        whole.map((entry) => entry.seq),
        whole.map((_, index) => index + 1)
      )
      assert.deepEqual(
        whole.map((entry) => entry.prevHash),
        [whole[0]!.prevHash, ...whole.slice(0, -1).map((entry) => entry.hash)]
      )
      assert.equal(new Set(whole.map((entry) => entry.hash)).size, whole.length)
      assert.ok(!whole.some((entry) => entry.hash === genesis))
      const verified = await scene.run(scene.opened.authority.verify)
      assert.deepEqual(verified, { ok: true, entries: whole.length, brokenAt: null })
    }
  },
  {
    rules: ["G4"],
    name: "an altered journal row is named as the first broken link, and the store can still be read",
    needs: ["tamper"],
    body: async (scene) => {
      const { goal } = await heldTodo(scene)
      await scene.store.tamper!(3)
      await scene.reopen()
      const verified = await scene.run(scene.opened.authority.verify)
      assert.deepEqual([verified.ok, verified.brokenAt], [false, 3])
      assert.equal((await scene.run(Goals.get({ goal: goal.id }))).title, "Repair the ledger")
    }
  },
  {
    rules: ["G5"],
    name: "a process of the older version gets StoreMoved on its next command after another migrated, has changed nothing, and cannot open again",
    needs: ["modules"],
    body: async (scene) => {
      const goal = await newGoal(scene)
      const facts = await scene.facts()
      const next = workModule.version + 1
      const newer = {
        ...workModule,
        version: next,
        migrations: [
          ...workModule.migrations,
          { version: next, name: "a later step", sql: "CREATE TABLE later (id TEXT)" }
        ]
      }
      const moved = await scene.open({ modules: [newer] })
      assert.equal((await scene.run(Goals.get({ goal: goal.id }), moved)).id, goal.id)
      await scene.refused("STORE_MOVED", Goals.pause({ goal: goal.id }))
      assert.deepEqual(await allFacts(moved), facts)
      await assert.rejects(scene.open(), (error: { code?: string; remedy?: string }) => {
        assert.equal(error.code, "STORE_MOVED")
        assert.match(String(error.remedy), /\S/)
        return true
      })
      assert.equal((await scene.run(Goals.pause({ goal: goal.id }), moved)).state, "paused")
    }
  },
  {
    rules: ["G6"],
    name: "an absolute path or a credential in any field is refused with the field's name, and stands nowhere",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const facts = await scene.facts()
      const secrets = ["see /home/somebody/notes", "Bearer abcdefghijklmnopqrstuvwx", `ghp_${"a".repeat(36)}`]
      for (const text of secrets) {
        const todo = await scene.refused("NOT_PUBLIC", Todos.add({ goal: goal.id, title: text }))
        assert.equal(todo["field"], "title")
        assert.ok(!JSON.stringify(todo).includes(text))
        await scene.refused("NOT_PUBLIC", Goals.open({ title: text, budget: { usd: 1 } }))
      }
      assert.deepEqual(await scene.facts(), facts)
      assert.equal((await scene.run(Todos.list({ goal: goal.id }))).total, 0)
      await validatorEvidence(scene, goal)
      assert.ok(!JSON.stringify(await scene.facts()).includes("/home/"))
    }
  },
  {
    rules: ["G7"],
    name: "every read says as of which sequence it holds, a write of which it was the last, and another handle reads no older state",
    body: async (scene) => {
      const { goal, todo } = await heldTodo(scene)
      const head = (await scene.facts()).at(-1)!.seq
      const read = [
        await scene.run(Goals.get({ goal: goal.id })),
        await scene.run(Todos.list({ goal: goal.id })),
        await scene.run(Leases.inspect({ todo: todo.id })),
        await scene.run(Agents.list({ goal: goal.id }))
      ]
      for (const { asOf } of read) assert.equal(asOf, head)
      const other = await scene.open()
      const written = await scene.run(Todos.add({ goal: goal.id, title: "another" }), other)
      assert.equal(written.asOf, head + 1)
      assert.equal((await scene.run(Todos.get({ todo: written.id }))).asOf, head + 1)
    }
  },
  {
    rules: ["G8"],
    name: "with every other store of the application ruined, leases, spend and receipts are as they were, and work goes on",
    needs: ["ruinOthers"],
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      const facts = await scene.facts()
      await scene.store.ruinOthers!()
      await scene.reopen()
      assert.deepEqual(await scene.facts(), facts)
      assert.equal((await scene.run(Leases.inspect({ todo: todo.id }))).owner, "ada")
      assert.equal((await scene.run(Leases.renew({ fence }))).version, fence.version + 1)
      assert.equal((await scene.run(Goals.get({ goal: goal.id }))).state, "active")
    }
  }
]
