/**
 * Looks that every state of a bundle is whole, before the store says that it has it.
 * Promise: each object that a commit leads to is in the bundle or here, is of the kind that it is used as, and each file is as long as its
 * directory says; what is not ends the import. No object is looked at twice, however often it is named. Rules: L10, L13.
 */
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import type { Digest } from "../../src/base/Digest.ts"
import { type BundleManifest, refused } from "./BundleManifest.ts"
import { decodePage, isHole, isPage } from "./ContentPages.ts"
import { typed } from "../../src/workspace/kit/ErrorTransfer.ts"
import { idLength } from "../../src/base/DigestBytes.ts"
import { blockSize, idsOfList, inlineLimit, zeroBlock } from "./ObjectId.ts"
import { type ObjectUse, type ObjectWriter, useOf } from "./PackedObjects.ts"
import { StoredTrees, visitPages } from "./StoredTrees.ts"

class Untrue extends Error {}
const holds = (condition: boolean): void => {
  if (!condition) throw new Untrue()
}

/** Throws `BundleRefused`. */
export const checkClosure = (objects: ObjectWriter, manifest: BundleManifest, shown: string): void => {
  let commit = ""
  const trees = new StoredTrees(objects)
  const used: Readonly<Record<ObjectUse, Set<string>>> = { tree: new Set(), times: new Set(), content: new Set() }
  /** Objects of the bundle that are used as another kind than it says: right where the same bytes are used as that too. */
  const doubtful = new Map<Digest, { readonly said: ObjectUse; readonly commit: string }>()
  /** The length of an object that must be there. */
  const need = (id: Digest, use: ObjectUse): number => {
    if (!objects.has(id)) throw refused("incomplete", shown, { commit })
    used[use].add(id)
    const kind = objects.kindSinceFlush(id)
    if (kind !== undefined && useOf(kind) !== use) doubtful.set(id, { said: useOf(kind), commit })
    return objects.size(id)
  }
  const pages = (id: Digest, use: ObjectUse): void =>
    visitPages(objects, id, (page) => {
      const isNew = !used[use].has(page)
      need(page, use)
      return isNew
    })
  const walked = new Set<string>()
  const walk = (id: Digest, timesId: Digest): void => {
    if (walked.has(`${id}${timesId}`)) return
    walked.add(`${id}${timesId}`)
    need(id, "tree")
    need(timesId, "times")
    pages(id, "tree")
    pages(timesId, "times")
    const tree = trees.tree(id)
    const times = trees.times(timesId, tree)
    for (const [i, entry] of tree.entries.entries()) {
      if (entry.type === "directory") walk(entry.id, times[i]!.times!)
      if (entry.type === "file") content(entry.id, entry.size)
    }
  }
  const measured = new Map<string, number>()
  /** The bytes below a page of chunks. */
  const below = (id: Digest, bytes: Buffer): number => {
    const known = measured.get(id)
    if (known !== undefined) return known
    let total = 0
    const { level, entries } = decodePage(bytes)
    for (const entry of entries) {
      total += entry.length
      if (isHole(entry)) continue
      const length = need(entry.id, "content")
      holds(entry.length === (level === 0 ? length : below(entry.id, objects.read(entry.id))))
    }
    measured.set(id, total)
    return total
  }
  const content = (id: Digest, size: number): void => {
    const isKnown = walked.has(`${id} ${size}`)
    if (isKnown || (id === zeroBlock && size === blockSize)) return
    walked.add(`${id} ${size}`)
    const length = need(id, "content")
    if (length === size) return
    holds(size > inlineLimit)
    const bytes = objects.read(id)
    if (isPage(bytes)) return holds(below(id, bytes) === size)
    // What format 1 made of a large file.
    holds(bytes.length === Math.ceil(size / blockSize) * idLength)
    for (const [n, block] of idsOfList(bytes).entries()) {
      const wanted = Math.min(blockSize, size - n * blockSize)
      holds((block === zeroBlock ? blockSize : need(block, "content")) === wanted)
    }
  }
  try {
    for (const one of manifest.commits) {
      commit = one.id
      need(`sha256:${one.times}`, "times")
      walk(`sha256:${one.root}`, trees.root(`sha256:${one.times}`).times)
    }
    for (const [id, { said, commit: of }] of doubtful) {
      commit = of
      holds(used[said].has(id))
    }
  } catch (error) {
    // What the disk or the index says is no matter of the bundle.
    if (isCoppiceError(typed(error))) throw error
    // Bytes that match their id and mean nothing where they stand: no Coppice wrote them there.
    throw refused("invalid", shown, { commit, detail: `what the commit ${commit} names is no state of a directory` })
  }
}
