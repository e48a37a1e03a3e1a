/** Commits of several branches that become durable together, and what happens when one of them cannot. Rules: L2, L8, W10, W15. */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import type { CommitChanges } from "../../providers/layerfs/StoreCalls.ts"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { seededRandom } from "../seededRandom.ts"
import { seeded } from "./contentMemory.ts"
import { unsound } from "./soundness.ts"
import { logOf, put } from "./storeChange.ts"
import { atEnd, importInto, open, scratch } from "./storeFixture.ts"
import { child } from "./storeKills.ts"

vi.setConfig({ testTimeout: 240_000 })

const ground = async (count: number, options: { readonly projectQuota?: number } = {}) => {
  const source = scratch()
  writeFileSync(join(source, "seed"), "seed")
  const store = await openLayerStore({ store: join(scratch(), "s"), ...options })
  atEnd(() => store.close())
  const { layer } = await importInto(store, source)
  const branches = await Promise.all(
    Array.from({ length: count }, async (_, n) => (await store.call("fork", { from: layer, name: `${n}` })).id)
  )
  return { store, layer, branches, source, base: (await store.call("resolve", { ref: layer })).id }
}

const changesOf = (
  branch: string,
  expectedHead: string,
  operationId: string,
  text: string | Buffer
): CommitChanges => ({
  branch,
  expectedHead,
  changes: [put("file", text)],
  message: operationId,
  operationId,
  actor: {},
  at: 1
})

/** Closed and opened again: nothing is damaged, and no byte or file belongs to nobody. */
const expectSound = async (store: LayerStore): Promise<void> => {
  await store.close()
  expect(await unsound(await open(join(store.directories.root, "..")))).toEqual([])
}

/** Transactions in the index's log: frames that say how large the file is after them (sqlite.org/fileformat2.html, 4.1). */
const transactions = (store: LayerStore): number => {
  const wal = readFileSync(`${store.directories.index}-wal`)
  const pageSize = wal.readUInt32BE(8)
  let count = 0
  for (let at = 32; at + 24 + pageSize <= wal.length; at += 24 + pageSize) {
    // Frames of an earlier round of the log have its salt.
    if (wal.compare(wal, 16, 24, at + 8, at + 16) !== 0) break
    if (wal.readUInt32BE(at + 4) > 0) count += 1
  }
  return count
}

it("L8 commits of many branches that wait together are one transaction, each with its own head and answer", async () => {
  const { store, branches, base } = await ground(40)
  const before = transactions(store)
  const outcomes = await Promise.all(
    branches.map((branch, n) => store.call("commitChanges", changesOf(branch, base, `op_${n}`, `content ${n}`)))
  )
  // How many share one is a matter of how fast they are built: a group waits for no more than 10 ms.
  expect(transactions(store) - before).toBeLessThan(branches.length)
  for (const [n, branch] of branches.entries()) {
    expect((await store.call("branch", { id: branch })).head).toBe(outcomes[n]!.commit)
    const { entry } = await store.call("look", { ref: branch, path: "file", follow: true })
    expect(Buffer.from(await store.call("content", { id: entry.id!, size: entry.size })).toString()).toBe(
      `content ${n}`
    )
  }
  await expectSound(store)
})

it("L1 L8 a fork is one transaction, which at durability full is one fsync, and no byte of a pack", async () => {
  const { store, branches } = await ground(1)
  const packs = (await store.call("stats", {})).storedBytes
  for (let n = 0; n < 20; n += 1) {
    const before = transactions(store)
    await store.call("fork", { from: branches[0]!, name: "one more", operationId: `op_fork_${n}` })
    expect(transactions(store) - before).toBe(1)
  }
  expect((await store.call("stats", {})).storedBytes).toBe(packs)
})

it("L2 W10 whatever waits together is answered as if each had come alone: same branch, moved heads, taken ids, refused paths, nothing to do", async () => {
  const seed = seedOf()
  const random = seededRandom(seed)
  const { store, branches, base } = await ground(5)
  const alone = await ground(5)
  const nameOf = (ids: readonly string[], names: Map<string, string>, id: string): string => {
    if (!names.has(id)) names.set(id, `${names.size}`)
    return ids.includes(id) ? `branch ${ids.indexOf(id)}` : names.get(id)!
  }
  const heads: Record<"together" | "alone", Map<string, string>> = {
    together: new Map(branches.map((id) => [id, base])),
    alone: new Map(alone.branches.map((id) => [id, alone.base]))
  }
  for (let round = 0; round < 25; round += 1) {
    // Chosen once, asked of both stores.
    const asked = Array.from({ length: 2 + random(9) }, (_, n) => ({
      branch: random(5),
      operationId: random(8) === 0 ? `op_${random(round + 1)}_0` : `op_${round}_${n}`,
      isStale: random(6) === 0,
      path: random(9) === 0 ? "file/below" : `file-${random(3)}`,
      text: `${random(4)}`
    }))
    const call = (which: "together" | "alone", n: number): Promise<unknown> => {
      const { branch, operationId, isStale, path, text } = asked[n]!
      const [target, ids] = which === "together" ? [store, branches] : [alone.store, alone.branches]
      const intent = { message: "m", operationId, actor: {}, at: round }
      if (!isStale)
        return target.call("applyTo", {
          branch: ids[branch]!,
          operations: [{ op: "write", path, bytes: text }],
          ...intent
        })
      const expectedHead = heads[which].get(ids[branch]!)!
      return target.call("commitChanges", {
        branch: ids[branch]!,
        expectedHead,
        changes: [put("late", text)],
        ...intent
      })
    }
    const told = async (answer: Promise<unknown>): Promise<object> => {
      const { outcome, _tag, changedPaths } = (await answer.catch((error: unknown) => error)) as Record<string, unknown>
      return { outcome, _tag, changedPaths }
    }
    const together = await Promise.all(asked.map((_, n) => told(call("together", n))))
    const oneByOne = []
    for (const n of asked.keys()) oneByOne.push(await told(call("alone", n)))
    expect(together, `seed ${seed}, round ${round}: ${JSON.stringify(asked)}`).toEqual(oneByOne)
    // Heads that a later round calls stale: those of now.
    if (random(3) === 0) {
      for (const id of branches) heads.together.set(id, (await store.call("branch", { id })).head)
      for (const id of alone.branches) heads.alone.set(id, (await alone.store.call("branch", { id })).head)
    }
  }
  const shape = async (of: LayerStore, ids: readonly string[]) => {
    const names = new Map<string, string>()
    const logs = []
    for (const id of ids) {
      const log = await logOf(of, id)
      // The last one is the import.
      logs.push(log.slice(0, -1).map((commit) => [nameOf(ids, names, commit.id), commit.root, commit.operationId]))
    }
    return logs
  }
  expect(await shape(store, branches)).toEqual(await shape(alone.store, alone.branches))
  expect((await store.call("stats", {})).commits).toBe((await alone.store.call("stats", {})).commits)
  await expectSound(store)
})

