/**
 * A few entries of a layer as they were when it was made, to notice that somebody else has changed it since.
 * Promise: what was not touched is never taken for changed; of what was, a new, removed or renamed name in one of the first directories
 * is seen, and a change of one of the first files. Anything deeper is not (`verify` reads the store, from which a layer is made anew).
 * Rules: L10.
 *
 * The kernel sets the ctime at every change, and nobody else can. The layer's own directory is renamed into place, so its mtime counts.
 */
import * as fs from "node:fs"
import * as path from "node:path"

/** Path below the layer, and how it looked. */
export type Sample = readonly (readonly [path: string, look: string])[]

/** Each is one lstat at every opening. */
const directories = 8
const files = 8

const look = (layer: string, at: string): string => {
  const stat = fs.lstatSync(path.join(layer, at), { bigint: true, throwIfNoEntry: false })
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
    const entries = fs.readdirSync(path.join(layer, at), { withFileTypes: true })
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      if (!isText(entry.name)) continue
      if (entry.isDirectory()) waiting.push(path.join(at, entry.name))
      else if (seen.length < files) seen.push(path.join(at, entry.name))
    }
  }
  return [...found, ...seen].map((at) => [at, look(layer, at)])
}

export const isAsSampled = (layer: string, sample: Sample): boolean =>
  sample.every(([at, looked]) => look(layer, at) === looked)
