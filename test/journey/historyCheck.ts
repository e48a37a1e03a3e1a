/**
 * The history check: reads what a run left on disk, without the code that wrote it running, and names every fault.
 * Promise: it only reads; an empty list means: the chain verifies, every table is exactly what the journal says, each
 * receipt belongs to a journaled command, at most one effective settlement an identity, spend is the sum of events, every
 * recorded candidate exists and recomputes, every pin resolves, nothing temporary and no process or mount is left.
 * Rules: G1, G2, G4, G53, G72, G75, L8, W5, W6, W12.
 */
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from "node:fs"
import { join } from "node:path"
import { readContent } from "../../providers/layerfs/FileContent.ts"
import type { ObjectReader } from "../../providers/layerfs/ObjectReader.ts"
import { storeReader } from "../../providers/layerfs/StoreReader.ts"
import { digestParts } from "../../providers/layerfs/RootDigest.ts"
import { LayerRefs } from "../../providers/layerfs/LayerRefs.ts"
import { StoredTrees } from "../../providers/layerfs/StoredTrees.ts"
import { type Digest, digestJson } from "../../src/base/Digest.ts"
import { exploreModule } from "../../src/explore/ExploreGraph.ts"
import type { AuthorityModule } from "../../src/governance/Module.ts"
import { workModule } from "../../src/governance/WorkModule.ts"
import { sessionModule } from "../../src/session/Binding.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { contentDigest, treeDigest } from "../../src/workspace/TreeDigest.ts"
import { checkInvariants } from "../governance/invariants.ts"

const modules: readonly AuthorityModule[] = [workModule, sessionModule, exploreModule]

export interface HistoryOptions {
  /** The directory of the store: `authority.db` and `layerfs/`. */
  readonly store: string
  /** The record of the run, when there is one. */
  readonly record?: string
  /** A file with one JSON line a receipt that a caller has seen: `{ id, seq }` (tiny run writes it). */
  readonly acknowledged?: string
  /** Workspaces that may still wait for a decision. Default none. */
  readonly mayBeLeft?: number
  /** After a kill and before the rerun: only what must hold at every moment. Leftovers are not looked for. */
  readonly midway?: boolean
}

/** Every fault that is found, in words; an empty list when there is none. */
export const checkHistory = (options: HistoryOptions): readonly string[] => {
  const authority = join(options.store, "authority.db")
  const index = join(options.store, "layerfs", "index.db")
  const faults: string[] = []
  const found = existsSync(authority) ? Database.open(authority, { readOnly: true }) : null
  const layerfs = existsSync(index) ? Database.open(index, { readOnly: true }) : null
  try {
    if (found !== null) {
      faults.push(...checkInvariants(options.store, modules))
      faults.push(...receipts(found, options.acknowledged), ...settlements(found))
    }
    if (layerfs !== null) faults.push(...references(layerfs))
    if (found !== null && layerfs !== null) faults.push(...candidates(found, layerfs, options.store))
    if (options.midway !== true) {
      if (layerfs !== null) faults.push(...leftInStore(options, layerfs))
      faults.push(...leftFiles(options), ...leftProcesses(options.record ?? options.store))
    }
  } finally {
    found?.close()
    layerfs?.close()
  }
  return faults
}

const receipts = (db: Database, acknowledged: string | undefined): string[] => {
  const faults: string[] = []
  if (acknowledged === undefined || !existsSync(acknowledged)) return faults
  for (const line of readFileSync(acknowledged, "utf8").split("\n")) {
    // The last line may be half: its writer was killed.
    const seen = line.endsWith("}") ? (JSON.parse(line) as { id: string; seq: number; facts: boolean }) : undefined
    if (seen === undefined) continue
    const row = db.get("SELECT seq FROM command WHERE id = ?", seen.id)
    const known = row === undefined ? null : Number(row["seq"])
    // A command that changed nothing leaves no receipt (see Decision): it says as of which sequence it held.
    if (known === null && !seen.facts) continue
    if (known !== seen.seq) faults.push(`receipt ${seen.id} was seen at ${seen.seq} and is now at ${known}`)
  }
  return faults
}

const settlements = (db: Database): string[] => {
  const twice = (what: string, sql: string) =>
    db.all(sql).map((row) => `${what} ${String(row["key"])} ${String(row["n"])} times`)
  return [
    ...twice(
      "accepted todo",
      "SELECT todo AS key, COUNT(*) AS n FROM settlement WHERE accepted = 1 GROUP BY todo HAVING n > 1"
    ),
    ...twice("settled turn", "SELECT turn AS key, COUNT(*) AS n FROM settlement GROUP BY turn HAVING n > 1"),
    ...db
      .all("SELECT id FROM turn WHERE state = 'closed' AND effect_id NOT IN (SELECT effect_id FROM settlement)")
      .map((row) => `turn ${String(row["id"])} is closed and was never settled`)
  ]
}

const references = (db: Database): string[] => {
  const faults: string[] = []
  const missing = (what: string, sql: string) => {
    for (const row of db.all(sql)) faults.push(`${what} ${String(row["id"])} names a commit that does not exist`)
  }
  missing("branch", "SELECT id FROM branches WHERE head NOT IN (SELECT id FROM commits)")
  missing("layer", "SELECT id FROM layers WHERE commit_id NOT IN (SELECT id FROM commits)")
  missing("operation", "SELECT id FROM operations WHERE commit_id NOT IN (SELECT id FROM commits)")
  missing("pin", "SELECT key AS id FROM pins WHERE commit_id NOT IN (SELECT id FROM commits)")
  missing("commit", "SELECT id FROM commits WHERE parent IS NOT NULL AND parent NOT IN (SELECT id FROM commits)")
  return faults
}

