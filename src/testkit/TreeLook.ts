/**
 * A look at a directory with nothing but Node's own calls: what the suite compares trees by, apart from any provider.
 * Promise: every entry with its bytes' digest, type, mode, time and hard-link group; links are never followed; what is compared is
 * what a manifest declares to be kept. Rules: K1, W6, W22, L15, C18.
 */
import { closeSync, lstatSync, openSync, readdirSync, readlinkSync, readSync } from "node:fs"
import { createHash } from "node:crypto"
import type { Digest } from "../base/Digest.ts"
import { compare, join, show, toBytes, type TreePath } from "../base/PathBytes.ts"
import { contentBlock, treeDigest } from "../workspace/TreeDigest.ts"
import type { EntryType, ImportReceipt, Manifest } from "../workspace/WorkspaceValues.ts"

export interface LookedAt {
  readonly type: EntryType
  readonly mode: number
  readonly size: number
  readonly mtimeNs: string
  readonly content: Digest | null
  readonly target: TreePath | null
  /** The first path of its group of hard links, where that has two names in the tree. */
  readonly linkGroup: TreePath | null
}

/** Every entry below a root, which itself is none, by path. */
export type Tree = ReadonlyMap<TreePath, LookedAt>

/** As W6 has it: sha256 of the bytes, above 4 MiB of the digests of its blocks. */
const digestOfFile = (path: Buffer, size: number): Digest => {
  const file = openSync(path, "r")
  const block = Buffer.alloc(Math.min(size, contentBlock) || 1)
  const hashes: Buffer[] = []
  try {
    for (let at = 0; at < size || hashes.length === 0; at += contentBlock) {
      let filled = 0
      for (let got = -1; got !== 0 && filled < block.length; filled += got) {
        got = readSync(file, block, filled, block.length - filled, at + filled)
      }
      hashes.push(createHash("sha256").update(block.subarray(0, filled)).digest())
    }
  } finally {
    closeSync(file)
  }
  const whole = size <= contentBlock ? hashes[0]! : createHash("sha256").update(Buffer.concat(hashes)).digest()
  return `sha256:${whole.toString("hex")}`
}

/** Looks at everything below `root`. Two looks at an untouched directory are equal. */
export const lookAt = (root: string): Tree => {
  const found = new Map<TreePath, LookedAt & { readonly inode: string }>()
  const names = new Map<string, TreePath[]>()
  const place = (path: TreePath): Buffer => Buffer.concat([Buffer.from(root), Buffer.from("/"), toBytes(path)])
  const visit = (directory: TreePath): void => {
    for (const name of readdirSync(place(directory), { encoding: "buffer" })) {
      const path = join(directory, name.toString("latin1"))
      const at = place(path)
      const stat = lstatSync(at, { bigint: true })
      const type = stat.isDirectory() ? "directory" : stat.isSymbolicLink() ? "symlink" : stat.isFile() ? "file" : null
      if (type === null) continue
      const size = type === "directory" ? 0 : Number(stat.size)
      const inode = `${stat.dev}:${stat.ino}`
      if (type === "file") names.set(inode, [...(names.get(inode) ?? []), path])
      found.set(path, {
        type,
        mode: type === "symlink" ? 0 : Number(stat.mode) & 0o7777,
        size,
        mtimeNs: String(stat.mtimeNs),
        content: type === "file" ? digestOfFile(at, size) : null,
        target: type === "symlink" ? readlinkSync(at, { encoding: "buffer" }).toString("latin1") : null,
        linkGroup: null,
        inode
      })
      if (type === "directory") visit(path)
    }
  }
  visit("")
  return new Map(
    [...found]
      .map(([path, { inode, ...entry }]): [TreePath, LookedAt] => {
        const group = names.get(inode) ?? []
        return [path, group.length > 1 ? { ...entry, linkGroup: group.toSorted(compare)[0]! } : entry]
      })
      .toSorted(([a], [b]) => compare(a, b))
  )
}

/** The provider-neutral digest of what was looked at (W6), by the code that providers use and from none of their data. */
export const digestOf = (tree: Tree): Digest =>
  treeDigest(
    [...tree].map(([path, { type, mode, content, target, linkGroup }]) => ({
      path,
      type,
      mode,
      content,
      target,
      linkGroup
    }))
  )

/** What of a tree is compared. */
export interface Compared {
  readonly modes: boolean
  readonly times: boolean
  readonly links: boolean
  /** Paths that an import declared to keep in another form. */
  readonly normalised: ReadonlySet<TreePath>
}

/** What a provider declares to keep of an import. */
export const comparedBy = (manifest: Manifest, receipt?: ImportReceipt): Compared => ({
  modes: manifest.modes,
  times: manifest.nanosecondMtimes,
  links: manifest.hardLinks !== "none",
  normalised: new Set(
    (receipt?.notes ?? [])
      .filter(({ kind }) => kind === "normalised")
      .map(({ path }) => Buffer.from(path.pathBytes ?? path.path, path.pathBytes === undefined ? "utf8" : "base64"))
      .map((bytes) => bytes.toString("latin1"))
  )
})

const shown = (path: TreePath): string => JSON.stringify(show(path).path)

const unlike = (want: LookedAt, have: LookedAt, by: Compared): readonly string[] => {
  const told = (what: string, a: unknown, b: unknown): readonly string[] =>
    a === b ? [] : [`${what} ${String(b)} instead of ${String(a)}`]
  if (want.type !== have.type) return told("type", want.type, have.type)
  return [
    ...told("size", want.size, have.size),
    ...told("content", want.content, have.content),
    ...told("target", want.target, have.target),
    ...(by.modes ? told("mode", want.mode.toString(8), have.mode.toString(8)) : []),
    // A directory's time says when a name in it changed: checkouts and mounts change it, and no tool reads it.
    ...(by.times && want.type === "file" ? told("mtime", want.mtimeNs, have.mtimeNs) : []),
    ...(by.links ? told("hard link of", want.linkGroup, have.linkGroup) : [])
  ]
}

/** How a tree is not what it should be, one line a path; empty when it is. */
export const differences = (want: Tree, have: Tree, by: Compared): readonly string[] => {
  const lines: string[] = []
  for (const [path, entry] of want) {
    const other = have.get(path)
    if (by.normalised.has(path)) continue
    if (other === undefined) lines.push(`${shown(path)}: missing`)
    else lines.push(...unlike(entry, other, by).map((line) => `${shown(path)}: ${line}`))
  }
  for (const path of have.keys()) if (!want.has(path)) lines.push(`${shown(path)}: should not be there`)
  return lines
}