it("W10 G75 two calls that wait together under one operation id: the first has it, the second is refused by name, the others commit", async () => {
  const { store, branches, base } = await ground(6)
  const settled = await Promise.allSettled(
    branches.map((branch, n) =>
      store.call("commitChanges", changesOf(branch, base, n === 4 ? "op_1" : `op_${n}`, `content ${n}`))
    )
  )
  expect(settled.map((one) => (one.status === "fulfilled" ? one.value.outcome : one.reason._tag))).toEqual([
    ...Array.from({ length: 4 }, () => "committed"),
    "OperationUsed",
    "committed"
  ])
  expect((await store.call("branch", { id: branches[4]! })).head).toBe(base)
  await expectSound(store)
})

it("W15 a project that is full refuses its own commit and none of those that wait with it; what was counted is what each one added", async () => {
  const { store, branches, base } = await ground(3, { projectQuota: 200_000 })
  const source = scratch()
  writeFileSync(join(source, "seed"), "other")
  const other = await importInto(store, source)
  const theirs = (await store.call("fork", { from: other.layer, name: "theirs" })).id
  const settled = await Promise.allSettled([
    store.call("commitChanges", changesOf(branches[0]!, base, "op_a", seeded(1, 110_000))),
    store.call("commitChanges", changesOf(branches[1]!, base, "op_b", seeded(2, 110_000))),
    store.call("commitChanges", changesOf(theirs, other.commit, "op_c", seeded(3, 110_000))),
    store.call("commitChanges", changesOf(branches[2]!, base, "op_d", "small"))
  ])
  const outcomes = settled.map((one) => (one.status === "fulfilled" ? one.value.outcome : one.reason._tag))
  expect(outcomes).toEqual(["committed", "StoreQuotaExceeded", "committed", "committed"])
  const { projects, storedBytes } = await store.call("stats", {})
  expect(projects.reduce((sum, project) => sum + project.storedBytes!, 0)).toBe(storedBytes)
  await expectSound(store)
})

/** A process that commits to six branches at once, four times. */
const grouped = async (variables: Readonly<Record<string, string>>) => {
  const { store, branches } = await ground(6)
  const directory = join(store.directories.root, "..")
  await store.close()
  return { ...(await child([directory, "group", branches.join(","), "4", "x"], variables)), directory, branches }
}

const logsOf = async (directory: string, branches: readonly string[]) => {
  const again = await open(directory)
  expect(await unsound(again)).toEqual([])
  return (await Promise.all(branches.map((id) => logOf(again, id)))).flat()
}

it.each([
  "layerfs.pack.sync:2",
  "refs.index.commit:3",
  "layerfs.pack.append:7",
  "refs.index.commit:3,layerfs.pack.truncate:1"
])(
  "L8 W10 a group that meets %s: whoever was told of a commit has it, whoever was told of a failure has nothing, and all go on",
  async (fault) => {
    const { said, directory, branches } = await grouped({ COPPICE_FAULT_AT: fault })
    expect(said.at(-1)).toEqual({ closed: true })
    const commits = said.flatMap((line) => line.commit ?? [])
    expect(said.some((line) => line.error !== undefined)).toBe(true)
    const logs = await logsOf(directory, branches)
    expect(new Set(logs.map(({ id }) => id)).size - 1).toBe(commits.length)
    expect(logs.map(({ id }) => id)).toEqual(expect.arrayContaining(commits))
    expect(commits.length).toBeGreaterThanOrEqual(18)
  }
)

it.each([
  "layerfs.pack.written:9",
  "layerfs.commit.packSynced:3",
  "refs.commit.inTransaction:3",
  "layerfs.commit.committed:8"
])(
  "L8 W10 killed at %s with a group under way: every commit that was told of is there, and each branch has a whole one or none",
  async (point) => {
    const { said, signal, directory, branches } = await grouped({ COPPICE_CRASH_AT: point })
    expect(signal).toBe("SIGKILL")
    const logs = await logsOf(directory, branches)
    expect(logs.map(({ id }) => id)).toEqual(expect.arrayContaining(said.flatMap((line) => line.commit ?? [])))
  }
)