const leftInStore = (options: HistoryOptions, db: Database): string[] => {
  const faults: string[] = []
  const root = join(options.store, "layerfs")
  const packs = new Map(db.all("SELECT * FROM packs").map((row) => [Number(row["id"]), row]))
  for (const name of readdirSync(join(root, "packs"))) {
    const row = packs.get(Number.parseInt(name, 10))
    const size = statSync(join(root, "packs", name)).size
    if (row === undefined) faults.push(`pack ${name} is in no row`)
    else if (row["writer"] !== null) faults.push(`pack ${name} still has a writer`)
    else if (Number(row["length"]) > 0 && Number(row["length"]) !== size)
      faults.push(`pack ${name} is ${size} bytes long, the index knows ${String(row["length"])}`)
  }
  const left = db.all("SELECT id FROM workspaces WHERE state IN ('open', 'kept')")
  const allowed = options.mayBeLeft ?? 0
  if (left.length > allowed) faults.push(`${left.length} workspaces wait for a decision`)
  const work = readdirSync(join(root, "work")).filter((name) => !left.some((row) => row["id"] === name))
  for (const name of work) {
    const state = db.get("SELECT state FROM workspaces WHERE id = ?", name)?.["state"] ?? "no row"
    faults.push(`work/${name} is left (${String(state)}; in it ${readdirSync(join(root, "work", name)).join(", ")})`)
  }
  for (const kind of ["base", "delta"]) {
    const directory = join(root, "cache", kind)
    const names = existsSync(directory) ? readdirSync(directory) : []
    for (const name of names) {
      // A hint names a delta of a commit; a mark and a size belong to a layer.
      const [, commit] = /^(.+)\.at$/.exec(name) ?? []
      const isDelta = (other: string): boolean => other.startsWith(`${commit}.`) && !/\.(?:ok|size|at)$/.test(other)
      const layer = commit === undefined ? name.replace(/\.(?:ok|size)$/, "") : (names.find(isDelta) ?? "")
      if (layer === "" || layer.startsWith(".") || !names.includes(layer) || !names.includes(`${layer}.ok`))
        faults.push(`cache/${kind}/${name} is left`)
    }
  }
  return faults
}

const digestOf = (reader: ObjectReader, root: Digest): Digest => {
  const { entries, large } = digestParts(new StoredTrees(reader), root)
  for (const { index, content } of large) {
    entries[index] = { ...entries[index]!, content: contentDigest(readContent(reader, content)) }
  }
  return treeDigest(entries)
}

const candidates = (db: Database, index: Database, store: string): string[] => {
  const faults: string[] = []
  const refs = new LayerRefs(index, { store: null, project: null })
  const reader = storeReader(index, join(store, "layerfs", "packs"))
  try {
    for (const row of db.all("SELECT * FROM candidate")) {
      const name = `candidate ${String(row["id"])}`
      if (row["state"] !== "recorded") {
        const made = refs.operation(String(row["operation_id"]))
        if (row["state"] === "absent" && made !== undefined) faults.push(`${name} is absent and its commit exists`)
        continue
      }
      const fields = JSON.parse(String(row["candidate"])) as Record<string, string>
      const commit = refs.commit(fields["commit"]!)
      if (commit === undefined) faults.push(`${name} names a commit that does not exist`)
      else if (digestOf(reader, commit.root) !== fields["treeDigest"]) faults.push(`${name} has another tree`)
      if (commit?.root !== fields["root"]) faults.push(`${name} has another root`)
      if (digestJson(fields) !== row["identity"]) faults.push(`${name} has another identity`)
      const pin = index.get("SELECT commit_id FROM pins WHERE key = ?", String(row["id"]))
      if (row["pin"] === "held" && pin?.["commit_id"] !== fields["commit"]) faults.push(`${name} is not pinned`)
    }
  } catch (error) {
    faults.push(`a candidate cannot be read: ${String((error as Error).message)}`)
  } finally {
    reader.close()
  }
  return faults
}

/** Names that only something unfinished has. */
const unfinished = /\.coppice-unfinished$|\.half$|^(?:verify|replay|checkout)-\d+-/

const leftFiles = ({ record }: HistoryOptions): string[] => {
  if (record === undefined || !existsSync(record)) return []
  const faults: string[] = []
  const look = (directory: string): void => {
    for (const name of readdirSync(join(record, directory))) {
      const below = directory === "" ? name : `${directory}/${name}`
      if (unfinished.test(name)) faults.push(`${below} is left`)
      else if (directory === "tmp") faults.push(`${below} is left`)
      else if (["scratch", "scratch/clean", "attempts", "results", "verdicts", "tmp"].includes(below)) look(below)
    }
  }
  look("")
  return faults
}

const read = (get: () => string): string => {
  try {
    return get()
  } catch {
    return ""
  }
}

/** Processes and mounts that name this directory. Those of other users cannot be read, and are not ours. */
const leftProcesses = (directory: string): string[] => {
  const faults: string[] = []
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)) {
    const at = `/proc/${pid}`
    const named =
      read(() => readFileSync(`${at}/cmdline`, "utf8")).includes(directory) ||
      read(() => readFileSync(`${at}/mountinfo`, "utf8")).includes(directory) ||
      read(() => readlinkSync(`${at}/cwd`)).startsWith(directory)
    if (named)
      faults.push(
        `process ${pid} is left: ${read(() => readFileSync(`${at}/cmdline`, "utf8"))
          .replaceAll("\0", " ")
          .slice(0, 120)}`
      )
  }
  return faults
}
