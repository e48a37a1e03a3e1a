/**
 * Random operations for the model: what a program does in a directory, and what the contract's calls do to the same tree.
 * Promise: a seed gives the same sequence for the same model; no path climbs or leads out of the tree, so that the model's own
 * directory is safe; calls are made up so that they must succeed. Rules: W4, W7; C1, C2, C4, C12, C13, C18.
 */
import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { fromInput, parent, toBytes, type TreePath } from "../base/PathBytes.ts"
import type { FileOperation, Manifest } from "../workspace/WorkspaceValues.ts"

/** A number below `below`. */
export type Random = (below: number) => number

/** Mulberry32. */
export const randomOf = (seed: number): Random => {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

/** An operation of the program that plays them (InsidePrograms.ts). */
export type Played = readonly [name: string, ...args: readonly (string | number)[]]

const deep = "deep/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"

/** Few, so that operations meet. */
const namesFor = (manifest: Manifest): readonly TreePath[] => [
  ..."a b top n n/m a/x a/y a/n a/deep a/deep/z b/x b/deep l1 l2 l1/x l2/z l3".split(" "),
  deep,
  `${deep}/f`,
  "a name/with spaces",
  "x".repeat(255),
  ...(manifest.nonUtf8Names ? ["\xfe\xff", "a/\xff\n\x80", "line\nfeed", `\xc3\xa9`, "e\xcc\x81"] : [])
]

/** None climbs: wherever such a link is moved to, it leads into the tree or to nothing. */
const targets = ["x", "z", "deep/z", "b", "l1", "l2", "l3", "a", "deep", "/no/such/place/of/coppice", "top"]
const fileModes = [0o644, 0o600, 0o755, 0o640]
const directoryModes = [0o755, 0o700, 0o711, 0o1777]

const pick = <A>(next: Random, list: readonly A[]): A => list[next(list.length)]!

const sizeOf = (next: Random): number => {
  const kind = next(40)
  if (kind === 0) return 4 * 2 ** 20 + next(100_000)
  return kind < 6 ? 100_000 + next(200_000) : next(300)
}

/** What a program does next; whether it succeeds is the tree's to say. */
export const played = (next: Random, manifest: Manifest, fresh: () => number): readonly Played[] => {
  const names = namesFor(manifest)
  const [path, other, fill] = [pick(next, names), pick(next, names), next(1000)]
  const one: readonly (() => Played)[] = [
    () => ["write", path, sizeOf(next), fill],
    () => ["append", path, next(300), fill],
    () => ["truncate", path, next(3) === 0 ? next(500_000) : next(400)],
    () => ["patch", path, next(3) === 0 ? next(400_000) : next(300), 1 + next(200), fill],
    () => ["move", path, other],
    () => ["unlink", path],
    () => ["clear", path],
    () => ["mkdir", path],
    () => ["symlink", manifest.symlinks ? pick(next, targets) : "x", path],
    () => ["chmod", path, pick(next, fileModes), pick(next, directoryModes)],
    () => ["held", path, next(300), fill],
    () => ["replace", path, next(300), fill],
    () => ["over", path, sizeOf(next), fill],
    () => ["write", path, sizeOf(next), fill],
    () => ["over", path, next(300), fill]
  ]
  // A pair in a place of its own: where a projection splits pairs on writing, that is declared and nothing to compare.
  const pair = `links/${fresh()}`
  const links: readonly Played[] =
    manifest.hardLinks === "preserved"
      ? [["link", path, other]]
      : manifest.hardLinks === "splitOnWrite"
        ? [
            ["mkdir", "links"],
            ["write", pair, next(300), fill],
            ["link", pair, `${pair} too`]
          ]
        : []
  return next(12) === 0 ? links : [pick(next, one)()]
}

const place = (root: string, path: TreePath): Buffer => Buffer.concat([Buffer.from(`${root}/`), toBytes(path)])

const statOf = (root: string, path: TreePath) => {
  try {
    return lstatSync(place(root, path))
  } catch {
    return undefined
  }
}

/** Every directory above is one, and no link; those that are missing can be made. */
const reachable = (root: string, path: TreePath): boolean => {
  if (path === "") return true
  if (!reachable(root, parent(path))) return false
  const stat = statOf(root, parent(path))
  return parent(path) === "" || stat === undefined || stat.isDirectory()
}

/** Names in which nothing is yet, below a directory that is there. */
const isFree = (root: string, path: TreePath): boolean =>
  reachable(root, path) &&
  statOf(root, path) === undefined &&
  (parent(path) === "" || statOf(root, parent(path)) !== undefined)

/** A call of the contract that has to succeed on the tree as the model has it; undefined where this try found none. */
export const callOn = (next: Random, manifest: Manifest, root: string): FileOperation | undefined => {
  const names = namesFor(manifest)
  const [from, to, fill] = [pick(next, names), pick(next, names), next(256)]
  if (!reachable(root, from)) return undefined
  const stat = statOf(root, from)
  const path = toBytes(from)
  // What a call does to the other names of a file, or behind a link, is not this model's business.
  const plain = stat?.isFile() === true && stat.nlink === 1
  const kind = next(7)
  if (kind === 0 && (stat === undefined || plain)) {
    return { op: "write", path, bytes: Buffer.alloc(sizeOf(next), fill), mode: pick(next, fileModes) }
  }
  if (kind === 1 && plain) {
    const offset = next(stat.size + 1)
    const deleteCount = next(Math.min(stat.size - offset, 500) + 1)
    return { op: "splice", path, offset, deleteCount, bytes: Buffer.alloc(next(500), fill) }
  }
  if (kind === 2 && stat !== undefined) return { op: "remove", path }
  if (kind === 3 && stat !== undefined && isFree(root, to) && to !== from && !to.startsWith(`${from}/`)) {
    return { op: "move", from: path, to: toBytes(to) }
  }
  if (kind === 4 && plain && isFree(root, to)) return { op: "copy", from: path, to: toBytes(to) }
  if (kind === 5 && plain) return { op: "chmod", path, mode: pick(next, fileModes) }
  if (kind === 6 && manifest.symlinks && isFree(root, from)) return { op: "symlink", path, target: pick(next, targets) }
  return undefined
}

const makeParents = (root: string, path: TreePath): void => {
  if (parent(path) !== "") mkdirSync(place(root, parent(path)), { recursive: true })
}

/** What such a call means, in a plain directory. */
export const callOnModel = (root: string, operation: FileOperation): void => {
  const at = (input: string | Uint8Array): Buffer => place(root, fromInput(input))
  switch (operation.op) {
    case "write": {
      makeParents(root, fromInput(operation.path))
      writeFileSync(at(operation.path), operation.bytes)
      return chmodSync(at(operation.path), operation.mode ?? 0o644)
    }
    case "splice": {
      const before = readFileSync(at(operation.path))
      const { offset, deleteCount } = operation
      const [head, tail] = [before.subarray(0, offset), before.subarray(offset + deleteCount)]
      return writeFileSync(at(operation.path), Buffer.concat([head, Buffer.from(operation.bytes), tail]))
    }
    case "remove":
      return rmSync(at(operation.path), { recursive: true })
    case "move":
      return renameSync(at(operation.from), at(operation.to))
    case "copy": {
      copyFileSync(at(operation.from), at(operation.to))
      return chmodSync(at(operation.to), lstatSync(at(operation.from)).mode & 0o7777)
    }
    case "chmod":
      return chmodSync(at(operation.path), operation.mode)
    case "symlink":
      return symlinkSync(toBytes(fromInput(operation.target)), at(operation.path))
    default:
      throw new Error(`The model has no ${operation.op}`)
  }
}

/** For a report: what a call was. */
export const toldCall = (operation: FileOperation): string =>
  JSON.stringify(operation, (_, value: unknown) => {
    if (typeof value !== "object" || value === null || !("data" in value && "type" in value)) return value
    const bytes = Buffer.from(value.data as number[])
    return bytes.length > 260 ? `${bytes.length} bytes` : bytes.toString("latin1")
  })
