/**
 * The directory in the store that an open workspace has for itself: its upper or its tree, and what else is written for it.
 * Promise: it bears its name only when it is made whole; one that a killed process left behind tells who made it. Rules: W12, W23.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import { faultPoint } from "../../base/FaultPoint.ts"
import { currentIdentity, type ProcessIdentity } from "../../base/ProcessIdentity.ts"
import { freshName } from "./Machine.ts"
import { removeTree } from "./RemoveTree.ts"
import type { StorePort } from "./StorePort.ts"

export const workOf = (store: StorePort, id: string): string => path.join(store.directory, "work", id)

/** Where a directory of its own lies. */
export const treeOf = (work: string): string => path.join(work, "tree")

/** Where a lower layer that is served is mounted. */
export const servedPlace = (work: string): string => path.join(work, "lower")

/** Who makes or made the directory: by its name, else by the file in it; null when neither says. */
export const makerOf = (work: string): ProcessIdentity | null => {
  try {
    const [, inName] = /^\.fresh-([\w-]+)\./.exec(path.basename(work)) ?? []
    const text =
      inName === undefined ? fs.readFileSync(path.join(work, "owner"), "utf8") : Buffer.from(inName, "base64url")
    return JSON.parse(text.toString()) as ProcessIdentity
  } catch {
    return null
  }
}

/** Takes the files of a workspace away, and whatever else was set up for it. */
export const removeWork = async (store: StorePort, id: string): Promise<void> => {
  const work = workOf(store, id)
  await store.clear?.(treeOf(work))
  await removeTree(work)
  await store.unmake?.(id, treeOf(work))
}

/**
 * Runs `make` in a fresh directory of the store; when it fails, the directory goes again. It names its owner, so that one that a
 * killed process left before its row stood can be told from one that is being made (`sweepWork`).
 */
export const inWork = async <A>(store: StorePort, id: string, make: (work: string) => Promise<A>): Promise<A> => {
  const work = workOf(store, id)
  const fresh = path.join(path.dirname(work), freshName(id))
  faultPoint("workspace.make")
  fs.mkdirSync(fresh, { mode: 0o700 })
  crashPoint("workspace.freshMade")
  try {
    fs.writeFileSync(path.join(fresh, "owner"), JSON.stringify(currentIdentity()), { mode: 0o600 })
    fs.renameSync(fresh, work)
    crashPoint("workspace.made")
    fs.mkdirSync(path.join(work, "stage"), { mode: 0o700 })
    return await make(work)
  } catch (error) {
    await removeTree(fresh)
    await removeWork(store, id)
    throw error
  }
}
