/**
 * Watches places outside of a workspace that nothing inside should change, where isolation does not keep it from doing so.
 * Promise: whatever was written, added, removed or replaced below a watched place between two looks is named, whoever did it; a
 * place that was too large to be watched whole says so. Reads only, follows no link. Rules: W17; C36.
 *
 * The kernel sets ctime at every change and nobody sets it back, so a look is one lstat an entry and no content.
 */
import * as fs from "node:fs"
import { compare, fromInput, join, show, toBytes, type TreePath } from "../../base/PathBytes.ts"
import type { SentinelChange, SentinelReport } from "../WorkspaceProvider.ts"

/** Entries watched at most, and looked at before the event loop has its turn. */
const most = 200_000
const stride = 500

interface Look {
  /** What each entry looked like, by absolute path. */
  readonly entries: ReadonlyMap<TreePath, string>
  readonly partial: boolean
}

const lookAt = (at: TreePath): fs.BigIntStats | undefined => {
  try {
    return fs.lstatSync(toBytes(at), { bigint: true })
  } catch {
    // Gone, or not for this user: then it is the same not to be seen the next time, or it is a change.
    return undefined
  }
}

const namesIn = (at: TreePath): readonly TreePath[] => {
  try {
    return fs.readdirSync(toBytes(at), { encoding: "latin1" })
  } catch {
    return []
  }
}

const look = async (places: readonly TreePath[]): Promise<Look> => {
  const entries = new Map<TreePath, string>()
  const todo = [...places]
  for (let at = todo.pop(); at !== undefined; at = todo.pop()) {
    if (entries.size >= most) return { entries, partial: true }
    const stat = lookAt(at)
    if (stat === undefined) continue
    entries.set(at, `${stat.ino} ${stat.mode} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}`)
    if (stat.isDirectory()) for (const name of namesIn(at)) todo.push(join(at, name))
    if (entries.size % stride === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  return { entries, partial: false }
}

export class Sentinels {
  readonly #places: readonly TreePath[]
  readonly #before: Look

  private constructor(places: readonly TreePath[], before: Look) {
    this.#places = places
    this.#before = before
  }

  /** Takes the first look. Places that are not there yet are watched too. */
  static async set(places: readonly TreePath[]): Promise<Sentinels> {
    return new Sentinels(places, await look(places))
  }

  async report(): Promise<SentinelReport> {
    const now = await look(this.#places)
    const changed: SentinelChange[] = []
    const before = this.#before.entries
    // What only one of two partial looks has seen says nothing.
    const partial = this.#before.partial || now.partial
    for (const [at, was] of before) {
      const is = now.entries.get(at)
      if (is === undefined && !partial) changed.push({ ...show(at), kind: "removed" })
      else if (is !== undefined && is !== was) changed.push({ ...show(at), kind: "modified" })
    }
    if (!partial) {
      for (const at of now.entries.keys()) if (!before.has(at)) changed.push({ ...show(at), kind: "added" })
    }
    changed.sort((a, b) => compare(fromInput(a.path), fromInput(b.path)))
    return { watched: this.#places.map((at) => show(at).path), partial, changed }
  }
}
