/** Holders that stand ready for the next workspace. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { expect, it } from "vitest"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { HolderPool } from "../../src/workspace/kit/HolderPool.ts"
import { findTools } from "../../src/workspace/kit/Machine.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, failure, forkOf, holders, run, scratch, shell, using, write } from "./projFixture.ts"

const open = async (
  store: string,
  warmPool?: number
): Promise<{ provider: WorkspaceProvider; close: () => Promise<void> }> => {
  const scope = await run(Scope.make())
  const close = (): Promise<void> => run(Scope.close(scope, Exit.void))
  atEnd(close)
  const options = warmPool === undefined ? { store } : { store, warmPool }
  return { provider: await run(Scope.provide(openLayerFs(options), scope)), close }
}

/** Polls with a bound: what is awaited is an event, not a span of time. */
const eventually = async (holds: () => Promise<boolean> | boolean): Promise<void> => {
  for (let tries = 0; tries < 3000 && !(await holds()); tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 5))
  expect(await holds()).toBe(true)
}

it("W1 P4 the size of a pool is a small whole number, and without one nothing stands ready", async () => {
  const store = join(scratch(), "s")
  for (const warmPool of [-1, 0.5, 65, "2", true, null])
    expect(await failure(Effect.scoped(openLayerFs({ store, warmPool: warmPool as number })))).toMatchObject({
      _tag: "StoreOptionInvalid",
      option: "warmPool"
    })
  expect(fs.existsSync(store)).toBe(false)
  const { provider } = await open(store)
  expect([(await run(provider.stats)).pool, holders()]).toEqual([{ size: 0, ready: 0 }, []])
})

it("P4 W12 W17 workspaces open from the pool, isolated as without it; it fills up again, and ends with the provider", async () => {
  const root = scratch()
  const source = join(root, "source")
  write(source, { f: "f" })
  const { provider, close } = await open(join(root, "s"), 2)
  const { commit } = await run(provider.importDirectory({ source }))
  const ready = async (): Promise<boolean> => (await run(provider.stats)).pool?.ready === 2
  await eventually(ready)
  const before = holders().map((line) => line.split(" ")[0])
  expect(before.length).toBe(2)
  await using(provider, await forkOf(provider, commit), { projection: "overlay", hide: [root] }, async (workspace) => {
    expect(workspace.isolation.level).toBe("enforced")
    expect(await shell(workspace, `cat f; ls -A '${root}/s' 2> /dev/null | wc -l`)).toBe("f0\n")
    await eventually(ready)
    const now = holders().map((line) => line.split(" ")[0])
    expect(now.length).toBe(3)
    // It was one of those that stood there, unless something was mounted on the machine meanwhile.
    if (before.every((pid) => now.includes(pid))) expect(now).toEqual(expect.arrayContaining(before))
  })
  await eventually(() => holders().length === 2)
  // One that was killed is replaced, and never used.
  process.kill(Number(holders()[0]!.split(" ")[0]), "SIGKILL")
  await using(provider, await forkOf(provider, commit), {}, async (workspace) =>
    expect(await shell(workspace, "cat f")).toBe("f")
  )
  await eventually(ready)
  await close()
  expect(holders()).toEqual([])
  expect(fs.readdirSync(join(root, "s/layerfs/work"))).toEqual([])
})

it("W12 W17 a holder is taken while it lives and shows what the machine has mounted, and only once", async (context) => {
  const { tools } = findTools()
  if (tools === undefined || process.getuid!() !== 0) return context.skip("only root mounts beside it")
  const work = scratch()
  const pool = new HolderPool({ tools, work, directory: work, size: 1 })
  const filled = async (): Promise<void> => {
    pool.fill()
    await pool.filled()
    expect(pool.ready).toBe(1)
  }
  await filled()
  const at = join(work, "mounted")
  fs.mkdirSync(at)
  spawnSync("mount", ["-t", "tmpfs", "x", at])
  try {
    expect(pool.take()).toBeUndefined()
  } finally {
    spawnSync("umount", [at])
  }
  await pool.end()
  expect([pool.ready, fs.readdirSync(work), holders()]).toEqual([0, ["mounted"], []])
})

it("W12 P4 a pool keeps no process alive, and its holders end with one that is killed", async () => {
  const program = `
    import { HolderPool } from ${JSON.stringify(new URL("../../src/workspace/kit/HolderPool.ts", import.meta.url).href)}
    import { findTools } from ${JSON.stringify(new URL("../../src/workspace/kit/Machine.ts", import.meta.url).href)}
    const pool = new HolderPool({ tools: findTools().tools, work: process.argv[1], directory: process.argv[1], size: 2 })
    pool.fill()
    await pool.filled()
    console.log(pool.ready)
    if (process.argv[2] === "killed") process.kill(process.pid, "SIGKILL")`
  for (const [end, signal] of [
    ["idle", null],
    ["killed", "SIGKILL"]
  ] as const) {
    const work = scratch()
    const ended = spawnSync(process.execPath, ["--input-type=module", "-e", program, work, end], { encoding: "utf8" })
    expect([ended.stdout, ended.signal]).toEqual(["2\n", signal])
    const alive = (): boolean =>
      fs.readdirSync("/proc").some((pid) => {
        try {
          return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(work)
        } catch {
          return false
        }
      })
    await eventually(() => !alive())
  }
})
