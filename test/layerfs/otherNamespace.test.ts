/** Processes of another pid namespace on one store, as in containers that share a volume. Rules: L12, W12, W23, S20. */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { isAliveIn } from "../../src/base/LifeSign.ts"
import { identify, isAlive } from "../../src/base/ProcessIdentity.ts"
import { childOf } from "../../src/workspace/kit/Holder.ts"
import { endedAtEnd, failure, forkOf, ground, run, shell, treeAt, using } from "./projFixture.ts"
import { oneFile } from "../oneFile.ts"

/** Starts the victim, or another program, in a pid namespace of its own, with its own /proc. */
const inContainer = async (
  args: readonly string[],
  env?: NodeJS.ProcessEnv,
  program = "projVictim.ts"
): Promise<ChildProcess> => {
  const namespaces = ["--pid", "--fork", "--kill-child", "--mount-proc"]
  const user = process.getuid!() === 0 ? [] : ["--user", "--map-root-user"]
  const victim = [process.execPath, await oneFile(join(import.meta.dirname, program)), ...args]
  // The first process of a namespace cannot kill itself.
  const below = env === undefined ? [] : ["sh", "-c", '"$@"; exit $?', "sh"]
  return endedAtEnd(
    spawn("unshare", [...user, ...namespaces, ...below, ...victim], {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, ...env }
    })
  )
}

const signs = (store: string): string => join(store, "layerfs/alive")

it.each(["cache.taking", "cache.taken"])(
  "L12 W12 a process of another pid namespace that is killed at %s keeps nobody from a layer",
  async (point) => {
    const { provider, commit, store } = await ground({ a: "whole" })
    const openOnce = async (): Promise<string> =>
      using(provider, await forkOf(provider, commit), { projection: "overlay" }, (workspace) =>
        shell(workspace, "cat a")
      )
    await openOnce()
    const child = await inContainer([store, await forkOf(provider, commit), "evict"], { COPPICE_CRASH_AT: point })
    await once(child, "close")
    // A hold lies beside it where the killed process had not looked through the layer yet; whoever takes next removes it.
    const takes = (): readonly string[] =>
      fs.readdirSync(join(store, "layerfs/cache/lease")).filter((name) => name.startsWith("take-"))
    expect(takes()).toHaveLength(1)
    expect(await openOnce()).toBe("whole")
    expect(takes()).toEqual([])
  }
)

it("W12 W23 S20 a workspace of another pid namespace is alive while its process lives, stopped or not, and interrupted once that is known to be dead", async () => {
  const { provider, commit, store } = await ground({ a: "a" })
  const branch = await forkOf(provider, commit)
  const child = await inContainer([store, branch])
  await once(child.stdout!, "data")
  const first = childOf(child.pid!)!
  const left = async (): Promise<readonly string[]> => (await run(provider.left)).map(({ state }) => state)
  expect(await left()).toEqual([])
  process.kill(first, "SIGSTOP")
  expect(await left()).toEqual([])
  const other = { ...identify(first)!, pid: 1 }
  expect([isAlive(other), isAliveIn(join(store, "layerfs"), other)]).toEqual(["unknown", true])
  process.kill(first, "SIGKILL")
  await once(child, "close")
  // Without its sign nobody knows, and it may live.
  fs.renameSync(signs(store), `${signs(store)}-away`)
  expect([await left(), isAliveIn(join(store, "layerfs"), other)]).toEqual([[], "unknown"])
  fs.renameSync(`${signs(store)}-away`, signs(store))
  expect([await left(), isAliveIn(join(store, "layerfs"), other)]).toEqual([["interrupted"], false])
  const [found] = await run(provider.left)
  const recovered = await run(provider.recover(found!.id))
  expect(await treeAt(provider, recovered.branch)).toEqual({ a: "a", made: "inside\n" })
  expect(fs.readdirSync(join(store, "layerfs/work"))).toEqual([])
})

it("L12 W12 unfinished work of a live process of another pid namespace is not swept", async () => {
  const { provider, store, commit } = await ground({ a: "a" })
  const child = await inContainer([store, await forkOf(provider, commit)])
  await once(child.stdout!, "data")
  const { startTime, pidNamespace } = identify(childOf(child.pid!)!)!
  const made = join(store, "layerfs/cache/base", `.making-1-${startTime}-n${pidNamespace!.replace(/\D/g, "")}-x`)
  fs.mkdirSync(made)
  await run(provider.left)
  expect(fs.existsSync(made)).toBe(true)
  child.kill("SIGKILL")
  await once(child, "close")
  await run(provider.left)
  expect(fs.existsSync(made)).toBe(false)
})

it("W12 W23 S20 a decision of a process that was killed in another pid namespace keeps nobody from deciding, unless nobody knows that it is dead", async () => {
  const { provider, store, commit } = await ground({ a: "a" })
  const id = await using(provider, await forkOf(provider, commit), {}, async (workspace) => {
    await shell(workspace, "echo changed > a")
    return workspace.id
  })
  const at = { COPPICE_CRASH_AT: "recovery.claimed" }
  await once(await inContainer([store, "layerfs", "recover", id], at, "decider.ts"), "close")
  fs.renameSync(signs(store), `${signs(store)}-away`)
  expect(await failure(provider.discardLeft(id, "no"))).toMatchObject({ _tag: "Busy" })
  fs.renameSync(`${signs(store)}-away`, signs(store))
  expect(await treeAt(provider, (await run(provider.recover(id))).branch)).toEqual({ a: "changed\n" })
})
