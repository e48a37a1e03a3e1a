/**
 * What the suite asks of todos and of choosing among them.
 * Promise: see AuthorityConformance.ts. Rules: G10 (states), G13, G20 to G23.
 */
import assert from "node:assert/strict"
import { Agents, Goals, Leases, Todos } from "../governance/index.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, hold, newGoal, newTodo } from "./AuthorityScene.ts"

const hour = 3_600_000

export const todoScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G10"],
    name: "a paused or stopped goal admits nothing below it, in every lane alike; resuming restores it with its budget",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      for (const [change, state] of [
        [Goals.pause, "paused"],
        [Goals.stop, "stopped"]
      ] as const) {
        assert.equal((await scene.run(change({ goal: goal.id }))).state, state)
        const lanes = [
          Todos.nextWork({ goal: goal.id, agent: "ada" }),
          Leases.acquire({ todo: todo.id, agent: "ada" }),
          Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } })
        ]
        for (const lane of lanes) {
          assert.equal((await scene.refused("GOAL_NOT_ACTIVE", lane))["state"], state)
        }
        const resumed = await scene.run(Goals.resume({ goal: goal.id }))
        assert.deepEqual([resumed.state, resumed.budget], ["active", goal.budget])
      }
      await hold(scene, todo)
    }
  },
  {
    rules: ["G13"],
    name: "an agent that is not registered gets no work; registering starts nothing, and again it replaces capabilities",
    body: async (scene) => {
      const goal = await newGoal(scene)
      await newTodo(scene, goal, { capabilities: ["rust"] })
      await scene.refused("NOT_FOUND", Todos.nextWork({ goal: goal.id, agent: "eve" }))
      const before = await scene.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
      assert.deepEqual([before._tag, before._tag === "none" && before.withheld.capability], ["none", 1])
      await scene.run(Agents.register({ goal: goal.id, agentId: "ada", capabilities: ["rust"] }))
      assert.deepEqual(await scene.facts("lease."), [])
      assert.equal((await scene.run(Todos.nextWork({ goal: goal.id, agent: "ada" })))._tag, "claimed")
      const { items } = await scene.run(Agents.list({ goal: goal.id }))
      assert.deepEqual(
        items.map((agent) => agent.agentId),
        ["ada", "bob"]
      )
    }
  },
  {
    rules: ["G20"],
    name: "an edit names the revision that it saw; of two edits of one revision the second is refused with both revisions",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal, { priority: 3, writeScopes: ["src"] })
      const edited = await scene.run(Todos.edit({ todo: todo.id, revision: 1, priority: 5 }))
      assert.deepEqual([edited.priority, edited.revision, edited.writeScopes], [5, 2, ["src"]])
      const late = await scene.refused("REVISION_CONFLICT", Todos.edit({ todo: todo.id, revision: 1, title: "x" }))
      assert.deepEqual([late["expected"], late["actual"]], [1, 2])
      assert.equal((await scene.run(Todos.get({ todo: todo.id }))).title, todo.title)
    }
  },
  {
    rules: ["G20"],
    name: "done and superseded are final",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const done = await newTodo(scene, goal)
      await scene.run(Todos.complete({ todo: done.id, continuation: { kind: "noFollowUp" } }))
      const gone = await newTodo(scene, goal)
      await scene.run(Todos.supersede({ todo: gone.id, reason: "not needed" }))
      const facts = await scene.facts()
      for (const { id } of [done, gone]) {
        await scene.refused("TODO_STATE", Todos.complete({ todo: id, continuation: { kind: "goalStaysActive" } }))
        await scene.refused("TODO_STATE", Todos.supersede({ todo: id, reason: "again" }))
        await scene.refused("TODO_STATE", Todos.defer({ todo: id, reason: "later" }))
        await scene.refused("TODO_STATE", Todos.reopen({ todo: id }))
        await scene.refused("TODO_STATE", Todos.edit({ todo: id, revision: 2, title: "other" }))
        await scene.refused("TODO_STATE", Leases.acquire({ todo: id, agent: "ada" }))
      }
      assert.deepEqual(await scene.facts(), facts)
    }
  },
  {
    rules: ["G20", "G22"],
    name: "a todo waits for what it depends on, `unblocks` makes others wait, and a circle is refused",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const first = await newTodo(scene, goal, { title: "first" })
      const second = await newTodo(scene, goal, { title: "second", priority: 9, dependsOn: [first.id] })
      const before = await newTodo(scene, goal, { title: "before", unblocks: [first.id] })
      await scene.refused("INVALID_INPUT", Todos.edit({ todo: before.id, revision: 1, dependsOn: [second.id] }))
      const order: string[] = []
      for (let number = 0; number < 3; number++) {
        const work = await scene.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
        assert.equal(work._tag, "claimed")
        if (work._tag !== "claimed") return
        order.push(work.todo.title)
        const { fence } = work.lease
        await scene.run(Todos.complete({ todo: work.todo.id, fence, continuation: { kind: "goalStaysActive" } }))
      }
      assert.deepEqual(order, ["before", "first", "second"])
    }
  },
  {
    rules: ["G21"],
    name: "a completion states one continuation; replayed, it adds no second successor; two at once are refused",
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      const continuation = { kind: "successors", todos: [{ title: "a" }, { title: "b", priority: 4 }] } as const
      await scene.refused("INVALID_INPUT", Todos.complete({ todo: todo.id, fence } as never))
      const none = { kind: "successors", todos: [] } as const
      await scene.refused("INVALID_INPUT", Todos.complete({ todo: todo.id, fence, continuation: none }))
      const complete = Todos.complete({ commandId: "done", todo: todo.id, fence, continuation })
      const first = await scene.run(complete)
      assert.deepEqual(
        first.successors.map((next) => [next.title, next.priority, next.state]),
        [
          ["a", 0, "open"],
          ["b", 4, "open"]
        ]
      )
      assert.deepEqual(await scene.run(complete), { ...first, replayed: true })
      const { total } = await scene.run(Todos.list({ goal: goal.id, states: ["open"] }))
      assert.equal(total, 2)
      assert.equal((await scene.run(Goals.get({ goal: goal.id }))).state, "active")
    }
  },
  {
    rules: ["G22"],
    name: "selecting claims in the same step: the best first, by priority and then by age, and never the same one twice",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const low = await newTodo(scene, goal, { priority: -1 })
      const old = await newTodo(scene, goal)
      scene.clock.now += 1
      const young = await newTodo(scene, goal)
      const high = await newTodo(scene, goal, { priority: 7 })
      const got: string[] = []
      for (const agent of ["ada", "bob", "ada", "bob"]) {
        const work = await scene.run(Todos.nextWork({ goal: goal.id, agent }))
        if (work._tag === "claimed") got.push(work.todo.id)
      }
      assert.deepEqual(got, [high.id, old.id, young.id, low.id])
    }
  },
  {
    rules: ["G22"],
    name: "deferred work is not chosen before its time; `reopen` and the time itself bring it back",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const todo = await newTodo(scene, goal)
      const until = scene.clock.now + hour
      await scene.run(Todos.defer({ todo: todo.id, until, reason: "the service is down" }))
      const next = Todos.nextWork({ goal: goal.id, agent: "ada" })
      scene.clock.now = until - 1
      const early = await scene.run(next)
      assert.deepEqual([early._tag, early._tag === "none" && early.withheld.deferred], ["none", 1])
      scene.clock.now = until
      assert.equal((await scene.run(Todos.nextWork({ goal: goal.id, agent: "ada" })))._tag, "claimed")
      const other = await newTodo(scene, goal)
      await scene.run(Todos.defer({ todo: other.id, reason: "until somebody says so" }))
      scene.clock.now += 1000 * hour
      await scene.refused("NOT_ELIGIBLE", Leases.acquire({ todo: other.id, agent: "bob" }))
      await scene.run(Todos.reopen({ todo: other.id }))
      await hold(scene, other, "bob")
    }
  },
  {
    rules: ["G22"],
    name: "however many todos are withheld, `nothing to do` counts every one of them and says why, and hides none that can be taken",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const dependency = await newTodo(scene, goal, { title: "held" })
      await hold(scene, dependency)
      for (let number = 0; number < 150; number++) {
        await newTodo(scene, goal, { title: `waits ${number}`, priority: 5, dependsOn: [dependency.id] })
      }
      const none = await scene.run(Todos.nextWork({ goal: goal.id, agent: "bob" }))
      assert.equal(none._tag, "none")
      if (none._tag !== "none") return
      assert.deepEqual([none.reason, none.withheld.unfinished], ["allWithheld", 151])
      assert.deepEqual([none.withheld.blocked, none.withheld.leased], [150, 1])
      const hidden = await newTodo(scene, goal, { title: "last of all", priority: -5 })
      const found = await scene.run(Todos.nextWork({ goal: goal.id, agent: "bob" }))
      assert.equal(found._tag === "claimed" && found.todo.id, hidden.id)
      const page = await scene.run(Todos.list({ goal: goal.id, limit: 10 }))
      assert.deepEqual([page.items.length, page.total, page.more], [10, 152, true])
    }
  },
  {
    rules: ["G23", "G35"],
    name: "every way out of `open` passes the lease's fence: without it, or with an old one, nothing changes",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      const waysOut = (given: object) => [
        Todos.defer({ todo: todo.id, reason: "later", ...given }),
        Todos.supersede({ todo: todo.id, reason: "other", ...given }),
        Todos.complete({ todo: todo.id, continuation: { kind: "goalStaysActive" }, ...given })
      ]
      const facts = await scene.facts()
      for (const way of waysOut({})) await scene.refused("LEASE_HELD", way)
      for (const way of waysOut({ fence: { ...fence, token: "guessed" } })) {
        assert.equal((await scene.refused("LEASE_LOST", way))["why"], "token")
      }
      for (const way of waysOut({ fence: { ...fence, epoch: 7 } })) {
        assert.equal((await scene.refused("LEASE_LOST", way))["why"], "epoch")
      }
      assert.deepEqual(await scene.facts(), facts)
      await scene.run(Todos.defer({ todo: todo.id, reason: "later", fence }))
      assert.notEqual((await scene.run(Leases.inspect({ todo: todo.id }))).releasedAt, null)
    }
  }
]
