/**
 * Imports of a provider that keeps whole states.
 * Promise: the source is only read; what is told of it is what was kept, not what lay there a moment later; what is left out is listed.
 * Rules: W6, W13, W14, W22, L15, G75.
 */
import * as fs from "node:fs"
import * as path from "node:path"
import { crashPoint } from "../../base/CrashPoint.ts"
import { newId } from "../../base/Id.ts"
import { fromInput, type TreePath } from "../../base/PathBytes.ts"
import type { ImportReceipt } from "../WorkspaceValues.ts"
import { CommitTree, digestOfTree } from "./CommitTree.ts"
import { ImportNotes } from "./ImportNotes.ts"
import { type Scan, type ScannedFile } from "./ImportScan.ts"
import { type Machine, signsOf, thisMachine } from "./ImportSigns.ts"
import { checkSource, refuseImport } from "./ImportSource.ts"
import { entriesOfScan, scanTree, unreadableFiles, without } from "./ScannedTree.ts"
import { linkGroups } from "./LinkGroups.ts"
import { operationUsed } from "./Refusals.ts"
import type { ProjectRow } from "./RefStore.ts"
import type { Snapshot, SnapshotBackend } from "./SnapshotBackend.ts"
import { type CallScope, told, type SnapshotStore } from "./SnapshotStore.ts"

/** Tries to catch a directory between two changes, where somebody writes to it. */
const tries = 3

export class SnapshotImports {
  readonly #store: SnapshotStore
  #machine: Machine | undefined

  constructor(store: SnapshotStore) {
    this.#store = store
  }

