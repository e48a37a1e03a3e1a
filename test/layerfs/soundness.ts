/**
 * What must hold of a store after any death, whatever was under way: everything readable, and no byte or file that nobody speaks for.
 * Promise: an empty answer means sound. Free of any test runner. Rules: L8, L10.
 */
import { readdirSync, statSync } from "node:fs"
import { join } from "node:path"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import type { StoreDirectories } from "../../providers/layerfs/LayerDirectories.ts"
import { Database } from "../../src/sqlite/Database.ts"

/** Files against rows: of a store that is closed, or open with nothing under way. */
export const leftOnDisk = ({ index, packs, work }: StoreDirectories): string[] => {
  const faults: string[] = []
  const db = Database.open(index, { readOnly: true })
  const rows = new Map(db.all("SELECT id, length, writer FROM packs").map((row) => [Number(row["id"]), row]))
  db.close()
  for (const name of readdirSync(packs)) {
    const row = rows.get(Number.parseInt(name, 10))
    const size = statSync(join(packs, name)).size
    if (row === undefined) faults.push(`pack ${name} is in no row`)
    else if (row["writer"] !== null) faults.push(`pack ${name} still has a writer`)
    else if (Number(row["length"]) > 0 && Number(row["length"]) !== size)
      faults.push(`pack ${name} is ${size} bytes long, the index knows ${String(row["length"])}`)
  }
  for (const name of readdirSync(work)) faults.push(`work/${name} is left`)
  return faults
}

/** What is wrong with an opened store after any death. */
export const unsound = async (store: LayerStore): Promise<string[]> => {
  const { ok, damaged } = await store.call("verify", {})
  return [...(ok ? [] : [`damaged: ${JSON.stringify(damaged)}`]), ...leftOnDisk(store.directories)]
}
