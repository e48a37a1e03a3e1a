/**
 * What the suite asks of leases.
 * Promise: see AuthorityConformance.ts. Rules: G30 to G36.
 */
import assert from "node:assert/strict"
import { Evidence, leaseTtl, Leases, Quota, Todos } from "../governance/index.ts"
import { sha256 } from "../base/Digest.ts"
import type { AuthorityScenario } from "./AuthorityConformance.ts"
import { heldTodo, hold, newGoal, newTodo } from "./AuthorityScene.ts"

const minute = 60_000

export const leaseScenarios: readonly AuthorityScenario[] = [
  {
    rules: ["G30"],
    name: "a lease holds 45 minutes unless said otherwise, at most a day; released, it stays as a tombstone, and epoch and version only grow",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      const kept = await scene.run(Leases.inspect({ todo: todo.id }))
      assert.equal(kept.expiresAt - kept.acquiredAt, 45 * minute)
      assert.ok(!("token" in kept) && !("tokenDigest" in kept))
      await scene.refused("INVALID_INPUT", Leases.renew({ fence, ttlMs: leaseTtl.maxMs + 1 }))
      const released = await scene.run(Leases.release({ fence }))
      assert.deepEqual([released.epoch, released.version], [1, 2])
      const again = await hold(scene, todo, "bob")
      assert.deepEqual([again.epoch, again.version], [2, 3])
      assert.notEqual(again.fence.token, fence.token)
      assert.equal(again.previous?.ended, "released")
    }
  },
  {
    rules: ["G30", "G2"],
    name: "a token stands in no fact and no view: only its digest is kept",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      const seen = JSON.stringify([await scene.facts(), await scene.run(Leases.inspect({ todo: todo.id }))])
      assert.ok(fence.token.length >= 20)
      assert.ok(!seen.includes(fence.token))
    }
  },
  {
    rules: ["G31"],
    name: "renew, transfer and release name token, epoch and version; a stale version is refused by each",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      scene.clock.now += minute
      const renewed = await scene.run(Leases.renew({ fence, ttlMs: 5 * minute }))
      assert.deepEqual([renewed.version, renewed.expiresAt], [2, scene.clock.now + 5 * minute])
      const stale = [
        Leases.renew({ fence }),
        Leases.release({ fence }),
        Leases.transfer({ fence, to: "bob", reason: "hand over" })
      ]
      for (const call of stale) {
        const refusal = await scene.refused("LEASE_LOST", call)
        assert.deepEqual([refusal["why"], refusal["todo"]], ["version", todo.id])
      }
      const moved = await scene.run(Leases.transfer({ fence: renewed.fence, to: "bob", reason: "hand over" }))
      assert.deepEqual([moved.owner, moved.epoch], ["bob", 2])
      assert.deepEqual(moved.previous, {
        owner: "ada",
        epoch: 1,
        ended: "transferred",
        oldExecutor: "unknown",
        reason: "hand over"
      })
      assert.equal((await scene.refused("LEASE_LOST", Leases.renew({ fence: renewed.fence })))["why"], "epoch")
    }
  },
  {
    rules: ["G32"],
    name: "the same agent name is not the same holder: a second one is refused, and a guessed token proves nothing",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      await scene.refused("LEASE_HELD", Leases.acquire({ todo: todo.id, agent: "ada" }))
      await scene.refused("LEASE_LOST", Leases.renew({ fence: { ...fence, token: sha256("ada") } }))
      const other = await scene.open()
      await scene.refused("LEASE_HELD", Leases.acquire({ todo: todo.id, agent: "ada" }), other)
      assert.equal((await scene.run(Leases.renew({ fence }), other)).version, 2)
    }
  },
  {
    rules: ["G33"],
    name: "a lease is alive strictly before its end; the next grant bumps the epoch and records why and what was known of the old executor",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      const { expiresAt } = await scene.run(Leases.inspect({ todo: todo.id }))
      scene.clock.now = expiresAt - 1
      await scene.refused("LEASE_HELD", Leases.acquire({ todo: todo.id, agent: "bob" }))
      scene.clock.now = expiresAt
      assert.equal((await scene.refused("LEASE_LOST", Leases.renew({ fence })))["why"], "expired")
      assert.equal((await scene.run(Todos.get({ todo: todo.id }))).state, "open")
      const why = { reason: "no sign of life", oldExecutor: "running" } as const
      const taken = await scene.run(Leases.acquire({ todo: todo.id, agent: "bob", ...why }))
      assert.equal(taken.epoch, 2)
      assert.deepEqual(taken.previous, { owner: "ada", epoch: 1, ended: "expired", ...why })
    }
  },
  {
    rules: ["G34"],
    name: "overlapping write scopes of live leases conflict, and each conflict is listed; leases of closed todos and other goals do not count",
    body: async (scene) => {
      const goal = await newGoal(scene)
      const add = (...writeScopes: readonly string[]) => newTodo(scene, goal, { writeScopes })
      const [src, docs, both, apart] = [
        await add("src/a"),
        await add("docs"),
        await add("src", "docs/x"),
        await add("test")
      ]
      const first = await hold(scene, src)
      await hold(scene, docs, "bob")
      const refusal = await scene.refused("SCOPE_CONFLICT", Leases.acquire({ todo: both.id, agent: "ada" }))
      assert.deepEqual(
        (refusal["conflicts"] as readonly { todo: string; scopes: readonly string[] }[]).map((c) => [c.todo, c.scopes]),
        [
          [src.id, ["src/a"]],
          [docs.id, ["docs"]]
        ]
      )
      await hold(scene, apart)
      const elsewhere = await newTodo(scene, await newGoal(scene), { writeScopes: ["src"] })
      await hold(scene, elsewhere)
      await scene.run(Todos.complete({ todo: src.id, fence: first.fence, continuation: { kind: "goalStaysActive" } }))
      const later = await scene.refused("SCOPE_CONFLICT", Leases.acquire({ todo: both.id, agent: "ada" }))
      assert.equal((later["conflicts"] as readonly unknown[]).length, 1)
    }
  },
  {
    rules: ["G35"],
    name: "each later write of the holder is fenced in its own commit; completing gives the lease back in the same one",
    body: async (scene) => {
      const { goal, todo, fence } = await heldTodo(scene)
      const evidence = (given: object) =>
        Evidence.record({
          goal: goal.id,
          todo: todo.id,
          kind: "log",
          digest: sha256("log"),
          summary: "what it did",
          producer: { role: "executor", name: "ada" },
          ...given
        })
      const spend = (given: object) =>
        Quota.spend({ goal: goal.id, todo: todo.id, effectId: "effect-1", spend: { usd: 1 }, ...given })
      await scene.refused("LEASE_LOST", evidence({}))
      await scene.refused("LEASE_HELD", spend({}))
      const old = { fence: { ...fence, epoch: 9 } }
      await scene.refused("LEASE_LOST", evidence(old))
      await scene.refused("LEASE_LOST", spend(old))
      await scene.run(evidence({ fence }))
      await scene.run(spend({ fence }))
      const before = (await scene.facts()).length
      await scene.run(Todos.complete({ todo: todo.id, fence, continuation: { kind: "noFollowUp" } }))
      const types = (await scene.facts()).slice(before).map((fact) => fact.type)
      assert.deepEqual(types, ["todo.completed", "lease.released", "quota.spend"])
      await scene.refused("LEASE_LOST", evidence({ fence }))
    }
  },
  {
    rules: ["G36"],
    name: "a clock that is set back revives no lease, in this handle and in one that is opened after",
    body: async (scene) => {
      const { todo, fence } = await heldTodo(scene)
      const { expiresAt } = await scene.run(Leases.inspect({ todo: todo.id }))
      scene.clock.now = expiresAt
      await scene.refused("LEASE_LOST", Leases.renew({ fence }))
      scene.clock.now = expiresAt - 30 * minute
      await scene.refused("LEASE_LOST", Leases.renew({ fence }))
      await scene.refused("LEASE_LOST", Leases.renew({ fence }), await scene.open())
      assert.equal((await hold(scene, todo, "bob")).epoch, 2)
    }
  }
]
