/** A store written by the first released format stays readable, byte for byte. Rules: 01 "On disk"; L14, L15, W6, G5. */
import { spawn } from "node:child_process"
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, it } from "vitest"
import { put } from "./storeChange.ts"
import { child } from "./storeKills.ts"
import { apply, commitInto, importInto, open, readTree, scratch } from "./storeFixture.ts"

interface Expected {
  readonly layer: string
  readonly branch: string
  readonly first: string
  readonly second: string
  readonly root: string
  readonly digest: string
}

interface Later extends Expected {
  readonly imported: string
  readonly undone: string
  readonly joined?: string
  readonly shallow?: string
}

/** A golden store with the directory modes that git does not keep, and what is expected of it. */
const copyOfGolden = <E extends Expected>(format: number): { readonly directory: string; readonly expected: E } => {
  const place = fileURLToPath(new URL(`../golden/layerfs-format-${format}`, import.meta.url))
  const directory = scratch()
  for (const name of ["", "/packs", "/cache", "/work"]) mkdirSync(`${directory}/layerfs${name}`, { mode: 0o700 })
  for (const name of readdirSync(place)) {
    if (name === "index.db") copyFileSync(join(place, name), `${directory}/layerfs/${name}`)
    else if (name.endsWith(".pack")) copyFileSync(join(place, name), `${directory}/layerfs/packs/${name}`)
  }
  return { directory, expected: JSON.parse(readFileSync(join(place, "expected.json"), "utf8")) as E }
}

it("L14 L15 W6 a store of format 1 opens, verifies, gives the same roots and trees, and takes further commits", async () => {
  const { directory, expected } = copyOfGolden(1)
  const store = await open(directory)
  expect(await store.call("verify", {})).toMatchObject({ ok: true, objects: 19 })
  expect(await store.call("branch", { id: expected.branch })).toMatchObject({
    base: expected.layer,
    head: expected.second
  })
  const { commits: log } = await store.call("log", { refs: [expected.branch], path: null })
  // Placed by the migration: after their parents, by time where there was one.
  expect(log.map((commit) => commit.dated)).toEqual(log.map((commit) => commit.dated).toSorted((a, b) => b - a))
  expect(new Set(log.map((commit) => commit.dated)).size).toBe(3)
  expect(log.every((commit) => commit.dated >= commit.at && commit.secondParent === null)).toBe(true)
  expect(log.map((commit) => commit.message)).toEqual(["second", "first", "Import golden"])
  expect(log[0]).toMatchObject({ root: expected.root, actor: { agent: "agt_golden" }, operationId: "op_golden_2" })
  expect(await store.call("treeDigest", { ref: expected.second })).toMatchObject({ digest: expected.digest })
  const target = join(scratch(), "out")
  await store.call("materialise", { commit: expected.second, target })
  const tree = readTree(target)
  expect([...tree.keys()]).toEqual(["d", "d/a", "d/b", "f\u00fe\u00ff", "large", "link", "tool", "z"])
  expect(tree.get("tool")).toMatchObject({ mode: 0o4755, mtimeNs: 1_700_000_000_123_456_789n })
  expect(tree.get("link")).toMatchObject({ content: "d/a", mtimeNs: -1n })
  expect(tree.get("z")!.inode).toBe(tree.get("d/a")!.inode)
  // Written again by today's code, the same content has one root again (another one: its large file is kept as chunks), and the
  // digest that says what the tree holds is the same.
  const other = await open(join(scratch(), "s"))
  const again = await importInto(other, target)
  expect(again.root).not.toBe(expected.root)
  expect(await other.call("treeDigest", { ref: again.commit })).toMatchObject({ digest: expected.digest })
  // A file keeps its old form until its content changes, and then it is what a new one would be.
  const size = tree.get("large")!.length
  const splice = { op: "splice", path: "large", offset: size - 1, deleteCount: 1 } as const
  const last = readFileSync(join(target, "large")).subarray(-1)
  await apply(store, expected.branch, [{ ...splice, bytes: Buffer.from([last[0]! ^ 1]) }])
  await apply(store, expected.branch, [{ ...splice, bytes: last }])
  const after = await store.call("treeDigest", { ref: expected.branch })
  expect(after.digest).toBe(expected.digest)
  const entry = await store.call("entry", { ref: expected.branch, path: "large" })
  expect(entry!.id).toBe((await other.call("entry", { ref: again.commit, path: "large" }))!.id)
  expect(await store.call("verify", {})).toMatchObject({ ok: true })
  expect(await commitInto(store, expected.branch, [put("new", "new")])).toMatchObject({ outcome: "committed" })
})

