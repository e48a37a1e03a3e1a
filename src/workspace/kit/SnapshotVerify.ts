/**
 * Reading everything back, and counting what is there. Promise: every file of every commit is compared with the digest that the commit has of
 * it; a damaged one is named with its paths and commits; what was not measured is null. Rules: L10, L11, W3.
 */
import { statSync } from "node:fs"
import type { Digest } from "../../base/Digest.ts"
import { show, type TreePath } from "../../base/PathBytes.ts"
import { isCoppiceError } from "../../base/CoppiceError.ts"
import { ContentDigester } from "../TreeDigest.ts"
import type { DamagedObject, StoreStats, VerifyReport } from "../WorkspaceValues.ts"
import { type CommitTree, digestOfTree } from "./CommitTree.ts"
import { changedRows } from "./RowSums.ts"
import type { CallScope, SnapshotStore } from "./SnapshotStore.ts"

/** Paths and commits named per damaged object at most. */
const named = 20

class Damage {
  readonly #found = new Map<string, { readonly paths: Set<TreePath>; readonly commits: Set<string> }>()

  add(object: string, commit: string, path?: TreePath): void {
    const known = this.#found.get(object) ?? { paths: new Set(), commits: new Set() }
    this.#found.set(object, known)
    known.commits.add(commit)
    if (path !== undefined) known.paths.add(path)
  }

  report(): DamagedObject[] {
    return [...this.#found].map(([object, { paths, commits }]) => ({
      object,
      paths: [...paths].slice(0, named).map(show),
      commits: [...commits].toReversed().slice(0, named),
      commitCount: commits.size
    }))
  }
}

/** The list of a commit's files, when it is sound. */
const soundTree = async (store: SnapshotStore, commit: string, root: Digest, damage: Damage) => {
  try {
    const tree = await store.trees.check(commit)
    if ((await digestOfTree(tree)) === root) return tree
  } catch (error) {
    if (!isCoppiceError(error)) throw error
  }
  damage.add(commit, commit)
  return undefined
}

const verifyFiles = async (
  store: SnapshotStore,
  commit: { readonly project: string; readonly commit: string },
  tree: CommitTree,
  damage: Damage,
  seen: (files: number, bytes: number) => void
): Promise<void> => {
  const files = tree.entries.filter((entry) => entry.type === "file")
  const open = new Set(files.map((file) => file.path))
  let digester = new ContentDigester()
  try {
    for await (const { path, bytes, zeros = 0, last } of store.backend.contents(commit, [...open])) {
      digester.add(bytes)
      digester.addZeros(zeros)
      seen(0, bytes.length)
      if (!last) continue
      const { id } = tree.entry(path)!
      if (digester.end() !== id) damage.add(id!, commit.commit, path)
      open.delete(path)
      seen(1, 0)
      digester = new ContentDigester()
    }
  } catch (error) {
    // The files behind one that cannot be read are asked for again, without it.
    const [broken] = open
    if (broken === undefined) throw error
    damage.add(tree.entry(broken)!.id!, commit.commit, broken)
    const rest = new Set([...open].slice(1))
    if (rest.size > 0) {
      const entries = tree.entries.filter((entry) => entry.type !== "file" || rest.has(entry.path))
      await verifyFiles(store, commit, new (tree.constructor as typeof CommitTree)(entries), damage, seen)
    }
  }
}

export const verifyKept = async (store: SnapshotStore, scope: CallScope): Promise<VerifyReport> => {
  const damage = new Damage()
  const index = store.db
    .all("PRAGMA integrity_check(100)")
    .map((row) => String(row["integrity_check"]))
    .filter((line) => line !== "ok")
    .concat(changedRows(store.db))
  let files = 0
  let bytes = 0
  for (const snapshot of store.refs.commits()) {
    const { root } = store.resolve(snapshot.commit)
    const tree = await soundTree(store, snapshot.commit, root, damage)
    if (tree === undefined) continue
    await verifyFiles(store, snapshot, tree, damage, (more, length) => {
      scope.signal.throwIfAborted()
      files += more
      bytes += length
      scope.progress({ phase: "verify", files, bytes, totalFiles: null, totalBytes: null })
    })
  }
  const damaged = damage.report()
  return { ok: damaged.length === 0 && index.length === 0, objects: files, damaged, index, unreferencedBytes: 0 }
}

export const statsOfKept = async (store: SnapshotStore): Promise<StoreStats> => ({
  objects: store.refs.commits().length,
  logicalBytes: null,
  uniqueBytes: null,
  metadataBytes: null,
  storedBytes: await store.backend.storedBytes(),
  freeBytes: null,
  indexBytes: statSync(store.directories.index).size,
  dedupRatio: null,
  compressionRatio: null,
  ...store.refs.counts(),
  quota: { storeBytes: store.quota.limit, projectBytes: null },
  projects: store.refs.projects().map(({ id, name }) => ({ id, name, storedBytes: null }))
})
