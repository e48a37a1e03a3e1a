/**
 * States kept as clones of directories: the files of a state share their extents with those of every state and workspace that grew from it.
 * Promise: a state is complete under its name or not there; forks and checkpoints copy no byte, and what is copied (a source on another file
 * system, a file that the file system cannot clone) is counted; a kept state is only read. Rules: RL1, RL2, W2, W7, W12.
 */
import * as fs from "node:fs"
import { dirname } from "node:path"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { faultPoint } from "../../src/base/FaultPoint.ts"
import { fromInput, parent, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import type {
  KeepInput,
  Made,
  MakeInput,
  Missing,
  Moved,
  SnapshotBackend
} from "../../src/workspace/kit/SnapshotBackend.ts"
import type { BackendPlace } from "../../src/workspace/kit/SnapshotProvider.ts"
import { makePrivateDirectory, syncDirectory } from "../../src/workspace/kit/StoreDirectory.ts"
import { FileSystemFailure, Unavailable } from "../../src/workspace/WorkspaceError.ts"
import { admit } from "./Admission.ts"
import { cloneTree, leaveOutOf } from "./Clone.ts"
import { openRoot } from "../../src/base/Descent.ts"
import { keptDirectory, keptFiles } from "./KeptFiles.ts"
import { liesAcross, missingForClones } from "./ProbeClones.ts"
import { isUntouched, removeState, standing, stateDirectory, treeIn, workingPlace, writeMark } from "./States.ts"
import { countsBytes, storedBytes } from "./StoredBytes.ts"
import { isSubvolume, makeSubvolume, placeholders, removeAny, snapshot, subvolumesWork } from "./Subvolumes.ts"
import { runTool } from "./Tool.ts"

/** Version of the provider, part of every candidate (W5). */
const reflinkVersion = "1"

const notFlushed = (): FileSystemFailure =>
  new FileSystemFailure({
    message: "The file system of the store could not be flushed.",
    remedy: "Look at the disk's health (`dmesg`); nothing of this call was kept. Repeat it when the disk works.",
    syscallCode: "EIO"
  })

/** Everything that was written to the file system of a directory. */
const flush = async (directory: string): Promise<void> => {
  const inside = openRoot(fromInput(directory))
  try {
    // Node has no syncfs(2); flushing file by file costs a disk's turn each.
    if ((await runTool(["sync", "-f", "."], { inside })).code !== 0) throw notFlushed()
  } finally {
    fs.closeSync(inside)
  }
}

const refuse = (missing: readonly Missing[]): Unavailable =>
  new Unavailable({
    message: "The file system of the store has no file clones, or the programs that make them are missing.",
    remedy: missing.map(({ remedy }) => remedy).join(" "),
    what: "reflink",
    missing: missing.map(({ what }) => what)
  })

/** The backend for its directory in a store. What a killed process was making or removing there goes. */
export const reflinkBackend = async ({ directory, durability }: BackendPlace): Promise<SnapshotBackend> => {
  const states = `${directory}/states`
  makePrivateDirectory(states)
  await standing(states)
  const quota = await countsBytes()
  let subvolumes: Promise<boolean> | undefined
  const withSubvolumes = (): Promise<boolean> => (subvolumes ??= subvolumesWork(states))

  /** A new empty tree, a subvolume where that makes later snapshots quick. */
  const makeEmpty = async (at: TreePath): Promise<void> => {
    const ours = at.startsWith(`${fromInput(dirname(directory))}/`)
    if (ours && (await withSubvolumes()) && (await makeSubvolume(at))) return
    fs.mkdirSync(toBytes(at), { mode: 0o700 })
  }

  const clone = async (
    source: TreePath,
    target: TreePath,
    input: Pick<KeepInput, "signal"> & Partial<Pick<KeepInput, "leaveOut" | "onProgress" | "isImport">>,
    mayChange: boolean
  ): Promise<Moved> => {
    const across = liesAcross(source, parent(target))
    await makeEmpty(target)
    const { signal, leaveOut = [], onProgress, isImport: mayMove = false } = input
    const said = onProgress === undefined ? {} : { onProgress }
    const { copiedBytes } = await cloneTree({ source, target, leaveOut, mayChange, mayMove, across, signal, ...said })
    return { method: across ? "copy" : "reflink", copiedBytes }
  }

  /** A snapshot of a subvolume, with what its own subvolumes hold; undefined where there is none to be had. */
  const snapshotOf = async (
    source: TreePath,
    target: TreePath,
    { leaveOut, signal }: Pick<KeepInput, "leaveOut" | "signal">
  ): Promise<Moved | undefined> => {
    if (!isSubvolume(source) || !(await withSubvolumes()) || !(await snapshot(source, target, signal))) return undefined
    const copiedBytes = await leaveOutOf({ source, target, leaveOut, signal, nested: placeholders })
    return { method: "subvolume", copiedBytes }
  }

  const keep = async (input: KeepInput): Promise<Moved> => {
    if (input.isImport) {
      const missing = await missingForClones(states)
      if (missing.length > 0) throw refuse(missing)
    }
    const place = stateDirectory(states, input.snapshot)
    if (fs.existsSync(place)) throw Object.assign(new Error("the state stands"), { code: "EEXIST", syscall: "rename" })
    const working = workingPlace(states)
    const target = fromInput(treeIn(working))
    fs.mkdirSync(working, { mode: 0o700 })
    try {
      const moved = (await snapshotOf(input.tree, target, input)) ?? (await clone(input.tree, target, input, true))
      writeMark(working)
      crashPoint("reflink.keep.cloned")
      if (durability === "full") await flush(working)
      crashPoint("reflink.keep.synced")
      faultPoint("reflink.place")
      fs.renameSync(working, place)
      crashPoint("reflink.keep.placed")
      if (durability === "full") syncDirectory(states)
      return moved
    } catch (error) {
      await removeState(working)
      throw error
    }
  }

  const make = async (input: MakeInput): Promise<Made> => {
    const source = keptDirectory(states, input.snapshot)
    try {
      const moved =
        (await snapshotOf(source, input.target, { leaveOut: [], signal: input.signal })) ??
        (await clone(source, input.target, input, false))
      crashPoint("reflink.make.made")
      return moved
    } catch (error) {
      await removeAny(input.target)
      throw error
    }
  }

  return {
    provider: "reflink",
    version: reflinkVersion,
    projection: "reflink",
    capabilities: {
      copyFreeFork: true,
      symlinks: true,
      hardLinks: "preserved",
      modes: true,
      nanosecondMtimes: true,
      xattrs: true,
      sparseFiles: true,
      nonUtf8Names: true,
      crossMachine: false,
      mountAtChosenPath: true,
      quota
    },
    restores: false,
    probe: () => missingForClones(states),
    admit,
    keep,
    make,
    drop: async (state) => {
      const place = stateDirectory(states, state)
      if (!fs.existsSync(place)) return
      const working = workingPlace(states)
      fs.renameSync(place, working)
      if (durability === "full") syncDirectory(states)
      crashPoint("reflink.drop.renamed")
      await removeState(working)
    },
    kept: () => standing(states),
    directoryOf: (state) => fromInput(treeIn(stateDirectory(states, state))),
    isUntouched: (state) => isUntouched(stateDirectory(states, state)),
    clear: (target) => removeAny(target),
    contents: (state, paths) => keptFiles(states, state, paths),
    storedBytes: () => storedBytes(states)
  }
}
