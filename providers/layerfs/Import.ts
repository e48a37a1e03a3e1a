/**
 * Import of a directory: walk, and beside it read and compress in two extra threads; one pack, one transaction.
 * Promise: the source is never changed; a target inside the source, or the reverse, is refused before anything is read; an
 * import that fails or is cancelled leaves no trace in the index; everything left out is listed. Rules: W13, W14, L14, L15.
 */
import { closeSync } from "node:fs"
import { crashPoint } from "../../src/base/CrashPoint.ts"
import { namesDescriptors, openToWalk } from "../../src/base/Descent.ts"
import type { Durability } from "../../src/sqlite/Database.ts"
import { checkSource, refuseImport } from "../../src/workspace/kit/ImportSource.ts"
import type { ImportReceipt, Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { commitImport } from "./ImportCommit.ts"
import { ImportMemory, remember } from "./ImportMemory.ts"
import { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { ImportReading } from "./ImportReading.ts"
import { scan, type Scan, type ScannedDirectory } from "../../src/workspace/kit/ImportScan.ts"
import type { ObjectWriter } from "./PackedObjects.ts"
import type { LayerRefs } from "./LayerRefs.ts"
import type { ImportInput } from "./StoreCalls.ts"

export interface ImportContext {
  readonly refs: LayerRefs
  readonly objects: ObjectWriter
  readonly index: string
  /** Directory of what can be made again. */
  readonly cache: string
  /** Real path of the store's own directory. */
  readonly storeRoot: string
  readonly durability: Durability
  /** See ImportTrust. */
  readonly settlingNs: bigint | undefined
  readonly progress: (progress: Progress) => void
  readonly cancelled: () => boolean
}

export const importDirectory = async (context: ImportContext, input: ImportInput): Promise<ImportReceipt> => {
  const source = checkSource(input.source, context.storeRoot)
  const notes = new ImportNotes()
  const check = (): void => {
    if (context.cancelled()) throw refuseImport("cancelled", input.source)
  }
  const began = Date.now()
  const memory = ImportMemory.open(context.cache, source, (commit) => context.refs.commit(commit) !== undefined)
  // For the scan and the readers alike: whatever lies at the path meanwhile, all of them work in the same directory.
  const root = namesDescriptors() ? openToWalk(source) : null
  const reading = new ImportReading(context, { path: source, root }, notes, check)
  let scanned: Scan
  try {
    scanned = await scan(
      source,
      notes,
      (files) => {
        check()
        context.progress({ phase: "scan", files, bytes: 0, totalFiles: null, totalBytes: null })
      },
      (file, index, lookedAt) => {
        const known = memory.find(file)
        if (known === undefined) return reading.add(file, index, lookedAt)
        file.id = known.id
        reading.skip(file, index, known.signs)
      },
      { root }
    )
    crashPoint("layerfs.import.scanned")
    context.progress({ phase: "scan", files: scanned.seen, bytes: 0, totalFiles: scanned.seen, totalBytes: 0 })
    await reading.end(scanned)
  } finally {
    await reading.stop()
    if (root !== null) closeSync(root)
  }
  crashPoint("layerfs.import.read")
  check()
  context.progress({
    phase: "commit",
    files: scanned.files.length,
    bytes: scanned.bytes,
    totalFiles: scanned.files.length,
    totalBytes: scanned.bytes
  })
  const receipt = await commitImport(context, { ...input, source }, scanned, notes)
  const { cache, settlingNs } = context
  remember({ cache, source, commit: receipt.commit, began, settlingNs, files: scanned.files, reading })
  return receipt
}

export const createEmpty = (
  context: ImportContext,
  input: { readonly name: string; readonly operationId: string; readonly at: number }
): Promise<ImportReceipt> => {
  const root: ScannedDirectory = {
    name: "",
    path: "",
    type: "directory",
    mode: 0o755,
    mtimeNs: BigInt(input.at) * 1_000_000n,
    entries: []
  }
  return commitImport(
    context,
    { ...input, source: null },
    { root, files: [], directories: 0, symlinks: 0 },
    new ImportNotes()
  )
}
