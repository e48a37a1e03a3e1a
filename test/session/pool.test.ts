/** Pools of sessions against leases: what is spawned has a claim, and what is in use is not reaped. Rules: G30, G35, C52, C54. */
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { Leases, Todos, Turns, workModule } from "../../src/governance/index.ts"
import { Bindings, carriedLease, carryLease, leaseVariable, sessionModule } from "../../src/session/index.ts"
import { hold, newBench, newGoal, newTodo } from "../governance/authority.ts"
import { oneFile } from "../oneFile.ts"

const program = await oneFile(join(import.meta.dirname, "programs", "pool.ts"))

test("C52 G35 a pool reserves first: of three spawners for two todos two start a session, which carries the token; one that was started before its claim, or outlived it, does nothing", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todos = [await newTodo(bench, goal), await newTodo(bench, goal)]
  const log = join(bench.directory, "log")
  const spawners = ["ada", "bob", "ada"].map(
    (agent) =>
      new Promise<string>((resolve) => {
        const child = spawn(process.execPath, [program, "spawner", bench.directory, goal.id, agent, log])
        let text = ""
        child.stdout.on("data", (chunk: Buffer) => {
          text += String(chunk)
        })
        child.once("close", () => resolve(text.trim()))
      })
  )
  assert.deepEqual((await Promise.all(spawners)).toSorted(), [
    "nothing to spawn for",
    ...todos.map((todo) => `worked on ${todo.id}`).toSorted()
  ])
  assert.deepEqual(readFileSync(log, "utf8").trim().split("\n").toSorted(), todos.map((todo) => todo.id).toSorted())

  // The same session, started before any claim, with something else, with a lease that was released, with a guessed token.
  const codeOf = async (environment: Record<string, string>) => (await bench.fails(carriedLease(environment))).code
  assert.equal(await codeOf({}), "NO_LEASE_CARRIED")
  assert.equal(await codeOf({ [leaseVariable]: '{"todo":"' }), "NO_LEASE_CARRIED")
  const { fence } = await hold(bench, await newTodo(bench, goal))
  assert.equal((await bench.run(carriedLease(carryLease(fence)))).todo, fence.todo)
  assert.equal(await codeOf(carryLease({ ...fence, token: "guessed" })), "LEASE_LOST")
  await bench.run(Leases.release({ fence }))
  assert.equal(await codeOf(carryLease(fence)), "LEASE_LOST")
}, 240_000)

test("C52 G80 governance knows no executor without a claim, a reservation and a saved attempt, in this order", async () => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const todo = await newTodo(bench, goal)
  const nobody = { todo: todo.id, token: "none", epoch: 1, version: 1 }
  const admit = (fence: typeof nobody) => Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } })
  assert.equal((await bench.fails(admit(nobody))).code, "LEASE_LOST")
  const { fence } = await hold(bench, todo)
  const turn = await bench.run(admit(fence))
  const executor = { pid: 1, startTime: null, bootId: null, pidNamespace: null }
  const early = await bench.fails(Turns.executorStarted({ turn: turn.id, executor }))
  assert.deepInclude(early, { code: "PHASE_ORDER", phase: "admit" })
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  assert.equal((await bench.run(Turns.executorStarted({ turn: turn.id, executor }))).executor?.pid, 1)
})

test("C54 G33 a reaper of idle sessions that comes upon a live lease, or an open turn after its lease ended, is refused; then it is let through", async () => {
  const bench = await newBench({ modules: [workModule, sessionModule] })
  const goal = await newGoal(bench)
  const bind = { goal: goal.id, agent: "ada", mode: "managed_runtime", executorEndpointId: "runner-1" } as const
  const bound = await bench.run(Bindings.bind(bind))
  const reap = Bindings.reap({ binding: bound.id, generation: bound.generation, reason: "quiet for an hour" })
  const status = async () => (await bench.run(Bindings.list({ goal: goal.id }))).items.at(-1)!.status
  // Another agent's lease is none of its business.
  await hold(bench, await newTodo(bench, goal), "bob")
  const todo = await newTodo(bench, goal)
  const { fence } = await hold(bench, todo, "ada", { ttlMs: 1000 })
  assert.deepInclude(await bench.fails(reap), { code: "BINDING_IN_USE", todos: [todo.id], turn: null })
  assert.equal((await bench.run(Leases.heldBy({ goal: goal.id, agent: "ada" }))).items[0]!.todo, todo.id)
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 1 } }))
  bench.now += 1000
  // The lease has ended, and that proves nothing of the work.
  assert.deepInclude(await bench.fails(reap), { code: "BINDING_IN_USE", todos: [], turn: turn.id })
  assert.equal(await status(), "live")
  await bench.run(Turns.fail({ turn: turn.id, reason: "given up", spend: { usd: 0 } }))
  assert.deepEqual((await bench.run(Leases.heldBy({ goal: goal.id, agent: "ada" }))).items, [])
  await bench.run(reap)
  assert.equal(await status(), "closed")
  assert.equal((await bench.fails(reap)).code, "STALE_BINDING")
  // To end a binding that is in use is still possible: by name, and not as idle.
  const again = await bench.run(Bindings.bind(bind))
  const work = await bench.run(Todos.nextWork({ goal: goal.id, agent: "ada" }))
  assert.equal(work._tag, "claimed")
  const named = { binding: again.id, generation: again.generation }
  assert.equal((await bench.fails(Bindings.reap({ ...named, reason: "quiet" }))).code, "BINDING_IN_USE")
  await bench.run(Bindings.unbind({ ...named, reason: "the owner said so" }))
  assert.equal(await status(), "closed")
})
