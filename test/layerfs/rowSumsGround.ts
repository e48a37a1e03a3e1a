/** A closed store with a row of every kind, its log written back. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { apply, importInto, scratch } from "./storeFixture.ts"

export const exportAndImport = async (directory: string): Promise<{ index: string; message: string }> => {
  const source = scratch()
  writeFileSync(join(source, "a"), "a")
  const store = await openLayerStore({ store: directory })
  const { layer, commit } = await importInto(store, source)
  const branch = (await store.call("fork", { from: layer, name: "b", operationId: "op_fork" })).id
  const { commit: head } = await apply(store, branch, [{ op: "write", path: "a", bytes: "b" }])
  const intent = { at: 5, reason: "why", actor: { agent: "agt_1" }, operationId: "op_reset" }
  await store.call("moveHead", { branch, expectedHead: head, to: commit, ...intent })
  await store.call("pin", { key: "kept", ref: head })
  // A store of its own sees a bundle's rows written by the import.
  const bundle = join(scratch(), "bundle")
  await store.call("exportBundle", { ref: head, target: bundle, history: true })
  await store.close()
  const other = await openLayerStore({ store: `${directory}-other` })
  await other.call("importBundle", { source: bundle })
  const { ok, index: said } = await other.call("verify", {})
  if (!ok) throw new Error(said.join("\n"))
  await other.close()
  const { index } = store.directories
  const db = new DatabaseSync(index)
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)")
  db.close()
  return { index, message: "Import test" }
}
