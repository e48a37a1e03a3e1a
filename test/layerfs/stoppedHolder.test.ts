/** The process that holds a workspace's namespaces is stopped: who waits for it, and for how long. Rules: W12, L2. */
import * as fs from "node:fs"
import { join } from "node:path"
import { afterEach, expect, it } from "vitest"
import { childOf, Holder } from "../../src/workspace/kit/Holder.ts"
import { HolderPool } from "../../src/workspace/kit/HolderPool.ts"
import { stateOf } from "../../src/workspace/kit/Launcher.ts"
import { findTools } from "../../src/workspace/kit/Machine.ts"
import { atEnd, forkOf, ground, holders, run, scratch, shell, using } from "./projFixture.ts"

const { tools } = findTools()
const stopped: number[] = []
const stop = async (pid: number): Promise<void> => {
  process.kill(pid, "SIGSTOP")
  stopped.push(pid)
  while (!["T", ""].includes(stateOf(pid))) await new Promise((resolve) => setImmediate(resolve))
}
afterEach(() => stopped.splice(0))

const gone = (): boolean => stopped.every((pid) => !fs.existsSync(`/proc/${pid}`))

/** Of two processes the inner one mounts; the outer one only waits for it. */
const holderIn = async (directory: string): Promise<Holder> => {
  const table = join(directory, "table")
  fs.writeFileSync(table, "")
  const holder = await Holder.start(tools!, directory, table, "host", { patience: 1000 })
  atEnd(() => holder.end())
  return holder
}

it("W12 L2 a holder that was stopped before it had its namespaces, or before it mounts, fails within a bound and is gone afterwards", async () => {
  const early = await holderIn(scratch())
  await stop(early.identity.pid)
  const inner = childOf(early.identity.pid)
  if (inner !== undefined) await stop(inner)
  await early.unshared().then(
    () => undefined,
    (error) => expect(error).toMatchObject({ silent: true })
  )
  await early.end()
  const late = await holderIn(scratch())
  await late.unshared()
  await stop(late.innerPid)
  await expect(late.mount()).rejects.toMatchObject({ silent: true })
  await late.end()
  expect([gone(), holders()]).toEqual([true, []])
})

it("W12 L2 C95 with the first process inside stopped, commands run, started processes end, and the workspace closes with nothing left", async () => {
  const { provider, commit, store } = await ground({ a: "a" })
  await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
    const [outer] = holders()
    const inner = childOf(Number(outer!.split(" ")[0]))!
    await stop(inner)
    expect(await shell(workspace, "cat a")).toBe("a")
    await run(workspace.discard("done"))
  })
  expect([gone(), fs.readdirSync(join(store, "layerfs/work"))]).toEqual([true, []])
})

it("W12 P4 a holder of the pool that was stopped while it stood is not taken", async () => {
  const work = scratch()
  const pool = new HolderPool({ tools: tools!, work, directory: work, size: 1 })
  pool.fill()
  await pool.filled()
  const [outer] = holders()
  await stop(childOf(Number(outer!.split(" ")[0]))!)
  expect(pool.take()).toBeUndefined()
  await pool.end()
  expect([gone(), fs.readdirSync(work)]).toEqual([true, []])
})
