/**
 * Writes the golden store of the present format: run once per released format, never again for an old one.
 * `node test/layerfs/goldenStore.ts STORE test/golden/layerfs-format-3`. It has what the format knows: groups, deltas, patches of one base
 * and of two, chunks under a list of pages, holes, a paged directory, a move of a head, a compacted pack beside one that is not, a state without its past,
 * links of both kinds, times, names as bytes.
 */
import { copyFileSync, linkSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { defineRowSum } from "../../src/workspace/kit/RowSums.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { seededRandom } from "../seededRandom.ts"

const [directory, target] = process.argv.slice(2) as [string, string]
const random = seededRandom(2)
const noise = (length: number): Buffer => Buffer.from(Array.from({ length }, () => random(256)))

const source = join(directory, "source")
mkdirSync(join(source, "d"), { recursive: true })
mkdirSync(join(source, "wide"))
for (let n = 0; n < 3000; n += 1) writeFileSync(join(source, "wide", `entry-${n}`), n % 100 === 0 ? `${n}` : "")
writeFileSync(join(source, "d/a"), "content of a\n".repeat(40))
linkSync(join(source, "d/a"), join(source, "z"))
symlinkSync("d/a", join(source, "link"))
writeFileSync(join(source, "large"), Buffer.concat([noise(300_000), Buffer.alloc(1_000_000), noise(300_000)]))
writeFileSync(Buffer.concat([Buffer.from(join(source, "f")), Buffer.from([0xfe, 0xff])]), "bytes")
utimesSync(join(source, "z"), 1_700_000_000, 1_700_000_000)

const store = await openLayerStore({ store: join(directory, "store") })
const receipt = await store.call("importDirectory", { source, name: "golden", operationId: "op_golden_0", at: 1000 })
const branch = await store.call("fork", { from: receipt.layer, name: "golden" })
let at = 1000
const apply = async (message: string, operations: readonly object[]): Promise<string> => {
  at += 1000
  const outcome = await store.call("applyTo", {
    branch: branch.id,
    operations: operations as never,
    message,
    operationId: `op_golden_${message}`,
    actor: { agent: "agt_golden", call: `call_${message}`, goal: "goal_golden" },
    at
  })
  return outcome.outcome === "committed" ? outcome.commit : ""
}
const first = await apply("first", [{ op: "write", path: "d/a", bytes: `${"content of a\n".repeat(40)}more\n` }])
await store.call("compact", { maxMs: null, maxBytes: null })
// Removes the end of a chunk: one piece has the bytes of two old ones.
const joined = await apply("joined", [
  { op: "splice", path: "large", offset: 1_350_000, deleteCount: 100_000, bytes: Buffer.from("joined here") }
])
const second = await apply("second", [
  { op: "splice", path: "large", offset: 150_000, deleteCount: 10, bytes: Buffer.from("spliced here") },
  { op: "write", path: "wide/entry-1500", bytes: "changed" },
  { op: "move", from: "wide/entry-7", to: "moved" }
])
const undone = await apply("undone", [{ op: "remove", path: "link" }])
const move = { branch: branch.id, expectedHead: undone, to: second, reason: "golden", actor: {}, at: at + 1000 }
await store.call("moveHead", { ...move, operationId: "op_golden_reset" })
const elsewhere = await openLayerStore({ store: join(directory, "elsewhere") })
mkdirSync(join(directory, "shallow"))
writeFileSync(join(directory, "shallow/file"), "older")
const other = await elsewhere.call("importDirectory", {
  source: join(directory, "shallow"),
  name: "shallow",
  operationId: "op_golden_shallow",
  at: 1000
})
const grown = await elsewhere.call("fork", { from: other.layer, name: "grown" })
const { commit: shallow } = await elsewhere.call("applyTo", {
  branch: grown.id,
  operations: [{ op: "write", path: "file", bytes: "newer" }],
  message: "shallow",
  operationId: "op_golden_newer",
  actor: {},
  at: 2000
})
const bundle = join(directory, "bundle")
await elsewhere.call("exportBundle", { ref: shallow, target: bundle, history: false })
await elsewhere.close()
await store.call("importBundle", { source: bundle })
const { digest } = await store.call("treeDigest", { ref: second })
const { root } = await store.call("resolve", { ref: second })
await store.close()

// Where it was imported from is a place of the machine that made it.
const index = Database.open(store.directories.index)
defineRowSum(index)
index.raw.exec("UPDATE projects SET source = NULL, sum = row_sum(id, name, NULL); VACUUM; PRAGMA journal_mode = DELETE")
index.close()

mkdirSync(target, { recursive: true })
copyFileSync(store.directories.index, join(target, "index.db"))
for (const pack of readdirSync(store.directories.packs))
  copyFileSync(join(store.directories.packs, pack), join(target, pack))
const expected = {
  layer: receipt.layer,
  branch: branch.id,
  imported: receipt.commit,
  first,
  joined,
  shallow,
  second,
  undone,
  root,
  digest
}
writeFileSync(join(target, "expected.json"), `${JSON.stringify(expected, null, 2)}\n`)