  async importDirectory(
    input: { readonly source: TreePath; readonly name: string; readonly operationId: string; readonly at: number },
    scope: CallScope
  ): Promise<ImportReceipt> {
    const repeated = this.#repeatedImport(input.operationId)
    if (repeated !== undefined) return repeated
    const source = checkSource(input.source, path.dirname(this.#store.directories.root))
    const admitted = await this.#store.backend.admit?.(source, scope.signal)
    for (let round = 1; ; round += 1) {
      const done = await this.#importOnce({ ...input, source }, admitted, scope)
      if (done !== "changed") return done
      if (round === tries) throw refuseImport("changing", input.source)
    }
  }

  #repeatedImport(operationId: string): ImportReceipt | undefined {
    const before = this.#store.refs.operation(operationId)
    if (before === undefined) return undefined
    const receipt = before.result as ImportReceipt
    if (receipt.layer === undefined) throw operationUsed(operationId)
    return receipt
  }

  async #importOnce(
    input: { readonly source: TreePath; readonly name: string; readonly operationId: string; readonly at: number },
    admitted: Awaited<ReturnType<NonNullable<SnapshotBackend["admit"]>>> | undefined,
    scope: CallScope
  ): Promise<ImportReceipt | "changed"> {
    const { source } = input
    const own = [...(this.#store.backend.ownNames ?? []), ...(admitted?.leaveOut ?? [])]
    const look = (at: TreePath, notes: ImportNotes) => scanTree(at, notes, scope, { shownAs: source, apart: own })
    const firstNotes = new ImportNotes()
    const first = await look(source, firstNotes)
    const unreadable = await unreadableFiles(source, first.files)
    const tellUnreadable = (into: ImportNotes): void => {
      for (const path of unreadable) into.add("skippedUnreadable", path, "not imported: EACCES")
    }
    tellUnreadable(firstNotes)
    const leaveOut = [...new Set([...own, ...firstNotes.leftOut()])]
    const project = { id: newId("project"), name: input.name, source }
    const state = {
      project: project.id,
      parents: [],
      tree: source,
      isImport: true,
      changes: null,
      leaveOut,
      ...told(input)
    }
    const { snapshot, moved } = await this.#store.keep(state, scope)
    try {
      const kept = this.#store.backend.directoryOf?.(snapshot)
      const notes = kept === undefined ? new ImportNotes() : firstNotes
      // A directory that was kept is looked at itself; else the source has to be what it was before.
      const scanned = kept === undefined ? await look(source, notes) : await look(kept, new ImportNotes())
      if (kept === undefined) tellUnreadable(notes)
      if (kept === undefined && !sameScan(first, scanned)) {
        await this.#store.giveUp(snapshot)
        return "changed"
      }
      for (const note of admitted?.notes ?? []) notes.add(note.kind, fromInput(note.path.path), note.detail)
      if (moved.copiedBytes > 0) {
        notes.add(
          "normalised",
          "",
          `${moved.copiedBytes} bytes were copied (${moved.method}): the source shares none with the store`
        )
      }
      return await this.#commitImport(input, project, snapshot, without(scanned, leaveOut), notes, scope)
    } catch (error) {
      await this.#store.giveUp(snapshot)
      throw error
    }
  }

  async #commitImport(
    input: {
      readonly source: TreePath | null
      readonly name: string
      readonly operationId: string
      readonly at: number
    },
    project: ProjectRow,
    snapshot: Snapshot,
    scanned: Scan,
    notes: ImportNotes,
    scope: CallScope
  ): Promise<ImportReceipt> {
    const modes = new Map(scanned.files.map((file) => [file.path, file.mode]))
    const machine = (this.#machine ??= thisMachine())
    const contents = await this.#store.digests(
      snapshot,
      scanned.files.map((file) => file.path),
      scope,
      (at, head) => {
        const signs = signsOf({ path: at, source: input.source ?? "", mode: modes.get(at)!, head }, machine)
        for (const { kind, detail } of signs) notes.add(kind, at, detail)
      }
    )
    for (const file of scanned.files) file.id = contents.get(file.path)?.id
    const groups = linkGroups(scanned.files, notes)
    const tree = new CommitTree(entriesOfScan(scanned, contents, this.#store.timeUnit))
    const root = await digestOfTree(tree)
    await this.#store.trees.write(snapshot.commit, tree)
    scope.progress({
      phase: "commit",
      files: contents.size,
      bytes: scanned.bytes,
      totalFiles: contents.size,
      totalBytes: scanned.bytes
    })
    const layer = newId("layer")
    const receipt: ImportReceipt = {
      operationId: input.operationId,
      project: project.id,
      layer,
      commit: snapshot.commit,
      root,
      files: contents.size,
      directories: scanned.directories,
      symlinks: scanned.symlinks,
      hardLinkGroups: groups.size,
      bytes: [...contents.values()].reduce((sum, { size }) => sum + size, 0),
      storedBytes: (await this.#store.backend.storedBytes()) ?? 0,
      durability: this.#store.durability,
      ...notes.forReceipt()
    }
    const commit = this.#store.newCommit(snapshot, [], {
      ...told(input),
      root,
      operationId: input.operationId,
      actor: {},
      live: false
    })
    const added = await this.#store.refs.addCommit({ commit, result: receipt, layer: { id: layer, project } })
    if (added.kind !== "repeated") {
      crashPoint("kit.committed")
      return receipt
    }
    await this.#store.giveUp(snapshot)
    return this.#repeatedImport(input.operationId)!
  }

  async createEmpty(
    input: { readonly name: string; readonly operationId: string; readonly at: number },
    scope: CallScope
  ): Promise<ImportReceipt> {
    const repeated = this.#repeatedImport(input.operationId)
    if (repeated !== undefined) return repeated
    return this.#store.inScratch(async (scratch) => {
      const tree = path.join(scratch, "tree")
      fs.mkdirSync(tree, { mode: 0o755 })
      const project = { id: newId("project"), name: input.name, source: null }
      const at = fromInput(tree)
      const state = {
        project: project.id,
        parents: [],
        tree: at,
        isImport: true,
        changes: null,
        leaveOut: [],
        ...told(input)
      }
      const { snapshot } = await this.#store.keep(state, scope)
      try {
        const notes = new ImportNotes()
        const scanned = await scanTree(at, notes, scope, { shownAs: at, apart: [] })
        return await this.#commitImport({ ...input, source: null }, project, snapshot, scanned, notes, scope)
      } catch (error) {
        await this.#store.giveUp(snapshot)
        throw error
      }
    })
  }
}

/** Equal in everything that a change of a source would move. */
const sameScan = (a: Scan, b: Scan): boolean =>
  a.seen === b.seen &&
  a.files.length === b.files.length &&
  a.files.every((file, index) => sameFile(file, b.files[index]!))

const sameFile = (a: ScannedFile, b: ScannedFile): boolean =>
  a.path === b.path && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs && a.size === b.size && a.ino === b.ino
