/**
 * How a layer looked when it was made, to notice that somebody else has changed it since: a few entries, and all of them as one digest.
 * Promise: what was not touched is never taken for changed; of what was, the sample sees a new, removed or renamed name in one of the
 * first directories, and a change of one of the first files; a whole look sees any change. Who looks when: LayerLooks.ts.
 * Rules: L10, W7.
 *
 * The kernel sets the ctime at every change, and nobody else can. The layer's own directory is renamed into place, so its mtime counts.
 */
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { reach } from "../../src/base/LongPath.ts"
import { fromInput, join, type TreePath } from "../../src/base/PathBytes.ts"

/** Path below the layer, and how it looked. */
export type Sample = readonly (readonly [path: string, look: string])[]

/** Each is one lstat at every opening. */
const directories = 8
const files = 8

const orUndefined = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch {
    return undefined
  }
}

/** Empty where nothing is, or nobody may look. */
const look = (layer: string, at: string): string => {
  const stat = orUndefined(() => fs.lstatSync(path.join(layer, at), { bigint: true }))
  if (stat === undefined) return ""
  return `${stat.ino} ${at === "" ? stat.mtimeNs : stat.ctimeNs} ${stat.size} ${stat.mode}`
}

/** Names that are no text are passed over: a sample lies in JSON. */
const isText = (name: string): boolean => !name.includes("\uFFFD")

export const sampleOf = (layer: string): Sample => {
  const waiting = [""]
  const found: string[] = []
  const seen: string[] = []
  for (let at = waiting.shift(); at !== undefined && found.length < directories; at = waiting.shift()) {
    found.push(at)
    const entries = orUndefined(() => fs.readdirSync(path.join(layer, at), { withFileTypes: true })) ?? []
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!isText(entry.name)) continue
      if (entry.isDirectory()) waiting.push(path.join(at, entry.name))
      // Whiteouts are names of one inode, some of them in a directory that goes when the workspace does: their ctime changes then.
      else if ((entry.isFile() || entry.isSymbolicLink()) && seen.length < files) seen.push(path.join(at, entry.name))
    }
  }
  return [...found, ...seen].map((at) => [at, look(layer, at)])
}

export interface WholeLook {
  readonly entries: number
  readonly digest: string
}

/** As many entries are looked at where the caller waits: one lstat each, 7 us. */
export const few = 1000

/** A name that is gone or closed to us is told as such; what says nothing of the layer is thrown. */
const orClosed = <A>(read: () => A): A | undefined => {
  try {
    return read()
  } catch (error) {
    if (["EMFILE", "ENFILE", "ENOMEM", "EIO"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error
    return undefined
  }
}

/** Every entry of a layer, as one digest, wherever the layer lies; undefined where it has more than `limit`. */
export const wholeLook = (layer: string, limit = few): WholeLook | undefined => {
  const hash = createHash("sha256")
  const root = fromInput(layer)
  const waiting: TreePath[] = [""]
  let entries = 0
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const names = orClosed(() => reach(join(root, at), (short) => fs.readdirSync(short, { encoding: "latin1" }))) ?? []
    entries += names.length
    if (entries > limit) return undefined
    for (const name of names.toSorted()) {
      const child = join(at, name)
      const stat = orClosed(() => reach(join(root, child), (short) => fs.lstatSync(short, { bigint: true })))
      if (stat?.isDirectory() === true) waiting.push(child)
      // See `sampleOf`: of a whiteout only the name counts.
      const look =
        stat === undefined || stat.isCharacterDevice() ? "" : `${stat.ino} ${stat.ctimeNs} ${stat.size} ${stat.mode}`
      hash.update(`${child.length} ${child} ${look}\n`, "latin1")
    }
  }
  return { entries, digest: hash.digest("hex") }
}

const inodeOf = (looked: string | undefined): string => looked?.split(" ")[0] ?? ""

/** Of another directory of the same name, which lost the race for the place, neither sample nor digest say anything. */
export const isSampled = (layer: string, sample: Sample): boolean =>
  inodeOf(sample[0]?.[1]) === inodeOf(look(layer, ""))

export const isAsSampled = (layer: string, sample: Sample, whole: string | undefined): boolean =>
  !isSampled(layer, sample) ||
  (sample.every(([at, looked]) => look(layer, at) === looked) &&
    (whole === undefined || wholeLook(layer)?.digest === whole))
