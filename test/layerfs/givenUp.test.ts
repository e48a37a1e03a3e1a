/** Commits that fail after they were written out: what they staged belongs to nobody that comes after them. Rules: L8, L10, W10. */
import { createHash } from "node:crypto"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it } from "vitest"
import type { CommitChanges } from "../../providers/layerfs/StoreCalls.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import { put } from "./storeChange.ts"
import { importInto, open, scratch } from "./storeFixture.ts"

it("L8 L10 a commit that fails while its changes are counted leaves nothing that a later one builds on", async () => {
  const source = scratch()
  mkdirSync(join(source, "d/deep"), { recursive: true })
  writeFileSync(join(source, "d/deep/a"), "content of a")
  writeFileSync(join(source, "seed"), "seed")
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const { layer, commit } = await importInto(store, source)
  const branches = await Promise.all(
    ["one", "two", "three"].map(async (name) => (await store.call("fork", { from: layer, name })).id)
  )
  const tree = async (path: string): Promise<string> => {
    const found = await store.call("look", { ref: commit, path, follow: false })
    return (found.entry as { readonly id: string }).id
  }
  const lost = await tree("d/deep")
  await store.close()
  const index = new DatabaseSync(store.directories.index)
  const { changes } = index
    .prepare("DELETE FROM objects WHERE id = ?")
    .run(Buffer.from(lost.replace("sha256:", ""), "hex"))
  index.close()
  expect(changes).toBe(1)
  const again = await open(directory)
  const call = (n: number, changes: readonly TreeChange[]) => {
    const input: CommitChanges = {
      branch: branches[n]!,
      expectedHead: commit,
      changes,
      message: "m",
      operationId: `op_${n}`,
      actor: {},
      at: 1
    }
    return again.call("commitChanges", input)
  }
  const work = put("work", "hours of work")
  const settled = await Promise.allSettled([
    call(0, [put("other", "before it")]),
    call(1, [{ op: "remove", path: "d" }, work]),
    call(2, [work])
  ])
  expect(settled.map((one) => (one.status === "fulfilled" ? one.value.outcome : one.reason._tag))).toEqual([
    "committed",
    "ObjectDamaged",
    "committed"
  ])
  await again.close()
  const last = await open(directory)
  const { entry } = await last.call("look", { ref: branches[2]!, path: "work", follow: true })
  const bytes = await last.call("content", { id: entry.id!, size: entry.size })
  expect(createHash("sha256").update(bytes).digest("hex")).toBe(
    createHash("sha256").update("hours of work").digest("hex")
  )
  const { damaged } = await last.call("verify", {})
  expect(damaged.map(({ object }) => object)).toEqual([lost])
})
