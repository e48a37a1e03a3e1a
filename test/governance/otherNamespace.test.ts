/** Drivers in another pid namespace, as in containers that share a store. Rules: G81, G91, G61, S20. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { readdirSync, renameSync } from "node:fs"
import { join } from "node:path"
import { assert, test } from "vitest"
import { Deliveries, Effects, type OperationKind, Todos } from "../../src/governance/index.ts"
import { container } from "../container.ts"
import { atEnd, processesOf } from "../layerfs/projFixture.ts"
import { oneFile } from "../oneFile.ts"
import { newBench, newGoal, newTodo } from "./authority.ts"

const program = await oneFile(join(import.meta.dirname, "programs", "driver.ts"))

test.skipIf(process.platform !== "linux")(
  "G81 S20 a turn whose driver was killed in another pid namespace is taken over at once; without its sign nobody knows, and it stays",
  async () => {
    const bench = await newBench({ now: Date.now })
    const goal = (await newGoal(bench)).id
    await bench.run(Todos.add({ goal, title: "Find the fault" }))
    const drive = (killAfter: string, within: readonly string[] = []) => {
      const argv = [...within, process.execPath, program, bench.directory, goal, killAfter]
      return spawnSync(argv[0]!, argv.slice(1), { encoding: "utf8" })
    }
    const killed = drive("attempt", container)
    assert.equal(killed.status, 128 + 9, killed.stderr)
    const alive = join(bench.directory, "alive")
    renameSync(alive, `${alive}-away`)
    const unknown = drive("none")
    assert.match(unknown.stderr, /TurnInFlight|TURN_IN_FLIGHT/)
    renameSync(alive, `${alive}-new`)
    renameSync(`${alive}-away`, alive)
    const found = drive("dispatched")
    assert.equal(found.signal, "SIGKILL", found.stderr)
    assert.deepEqual(JSON.parse(found.stdout), { phase: "execute", next: "readBackOrRetry" })
  }
)

test.skipIf(process.platform !== "linux")(
  "G91 G61 S20 what a process of another pid namespace hands over is its own while it lives, stopped or not, and anybody's once it is seen dead",
  async () => {
    const bench = await newBench({ now: Date.now })
    const goal = await newGoal(bench)
    const origin = { destination: "room-7", channel: "chat", requestId: "q-1" }
    const todo = await newTodo(bench, goal, { origin })
    const { delivery } = await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
    const kind: OperationKind = { name: "move", readBack: "yes", retry: "unsafe", stop: "none", supervision: "none" }
    await bench.run(
      Effects.plan({
        effect: "e1",
        goal: goal.id,
        provider: "stage",
        kind,
        operation: 1,
        summary: "move"
      })
    )
    const again = { delivery: delivery!, provider: "chat", retry: "its process is gone" }
    const calls = [Deliveries.dispatch(again), Effects.readBack({ effect: "e1", attempt: 1, found: "notFound" })]
    const refused = async (alive: boolean | "unknown") => {
      const errors = await Promise.all(calls.map((call) => bench.fails<unknown, unknown>(call)))
      assert.deepEqual(
        errors.map((error) => [(error as { code: string }).code, (error as { alive: unknown }).alive]),
        [
          ["DELIVERY_IN_FLIGHT", alive],
          ["EFFECT_IN_FLIGHT", alive]
        ]
      )
    }
    const signs = join(bench.directory, "alive")
    const standing = await oneFile(join(import.meta.dirname, "programs", "standing.ts"))
    const argv = [...container, process.execPath, standing, bench.directory, delivery!, "e1"]
    const child = spawn(argv[0]!, argv.slice(1), { stdio: ["pipe", "pipe", "inherit"] })
    const closed = once(child, "close")
    atEnd(() => void child.kill("SIGKILL"))
    await once(child.stdout, "data")
    await refused(true)
    const mine = readdirSync(signs).length
    const theirs = processesOf(standing).find((line) => !line.includes("sh -c"))!
    process.kill(Number(theirs.split(" ")[0]), "SIGSTOP")
    await refused(true)
    child.kill("SIGKILL")
    await closed
    renameSync(signs, `${signs}-away`)
    await refused("unknown")
    renameSync(`${signs}-away`, signs)
    for (const call of calls) await bench.run<unknown, unknown>(call)
    await bench.store.close()
    assert.deepEqual([mine, readdirSync(signs).length], [2, 1])
  }
)
