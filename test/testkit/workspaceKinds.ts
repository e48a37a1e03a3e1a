/**
 * The workspace providers of this repository under the conformance suite, one line each.
 * Promise: a worker program opens the very same kind of store; places lie on a disk and not below `/tmp`. Rules: K1 to K4, W1.
 */
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  realpathSync,
  statSync,
  writeSync
} from "node:fs"
import { join } from "node:path"
import { openGitWorktree } from "../../providers/git-worktree/index.ts"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { openReflink } from "../../providers/reflink/index.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import type { OpenProvider, PlaceUnderTest, WorkspaceUnderTest } from "../../src/testkit/index.ts"
import { makeSnapshotProvider } from "../../src/workspace/kit/SnapshotProvider.ts"
import { copyBackend } from "../kit/copyBackend.ts"
import { lackOf, loopImage } from "../reflink/loopImage.ts"
import { mayMount, type SmallDisk, smallDisk } from "../layerfs/smallDisk.ts"

interface Kind extends Pick<WorkspaceUnderTest, "options" | "holds" | "apart"> {
  readonly provider: "layerfs" | "copies" | "reflink" | "git-worktree"
  readonly open: (store: string, capBytes?: number) => OpenProvider
  /** The file system that it needs: each place lies on a disk of its own, where one can be mounted. */
  readonly disk?: "btrfs" | "xfs"
  readonly damage?: (store: string) => void
}

const layerFs = (store: string, storeQuota?: number): OpenProvider =>
  openLayerFs({ store, ...(storeQuota === undefined ? {} : { storeQuota }) })

/** Turns over one byte in every 512 of the packs, behind their heads. */
const damagePacks = (store: string): void => {
  const packs = join(store, "layerfs", "packs")
  for (const name of readdirSync(packs)) damageFile(join(packs, name))
}

const damageFile = (path: string): void => {
  chmodSync(path, 0o600)
  const file = openSync(path, "r+")
  for (let at = 256; at < statSync(path).size; at += 512) writeSync(file, Buffer.from([0xa5]), 0, 1, at)
  closeSync(file)
}

/** Turns over the first byte of every kept file. */
const damageStates =
  (provider: string) =>
  (store: string): void => {
    for (const entry of readdirSync(join(store, provider, "states"), { recursive: true, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name)
      if (!entry.isFile() || statSync(path).size === 0) continue
      const file = openSync(path, "r+")
      writeSync(file, Buffer.from([0xa5]), 0, 1, 0)
      closeSync(file)
    }
  }

const clones = (store: string, storeQuota?: number): OpenProvider =>
  openReflink({ store, ...(storeQuota === undefined ? {} : { storeQuota }) })

/** Turns over one byte in every 512 of the packs of states, behind their heads. */
const damageStatesOfGit = (store: string): void => {
  const projects = join(store, "git-worktree", "projects")
  for (const project of readdirSync(projects)) {
    const packs = join(projects, project, "states.git", "objects", "pack")
    for (const name of readdirSync(packs).filter((one) => one.endsWith(".pack"))) damageFile(join(packs, name))
  }
}

export const workspaceKinds = {
  "layerfs-overlay": {
    provider: "layerfs",
    open: layerFs,
    damage: damagePacks,
    options: { projection: "overlay" }
  },
  "layerfs-lazy": {
    provider: "layerfs",
    open: layerFs,
    damage: damagePacks,
    options: { projection: "lazy" },
    // What is read is checked, and not before.
    holds: { checksOpened: false }
  },
  "layerfs-copy": {
    provider: "layerfs",
    open: layerFs,
    damage: damagePacks,
    options: { projection: "copy" },
    // The manifest speaks for the overlay; a copy is a plain directory.
    holds: { hardLinks: "preserved", stableInodes: true, renameDirectory: "works" }
  },
  // The kit's own provider over the plainest backend.
  "kit-copies": {
    provider: "copies",
    open: (store, storeQuota) =>
      makeSnapshotProvider("copies", copyBackend, { store, ...(storeQuota === undefined ? {} : { storeQuota }) }),
    damage: damageStates("copies")
  },
  "reflink-btrfs": { provider: "reflink", open: clones, damage: damageStates("reflink"), disk: "btrfs" },
  "reflink-xfs": { provider: "reflink", open: clones, damage: damageStates("reflink"), disk: "xfs" },
  "git-worktree": {
    provider: "git-worktree",
    open: (store, storeQuota) =>
      openGitWorktree({ store, plainDirectories: true, ...(storeQuota === undefined ? {} : { storeQuota }) }),
    damage: damageStatesOfGit,
    apart: [".git"]
  }
} as const satisfies Readonly<Record<string, Kind>>

export type WorkspaceKind = keyof typeof workspaceKinds

export const kindOf = (kind: WorkspaceKind): Kind => workspaceKinds[kind]

/** Why stores of this kind cannot be made on this machine; null where they can. */
export const lackOfKind = (name: WorkspaceKind): string | null => {
  const { disk } = kindOf(name)
  return disk === undefined ? null : lackOf(disk)
}

/** A disk for places of a kind: one of its own where it needs that. */
export const diskOf = (name: WorkspaceKind): { readonly path: string; readonly remove: () => void } => {
  const { disk } = kindOf(name)
  return disk === undefined ? { path: "/var/tmp", remove: () => undefined } : loopImage(disk, { bytes: 1 << 30 })
}

const placeIn = (
  root: string,
  kind: Kind,
  worker: readonly [string, ...string[]] | undefined,
  remove: () => Promise<void>
): PlaceUnderTest => {
  const directory = join(root, "beside")
  const store = join(root, "store")
  mkdirSync(directory)
  return {
    directory,
    open: kind.open(store),
    openCapped: (bytes) => kind.open(store, bytes),
    ...(kind.damage === undefined ? {} : { damage: async () => kind.damage!(store) }),
    ...(worker === undefined ? {} : { worker: [...worker, store] as unknown as readonly [string, ...string[]] }),
    remove
  }
}

const smallPlace = (kind: Kind): PlaceUnderTest => {
  const disk: SmallDisk = kind.disk === "xfs" ? smallDisk(300 * 1024 * 1024, "xfs") : smallDisk(96 * 1024 * 1024)
  const place = placeIn(disk.path, kind, undefined, async () => disk.remove())
  return { ...place, leaveFree: disk.leave }
}

export interface KindOptions {
  /** The command of a program that serves a kind on the store that comes as its last argument. */
  readonly worker?: readonly [string, ...string[]]
  readonly fuzz?: WorkspaceUnderTest["fuzz"]
  /** A directory for stores and sources that somebody else made: only root mounts disks. */
  readonly parent?: string
}

export const workspacesOf = (name: WorkspaceKind, { worker, fuzz, parent }: KindOptions = {}): WorkspaceUnderTest => {
  const kind = kindOf(name)
  const { options, holds, apart, disk: kindOfDisk } = kind
  return {
    create: async () => {
      const disk = parent === undefined ? diskOf(name) : { path: parent, remove: () => undefined }
      const root = realpathSync(mkdtempSync(join(disk.path, "coppice-conformance-")))
      return placeIn(root, kind, worker, async () => {
        await removeTree(root).finally(disk.remove)
      })
    },
    // A full btrfs ends the process (docs/gaps/RL2).
    ...(mayMount && kindOfDisk !== "btrfs" ? { createSmall: async () => smallPlace(kind) } : {}),
    ...(options === undefined ? {} : { options }),
    ...(holds === undefined ? {} : { holds }),
    ...(apart === undefined ? {} : { apart }),
    ...(fuzz === undefined ? {} : { fuzz })
  }
}
