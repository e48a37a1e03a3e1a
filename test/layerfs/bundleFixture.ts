/** Ground for the tests of bundles: a store with a history, and what of a store must not change. Rules: house rules for tests. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { latin, put } from "./storeChange.ts"
import { commitInto, importInto, open, scratch } from "./storeFixture.ts"

/** A store with an import, five commits on a branch, and a large file; and a bundle of it. */
export const ground = async (random: (below: number) => number) => {
  const source = scratch()
  writeFileSync(join(source, "a"), `a ${random(1_000_000)} `.repeat(500))
  writeFileSync(join(source, "large"), Buffer.from(Array.from({ length: 600_000 }, () => random(256))))
  const store = await open(join(scratch(), "s"))
  const { layer, project } = await importInto(store, source)
  const { id: branch } = await store.call("fork", { from: layer, name: "b" })
  const commits: string[] = []
  for (let n = 0; n < 5; n += 1) {
    const { commit } = await commitInto(store, branch, [
      put("a", `${n} `.repeat(2000)),
      put(`d-${n}`, `${random(1_000_000)}`)
    ])
    commits.push(commit)
  }
  const file = join(scratch(), "b.bundle")
  return { store, project, branch, commits, file, target: latin(file) }
}

/** What there is of the objects, commits and packs: equal before and after a refusal. */
export const state = async (store: LayerStore) => {
  const { objects, commits, storedBytes, projects } = await store.call("stats", {})
  return { objects, commits, storedBytes, projects }
}
