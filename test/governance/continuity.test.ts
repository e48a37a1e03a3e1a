import { assert, test } from "vitest"
import { digestJson, type Json, sha256 } from "../../src/base/Digest.ts"
import { type PacketBody, Packets, Sources, Todos, Turns } from "../../src/governance/index.ts"
import { hold, newBench, newGoal, newTodo, seed } from "./authority.ts"

/** mulberry32. */
const generator = (start: number) => {
  let state = start
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

/** A plain host: it keeps what it was told, and refuses a difference to something that it does not have. */
class ModelHost {
  memory: { readonly has: string; readonly knows: Partial<PacketBody> } | null = null
  apply(body: PacketBody): string {
    const digest = digestJson(body as unknown as Json)
    if (body.kind === "complete") this.memory = { has: digest, knows: body }
    else {
      assert.equal(this.memory?.has, body.base?.digest, "a difference to something that the host does not have")
      this.memory = { has: digest, knows: { ...this.memory!.knows, ...body } }
    }
    return digest
  }
}

const text = (content: string) => ({ digest: sha256(content), ref: `notes@${content}`, bytes: content.length })

test("G14 V5 whatever is revised, lost, compacted or replaced, a host that applies its packets knows everything that is required", async () => {
  const start = seed()
  for (let run = 0; run < 6; run += 1) {
    const random = generator(start + run)
    const bench = await newBench()
    const goal = await newGoal(bench, { usd: 1000, slots: 1000 })
    const sources = await Promise.all(
      ["a", "b", "c"].map((name) => bench.run(Sources.register({ goal: goal.id, name, ...text("0") })))
    )
    const ids = sources.map(({ id }) => id)
    const some = () => ids.filter(() => random(2) === 0)
    const todos = [await newTodo(bench, goal, { requiredReads: some() }), await newTodo(bench, goal)].map(
      ({ id }) => id
    )
    const fences = await Promise.all(todos.map(async (todo) => (await hold(bench, { id: todo } as never)).fence))
    let current = 0
    const admit = () =>
      bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence: fences[current]!, bound: { usd: 0.1 } }))
    let turn = await admit()
    let host = new ModelHost()
    let generation = 1
    const seen = { complete: 0, delta: 0 }
    const session = () => ({ id: "bnd_1", generation })
    const steps: readonly (() => Promise<unknown>)[] = [
      async () => {
        const { id, revision } = await bench.run(Sources.get({ source: ids[random(3)]! }))
        return bench.run(Sources.revise({ source: id, revision, ...text(`${random(1000)}`) }))
      },
      async () => {
        const { id, revision } = await bench.run(Todos.get({ todo: todos[current]! }))
        const change = random(2) === 0 ? { requiredReads: some() } : { title: `title ${random(1000)}` }
        return bench.run(Todos.edit({ todo: id, revision, ...change }))
      },
      async () => {
        const source = ids[random(3)]!
        const { revision } = await bench.run(Sources.get({ source }))
        return bench.run(Sources.read({ source, revision, agent: "ada" }))
      },
      // The host forgets, and says so.
      async () => {
        host.memory = null
        return bench.run(Packets.compacted({ goal: goal.id, agent: "ada", session: session() }))
      },
      // Another runtime: it was told nothing.
      async () => {
        host = new ModelHost()
        generation += 1
      },
      async () => {
        await bench.run(Turns.fail({ turn: turn.id, reason: "another one is next", spend: { usd: 0 } }))
        current = 1 - current
        turn = await admit()
      }
    ]
    for (let step = 0; step < 40; step += 1) {
      if (random(2) === 0) await steps[random(steps.length)]!()
      const packet = await bench.run(Packets.issue({ turn: turn.id, fence: fences[current]!, session: session() }))
      seen[packet.kind] += 1
      const fate = random(5)
      // Lost on the way: the host never saw it.
      if (fate === 0) continue
      const digest = host.apply(packet.body)
      const todo = await bench.run(Todos.get({ todo: todos[current]! }))
      const newest = await Promise.all(todo.requiredReads.map((source) => bench.run(Sources.get({ source }))))
      const { requirement, reads, stop } = host.memory!.knows
      const at = `seed ${start + run}, step ${step}`
      assert.deepEqual(requirement?.todo, { id: todo.id, title: todo.title, revision: todo.revision }, at)
      assert.deepEqual(
        reads?.map((read) => [read.source, read.revision, read.digest, read.read]),
        newest.map(({ id, revision, digest: of, reads: known }) => [
          id,
          revision,
          of,
          known.some((one) => one.agent === "ada" && one.revision === revision)
        ]),
        at
      )
      assert.deepEqual(stop, packet.body.stop, at)
      // What the turn is under is what its executor was told (G86).
      const under = (await bench.run(Turns.get({ turn: turn.id }))).context
      assert.deepEqual([under?.requirement, under?.digest], [requirement?.digest, packet.digest], at)
      assert.deepEqual(
        under?.reads,
        newest.map(({ id, revision }) => ({ source: id, revision })),
        at
      )
      // Applied, and its acknowledgement lost.
      if (fate === 1) continue
      await bench.run(Packets.acknowledge({ packet: packet.id, digest }))
    }
    assert.isAbove(seen.delta, 0)
    assert.isAbove(seen.complete, 0)
  }
}, 60_000)