it.each([
  { format: 2, messages: ["undone", "second", "first"] },
  { format: 3, messages: ["undone", "second", "joined", "first"] }
])(
  "L7 L10 L13 L14 L15 a store of format $format opens, verifies and gives every state, chunked, paged, compacted, undone and without its past, and takes further work",
  async ({ format, messages }) => {
    const { directory, expected } = copyOfGolden<Later>(format)
    const store = await open(directory)
    const report = await store.call("verify", {})
    expect(report).toMatchObject({ ok: true, damaged: [], index: [] })
    expect(await store.call("branch", { id: expected.branch })).toMatchObject({ head: expected.second })
    expect(await store.call("treeDigest", { ref: expected.second })).toMatchObject({ digest: expected.digest })
    expect(await store.call("resolve", { ref: expected.second })).toMatchObject({ root: expected.root })
    const { commits } = await store.call("log", { refs: [expected.undone], path: null })
    expect(commits.map(({ message, actor }) => [message, actor])).toEqual([
      ...messages.map((message) => [message, { agent: "agt_golden", call: `call_${message}`, goal: "goal_golden" }]),
      ["Import golden", {}]
    ])
    const text = async (ref: string, path: string) => Buffer.from(await store.call("readAt", { ref, path })).toString()
    const a = "content of a\n".repeat(40)
    expect([await text(expected.imported, "d/a"), await text(expected.first, "d/a")]).toEqual([a, `${a}more\n`])
    // Both names of one file: what was written through one is under the other.
    expect(await text(expected.first, "z")).toBe(`${a}more\n`)
    expect((await store.call("readAt", { ref: expected.second, path: "large" })).subarray(150_000, 150_012)).toEqual(
      Uint8Array.from(Buffer.from("spliced here"))
    )
    expect([await text(expected.second, "wide/entry-1500"), await text(expected.second, "moved")]).toEqual([
      "changed",
      ""
    ])
    if (expected.joined !== undefined) {
      const large = await store.call("readAt", { ref: expected.joined, path: "large" })
      expect(Buffer.from(large.subarray(1_350_000, 1_350_011)).toString()).toBe("joined here")
      expect(large).toHaveLength(1_500_011)
      const { commits: told, beginsHere } = await store.call("log", { refs: [expected.shallow!], path: null })
      expect([told.map(({ message }) => message), beginsHere]).toEqual([["shallow"], [expected.shallow]])
      expect(await text(expected.shallow!, "file")).toBe("newer")
    }
    expect(await store.call("list", { ref: expected.second, path: "wide" })).toHaveLength(2999)
    const entry = async (ref: string) => (await store.call("entry", { ref, path: "link" }))?.target ?? null
    expect([await entry(expected.second), await entry(expected.undone)]).toEqual(["d/a", null])
    // The same content by today's code has the same root.
    const target = join(scratch(), "out")
    await store.call("materialise", { commit: expected.second, target })
    const other = await open(join(scratch(), "s"))
    expect((await importInto(other, target)).root).toBe(expected.root)
    const undo = {
      branch: expected.branch,
      expectedHead: expected.second,
      operationId: "op_u",
      actor: {},
      at: 1,
      reason: ""
    }
    expect(await store.call("moveHead", { ...undo, to: expected.undone })).toMatchObject({ head: expected.undone })
    expect(await commitInto(store, expected.branch, [put("new", "new")])).toMatchObject({ outcome: "committed" })
    expect(await store.call("compact", { maxMs: null, maxBytes: null })).toMatchObject({
      complete: true,
      unreadable: 0
    })
    expect(await store.call("verify", {})).toMatchObject({ ok: true })
  }
)

it.each([1, 2])(
  "G5 L8 L12 four processes that open a store of format %i at once migrate it once, and one killed on the way leaves it whole",
  async (format) => {
    const { directory, expected } = copyOfGolden(format)
    const { branch, first, second } = expected
    const killed = await Promise.all(
      Array.from({ length: 4 }, (_, n) =>
        child([directory, "commit", branch, "1", `writer${n}`], {}, (said) =>
          n === 0 && said.length === 1 ? 0 : undefined
        )
      )
    )
    for (const { said } of killed.slice(1)) expect(said.at(-1)).toEqual({ closed: true })
    const store = await open(directory)
    expect(await store.call("verify", {})).toMatchObject({ ok: true, damaged: [], index: [] })
    for (const commit of [first, second, ...killed.flatMap(({ said }) => said.flatMap((line) => line.commit ?? []))])
      expect(await store.call("resolve", { ref: commit })).toMatchObject({ id: commit })
  }
)

it("L12 a call after the store was closed is refused by name", async () => {
  const store = await open(scratch())
  await store.close()
  await expect(store.call("stats", {})).rejects.toMatchObject({
    _tag: "StorageFailure",
    message: "The store is closed."
  })
})

it("L8 an open store does not keep its process alive, and what it leaves is a sound store", async () => {
  const directory = scratch()
  const program = `
    import { openLayerStore } from ${JSON.stringify(new URL("../../providers/layerfs/LayerStore.ts", import.meta.url).href)}
    const store = await openLayerStore({ store: ${JSON.stringify(directory)} })
    await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    console.log("done")`
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  let said = ""
  child.stdout.on("data", (chunk: Buffer) => {
    said += chunk.toString()
  })
  expect(await new Promise((resolve) => child.on("close", (code) => resolve(code)))).toBe(0)
  expect(said).toBe("done\n")
  const store = await open(directory)
  expect(await store.call("verify", {})).toMatchObject({ ok: true })
  expect(await store.call("findOperation", { operationId: "op_e" })).not.toBe(null)
})
