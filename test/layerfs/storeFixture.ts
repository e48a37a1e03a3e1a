/**
 * Ground for the store's tests: scratch directories, stores that are closed again, and trees read back by the file system.
 * Promise: nothing of a test is left behind. Rules: house rules for tests.
 */
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach } from "vitest"
import { openLayerStore, type LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { newId } from "../../src/base/Id.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import type { FileOperation } from "../../src/workspace/WorkspaceProvider.ts"
import { latin } from "./storeChange.ts"
import { sha256 } from "../../src/base/Digest.ts"

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
})

/** Runs after the test, last come first served. */
export const atEnd = (cleanup: () => unknown): void => {
  cleanups.push(cleanup)
}

/** A directory that is removed after the test. */
export const scratch = (): string => {
  const path = mkdtempSync(join(tmpdir(), "coppice-store-"))
  cleanups.push(() => rmSync(path, { recursive: true, force: true }))
  return path
}

export const open = async (store: string, settlingNs?: bigint): Promise<LayerStore> => {
  const opened = await openLayerStore({ store, ...(settlingNs === undefined ? {} : { settlingNs }) })
  cleanups.push(() => opened.close())
  return opened
}

export const importInto = (store: LayerStore, source: string) =>
  store.call("importDirectory", { source: latin(source), name: "test", operationId: newId("operation"), at: 1 })

export const commitInto = async (
  store: LayerStore,
  branch: string,
  changes: readonly TreeChange[],
  keepTimes = false
) =>
  store.call("commitChanges", {
    branch,
    expectedHead: (await store.call("branch", { id: branch })).head,
    changes,
    message: "test",
    operationId: newId("operation"),
    actor: {},
    at: 1,
    keepTimes
  })

/** Direct calls on a branch's head. */
export const apply = (store: LayerStore, branch: string, operations: readonly FileOperation[]) =>
  store.call("applyTo", { branch, operations, message: "test", operationId: newId("operation"), actor: {}, at: 1 })

export interface Shown {
  readonly type: string
  readonly mode: number
  readonly mtimeNs: bigint
  readonly content: string
  readonly length: number
  readonly inode: bigint
  readonly links: bigint
}

/** What really lies below a directory, by byte path. Directories' own sizes and inodes are of no interest. */
export const readTree = (root: string): Map<string, Shown> => {
  const found = new Map<string, Shown>()
  const walk = (path: string): void => {
    const at = (child: string): Buffer => Buffer.concat([Buffer.from(`${root}/`), Buffer.from(child, "latin1")])
    for (const name of readdirSync(at(path), { encoding: "latin1" }).sort()) {
      const child = path === "" ? name : `${path}/${name}`
      const stat = lstatSync(at(child), { bigint: true })
      const type = stat.isDirectory()
        ? "directory"
        : stat.isSymbolicLink()
          ? "symlink"
          : stat.isFile()
            ? "file"
            : "special"
      const content =
        type === "file"
          ? sha256(readFileSync(at(child)))
          : type === "symlink"
            ? readlinkSync(at(child), { encoding: "latin1" })
            : ""
      found.set(child, {
        type,
        mode: type === "symlink" ? 0 : Number(stat.mode & 0o7777n),
        mtimeNs: stat.mtimeNs,
        content,
        length: Number(stat.size),
        inode: type === "directory" ? 0n : stat.ino,
        links: type === "directory" ? 0n : stat.nlink
      })
      if (type === "directory") walk(child)
    }
  }
  walk("")
  return found
}

/** The parts that a copy must share with its original. */
export const comparable = (tree: ReadonlyMap<string, Shown>): Record<string, string> =>
  Object.fromEntries([...tree].map(([path, e]) => [path, `${e.type} ${e.mode.toString(8)} ${e.mtimeNs} ${e.content}`]))
