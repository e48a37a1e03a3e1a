/**
 * What git itself knows at a state: HEAD, references, index, configuration. Kept beside the files of the state, so that a fork of it
 * stands where its parent stood.
 * Promise: a directory that an attempt could write is read as data: no git runs over its configuration, no link in it is followed.
 * Rules: GW1, GW2, GW4, W7, W17.
 */
import { constants, closeSync, fstatSync, lstatSync, openSync, readdirSync, readFileSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import { compare } from "../../src/base/PathBytes.ts"
import { readIndex, type IndexEntry, writeIndex } from "./GitIndex.ts"
import type { StateStep } from "./StateWriter.ts"

/** A small file of a git directory. */
export interface GitFile {
  readonly path: string
  readonly bytes: Buffer
  readonly executable: boolean
}

export interface GitState {
  /** An object id, or `ref: refs/heads/…`. */
  readonly head: string
  /** By name: an object id, or `ref: …`. */
  readonly refs: ReadonlyMap<string, string>
  /** Undefined: not to be read here. */
  readonly index: readonly IndexEntry[] | undefined
  readonly files: readonly GitFile[]
}

/** Where it lies in the tree of a commit of ours. */
export const entryRoot = "entry/"

const idPattern = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/
export const isId = (text: string): boolean => idPattern.test(text)

/** Files beside references that a git directory of a fork gets too. */
const carried = ["config", "info/exclude", "info/attributes", "info/sparse-checkout", "logs/refs/stash", "shallow"]

/** A regular file of at most 64 MiB, reached through directories only; undefined for everything else. */
const readPlain = (
  directory: string,
  path: string
): { readonly bytes: Buffer; readonly executable: boolean } | undefined => {
  const parts = path.split("/").slice(0, -1)
  const throughLink = parts.some((_, at) => {
    const parent = lstatSync(join(directory, ...parts.slice(0, at + 1)), { throwIfNoEntry: false })
    return parent?.isDirectory() !== true
  })
  if (throughLink) return undefined
  let descriptor: number
  try {
    descriptor = openSync(join(directory, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return undefined
  }
  try {
    const stat = fstatSync(descriptor)
    if (!stat.isFile() || stat.size > 64 << 20) return undefined
    return { bytes: readFileSync(descriptor), executable: (stat.mode & 0o100) !== 0 }
  } finally {
    closeSync(descriptor)
  }
}

/** Names of a directory that is no link; none when there is none. */
const namesIn = (directory: string): readonly string[] => {
  try {
    return lstatSync(directory).isDirectory() ? readdirSync(directory).toSorted() : []
  } catch {
    return []
  }
}

/** Regular files below a directory, by their paths below it. */
const filesBelow = (directory: string, below = ""): readonly string[] =>
  namesIn(join(directory, below)).flatMap((name) => {
    const path = below === "" ? name : `${below}/${name}`
    const stat = lstatSync(join(directory, path), { throwIfNoEntry: false })
    return stat?.isDirectory() === true ? filesBelow(directory, path) : stat?.isFile() === true ? [path] : []
  })

export const readFiles = (directory: string): readonly GitFile[] =>
  [
    ...carried,
    ...namesIn(join(directory, "hooks"))
      .filter((name) => !name.endsWith(".sample"))
      .map((name) => `hooks/${name}`)
  ].flatMap((path) => {
    const file = readPlain(directory, path)
    return file === undefined ? [] : [{ path, ...file }]
  })

/** What git takes for a reference's name (git-check-ref-format(1)). Whatever else an attempt wrote there would name a file when it is made anew. */
const isReference = (name: string): boolean =>
  // oxlint-disable-next-line no-control-regex
  /^refs\/[^\0-\x20\x7f~^:?*[\\]+$/.test(name) && !/\.\.|\/\/|\/\.|\/$|\.lock(?:\/|$)/.test(name)

const isRefValue = (value: string): boolean =>
  isId(value) || (value.startsWith("ref: ") && isReference(value.slice("ref: ".length)))

const valueOf = (text: string): string | undefined => {
  const value = text.trim()
  return isRefValue(value) ? value : undefined
}

const readRefs = (directory: string): ReadonlyMap<string, string> => {
  const refs = new Map<string, string>()
  for (const line of readPlain(directory, "packed-refs")?.bytes.toString("latin1").split("\n") ?? []) {
    const space = line.indexOf(" ")
    const name = line.slice(space + 1)
    if (isId(line.slice(0, space)) && isReference(name)) refs.set(name, line.slice(0, space))
  }
  for (const path of filesBelow(directory, "refs")) {
    const value = valueOf(readPlain(directory, path)?.bytes.toString("latin1") ?? "")
    const name = Buffer.from(path, "utf8").toString("latin1")
    if (value !== undefined && isReference(name)) refs.set(name, value)
  }
  return refs
}

/** A link is git's older form of a symbolic reference. */
const readHead = (directory: string): string | undefined => {
  const at = join(directory, "HEAD")
  try {
    if (lstatSync(at).isSymbolicLink()) return valueOf(`ref: ${readlinkSync(at)}`)
  } catch {
    return undefined
  }
  return valueOf(readPlain(directory, "HEAD")?.bytes.toString("latin1") ?? "")
}

/** Of a git directory of ours, which an attempt may have changed; undefined when it is none any more. */
export const readGitDirectory = (directory: string, algorithm: "sha1" | "sha256"): GitState | undefined => {
  const head = readHead(directory)
  if (head === undefined) return undefined
  const index = readPlain(directory, "index")
  return {
    head,
    refs: readRefs(directory),
    index: index === undefined ? [] : readIndex(index.bytes, algorithm),
    files: readFiles(directory)
  }
}

/** Every id that its reflogs name: what was committed and left again. */
export const loggedIds = (directory: string): ReadonlySet<string> => {
  const ids = new Set<string>()
  for (const path of filesBelow(directory, "logs")) {
    for (const line of readPlain(directory, path)?.bytes.toString("latin1").split("\n") ?? []) {
      for (const id of line.split(" ", 2)) if (isId(id) && !/^0+$/.test(id)) ids.add(id)
    }
  }
  return ids
}

const refLines = (refs: ReadonlyMap<string, string>): string =>
  [...refs]
    .toSorted(([a], [b]) => compare(a, b))
    .map(([name, value]) => `${name} ${value}\n`)
    .join("")

/** As steps of a commit. `raw`: ids of contents that a filter of git would store under another one. */
export function* stateSteps(
  state: GitState,
  algorithm: "sha1" | "sha256",
  raw?: ReadonlyMap<string, string>
): Generator<StateStep> {
  yield { op: "bytes", path: `${entryRoot}head`, bytes: Buffer.from(state.head, "latin1") }
  yield { op: "bytes", path: `${entryRoot}refs`, bytes: Buffer.from(refLines(state.refs), "latin1") }
  if (state.index !== undefined) {
    yield { op: "bytes", path: `${entryRoot}index`, bytes: writeIndex(state.index, algorithm) }
  }
  if (raw !== undefined) {
    const lines = [...raw].map(([path, id]) => `${id} ${Buffer.from(path, "latin1").toString("base64")}\n`)
    yield { op: "bytes", path: `${entryRoot}raw`, bytes: Buffer.from(lines.join("")) }
  }
  yield { op: "remove", path: `${entryRoot}files` }
  for (const { path, bytes, executable } of state.files) {
    yield { op: "bytes", path: `${entryRoot}files/${executable ? "x" : "-"}/${path}`, bytes }
  }
}

/** What `stateSteps` wrote, by the paths below `entry/`. */
export const stateFrom = (
  kept: ReadonlyMap<string, Buffer>,
  algorithm: "sha1" | "sha256"
): GitState & { readonly raw: ReadonlyMap<string, string> } => {
  const textOf = (name: string): string => kept.get(name)?.toString("latin1") ?? ""
  const raw = textOf("raw")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [id = "", path = ""] = line.split(" ")
      return [Buffer.from(path, "base64").toString("latin1"), id] as const
    })
  const refs = textOf("refs")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => [line.slice(0, line.indexOf(" ")), line.slice(line.indexOf(" ") + 1)] as const)
    .filter(([name, value]) => isReference(name) && isRefValue(value))
  const index = kept.get("index")
  return {
    head: textOf("head"),
    refs: new Map(refs),
    index: index === undefined ? [] : readIndex(index, algorithm),
    raw: new Map(raw),
    files: [...kept].flatMap(([name, bytes]) => {
      const [, mode, path] = /^files\/([x-])\/(.+)$/.exec(name) ?? []
      return path === undefined ? [] : [{ path, bytes, executable: mode === "x" }]
    })
  }
}
