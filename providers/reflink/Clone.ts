/**
 * Clones a tree: every file shares its extents with the file that it was made of (FICLONE, by `cp` of GNU coreutils; clonefile on macOS).
 * Promise: names of any bytes, links, hard links, modes, mtimes to the nanosecond, xattrs and holes as they were; what the file system cannot
 * clone is copied and counted, or refused, and never copied without being counted; what is to be left out is not there, and the times of
 * the directories around it are; a failure leaves an incomplete target, which the caller takes away. Rules: RL1, L15, W13; C17, C18, C19.
 */
import * as fs from "node:fs"
import { basename, join, parent, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { FileSystemFailure, Unavailable } from "../../src/workspace/WorkspaceError.ts"
import { type Complaint, complaintsOf } from "./CopyMessages.ts"
import { Descent, openBelow, openRoot, within } from "../../src/base/Descent.ts"
import { type Directories, differing, directoriesOf, doubtful } from "./Swaps.ts"
import { runTool } from "./Tool.ts"

export interface CloneInput {
  readonly source: TreePath
  /** An empty directory of ours. */
  readonly target: TreePath
  readonly leaveOut: readonly TreePath[]
  /** Somebody may be writing to the source: an entry that goes meanwhile is no failure. */
  readonly mayChange: boolean
  /** And may move directories: what another one's place brought in is brought anew, from where it belongs. */
  readonly mayMove?: boolean
  /** The source lies where nothing can be cloned from: its bytes are copied, and counted. */
  readonly across: boolean
  readonly signal: AbortSignal
  readonly onProgress?: (files: number, bytes: number) => void
}

/** How often an entry is cloned that was replaced while it was cloned. */
const rounds = 5

/** The target as `cp` sees it, whose third descriptor it is. */
const targetName = "/proc/self/fd/3/."

/** Bytes of a file's content, holes not counted. */
const contentBytes = (stat: Pick<fs.Stats, "size" | "blocks">): number => Math.min(stat.size, stat.blocks * 512)

const failed = (complaint: Pick<Complaint, "message" | "code">): unknown =>
  complaint.code === "EOPNOTSUPP" || complaint.code === "ENOTTY"
    ? new Unavailable({
        message: "The file system of the store has no file clones.",
        remedy: "Put the store on btrfs, or on XFS made with reflink=1, or use LayerFS, which needs none.",
        what: "reflink",
        missing: ["file clones (FICLONE)"]
      })
    : new FileSystemFailure({
        message: `A tree could not be cloned (${complaint.code}).`,
        remedy:
          complaint.code === "ENOSPC" || complaint.code === "EDQUOT"
            ? "Free space on the store's disk, then repeat the call."
            : "Look the code up in errno(3), then repeat the call: nothing of it was kept.",
        syscallCode: complaint.code
      })

const isLeftOut = (path: TreePath, leaveOut: ReadonlySet<TreePath>): boolean => {
  for (let at = path; at !== ""; at = parent(at)) if (leaveOut.has(at)) return true
  return false
}

/** Says how many entries `cp -v` has named: a line each, as it quotes line feeds. */
const counter = (onProgress: CloneInput["onProgress"]) => {
  let entries = 0
  return onProgress === undefined
    ? {}
    : {
        onOutput: (piece: Buffer) => {
          for (const byte of piece) if (byte === 10) entries += 1
          onProgress(entries, 0)
        }
      }
}

class Cloning {
  readonly #input: CloneInput
  readonly #source: number
  readonly #target: number
  readonly #leaveOut: ReadonlySet<TreePath>
  #mapped = false

  constructor(input: CloneInput, source: number, target: number) {
    this.#input = input
    this.#source = source
    this.#target = target
    this.#leaveOut = new Set(input.leaveOut)
  }

  get #options() {
    return { inside: this.#source, third: this.#target, mapped: this.#mapped, signal: this.#input.signal }
  }

  /** The owner's ids are the only ones that a mapped `cp` knows. */
  get #cp(): readonly string[] {
    return ["cp", "-a", ...(this.#mapped ? ["--no-preserve=ownership"] : [])]
  }

  /** What did not come along. `told` is the exit code that says that every such entry has its message. */
  #left(code: number, told: number, messages: string): readonly Complaint[] {
    if (code === 0) return []
    if (code !== told || messages === "") throw failed({ message: "cp was ended", code: "EINTR" })
    return complaintsOf(messages, [".", targetName]).filter(
      ({ path }) => path === null || !isLeftOut(path, this.#leaveOut)
    )
  }

  /** Everything, in one run. Gives the entries that did not come along. */
  async whole(): Promise<readonly Complaint[]> {
    const { across, onProgress } = this.#input
    const argv = [...this.#cp, `--reflink=${across ? "never" : "always"}`, ...(onProgress === undefined ? [] : ["-v"])]
    const { code, messages } = await runTool([...argv, "-T", "--", ".", targetName], {
      ...this.#options,
      ...counter(onProgress)
    })
    return this.#left(code, 1, messages)
  }

  /** Once more with every right over what is this user's own: modes of 000 hide nothing from its owner. */
  async wholeAsOwner(): Promise<readonly Complaint[]> {
    this.#mapped = true
    await emptyDirectory(this.#target)
    return await this.whole()
  }

  /** Single entries, hard links among them kept. */
  async some(paths: readonly TreePath[], how: "always" | "never"): Promise<readonly Complaint[]> {
    const argv = [...this.#cp, "--parents", `--reflink=${how}`, "--remove-destination", "-t", targetName, "--"]
    const names = paths.map((path) => `./${path}\0`).join("")
    const { code, messages } = await runTool(["xargs", "-0", "-r", "-s", "1000000", ...argv], {
      ...this.#options,
      input: toBytes(names)
    })
    return this.#left(code, 123, messages)
  }

  /** Brings along what did not come at first. Gives the entries whose bytes were copied. */
  async settle(first: readonly Complaint[]): Promise<ReadonlySet<TreePath>> {
    const { mayChange, across } = this.#input
    const copied = new Set<TreePath>()
    for (let round = 0, left = first; left.length > 0; round += 1) {
      const bad = left.find(({ kind }) => kind === "other" || kind === "denied" || (kind === "gone" && !mayChange))
      if (bad !== undefined) throw failed(bad)
      if (round === rounds) throw failed({ message: "it keeps changing", code: "EBUSY" })
      const again = pathsOf(left, "gone").filter((path) => ifThere(() => lookAt(this.#source, path)) !== undefined)
      const uncloned = pathsOf(left, "cannotClone")
      for (const path of uncloned) copied.add(path)
      left = [
        ...(again.length === 0 ? [] : await this.some(again, across ? "never" : "always")),
        ...(uncloned.length === 0 ? [] : await this.some(uncloned, "never"))
      ]
      for (const path of new Set([...again, ...uncloned].map(parent))) await this.restoreTimes(path)
    }
    return copied
  }

  /** Gives the entries whose bytes were copied. */
  async bringAnew(before: Directories): Promise<ReadonlySet<TreePath>> {
    const { signal } = this.#input
    const after = await directoriesOf(this.#source, signal)
    const doubts = await doubtful(this.#target, before, after, signal)
    const again = new Map<TreePath, TreePath[]>()
    for (const path of await differing([this.#source, this.#target], doubts, signal)) {
      // Below one that went with all that was in it.
      if (!(await this.#remove(path))) continue
      again.set(parent(path), [...(again.get(parent(path)) ?? []), basename(path)])
    }
    const copied = new Set<TreePath>()
    for (const [directory, names] of again) {
      for (const name of await this.#within(directory, names)) copied.add(join(directory, name))
      await this.restoreTimes(directory)
    }
    return copied
  }

  /** Entries of one directory, which are none themselves. Gives those whose bytes were copied. */
  async #within(directory: TreePath, names: readonly TreePath[]): Promise<readonly TreePath[]> {
    const opened = [this.#source, this.#target].map((root) => {
      try {
        return openBelow(root, directory)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined
        throw failed({ message: "a directory keeps moving", code: "EBUSY" })
      }
    })
    const [inside, third] = opened
    const { signal, across } = this.#input
    // Without -R: what is a directory by now would be walked by its path.
    const cp = ["cp", "-d", "--preserve=all", ...(this.#mapped ? ["--no-preserve=ownership"] : [])]
    const bring = async (left: readonly TreePath[], how: "always" | "never"): Promise<readonly TreePath[]> => {
      if (left.length === 0 || inside === undefined || third === undefined) return []
      const { code, messages } = await runTool(
        ["xargs", "-0", "-r", "-s", "1000000", ...cp, `--reflink=${how}`, "-t", targetName, "--"],
        { inside, third, mapped: this.#mapped, signal, input: toBytes(left.map((name) => `./${name}\0`).join("")) }
      )
      const complaints = code === 0 ? [] : complaintsOf(messages, [".", targetName])
      if (code !== 0 && (code !== 123 || complaints.some(({ kind }) => kind === "other" || kind === "denied"))) {
        throw failed({ message: "it keeps changing", code: "EBUSY" })
      }
      return pathsOf(complaints, "cannotClone")
    }
    try {
      const uncloned = await bring(names, across ? "never" : "always")
      await bring(uncloned, "never")
      return uncloned
    } finally {
      for (const one of opened) if (one !== undefined) fs.closeSync(one)
    }
  }

  /** In the place of each stands an empty directory that takes no entries. */
  async bringNested(places: readonly TreePath[]): Promise<ReadonlySet<TreePath>> {
    if (places.length === 0) return new Set()
    for (const path of places) await this.#remove(path)
    const uncloned = await this.settle(await this.some(places, "always"))
    for (const path of new Set(places.map(parent))) await this.restoreTimes(path)
    return uncloned
  }

  /** False when it was not there. */
  async #remove(path: TreePath): Promise<boolean> {
    const directory = ifThere(() => openBelow(this.#target, parent(path)))
    if (directory === undefined) return false
    try {
      const at = toBytes(within(directory, basename(path)))
      if (ifThere(() => fs.lstatSync(at)) === undefined) return false
      await removeTree(at)
      return true
    } finally {
      fs.closeSync(directory)
    }
  }

  /** Takes away what a tree does not hold, and gives the directories around it their times back. */
  async takeOut(): Promise<void> {
    const around = new Set<TreePath>()
    for (const path of this.#leaveOut) if (await this.#remove(path)) around.add(parent(path))
    for (const path of around) await this.restoreTimes(path)
  }

  /** Bytes of all files of the target, each inode once. */
  async allBytes(): Promise<number> {
    const lines: Buffer[] = []
    const counted = await runTool(["find", ".", "-type", "f", "-printf", "%i %s %b\\n"], {
      inside: this.#target,
      mapped: this.#mapped,
      signal: this.#input.signal,
      onOutput: (piece) => lines.push(piece)
    })
    if (counted.code !== 0) throw failed({ message: counted.messages, code: "EIO" })
    const bytes = new Map<string, number>()
    for (const line of Buffer.concat(lines).toString().split("\n")) {
      const [inode, size, blocks] = line.split(" ")
      if (blocks !== undefined) bytes.set(inode!, contentBytes({ size: Number(size), blocks: Number(blocks) }))
    }
    return [...bytes.values()].reduce((sum, one) => sum + one, 0)
  }

  async restoreTimes(path: TreePath): Promise<void> {
    const of = ifThere(() => openBelow(this.#source, path))
    const at = ifThere(() => openBelow(this.#target, path))
    try {
      if (of === undefined || at === undefined) return
      const touched = await runTool(["touch", "-r", targetName, "."], { inside: at, third: of, mapped: this.#mapped })
      if (touched.code !== 0) throw failed({ message: "touch failed", code: "EIO" })
    } finally {
      if (of !== undefined) fs.closeSync(of)
      if (at !== undefined) fs.closeSync(at)
    }
  }
}

const ifThere = <A>(look: () => A): A | undefined => {
  try {
    return look()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === "ENOENT" || code === "ENOTDIR" || code === "ELOOP") return undefined
    throw error
  }
}

const emptyDirectory = async (directory: number): Promise<void> => {
  for (const name of fs.readdirSync(toBytes(within(directory, ".")), { encoding: "latin1" })) {
    await removeTree(toBytes(within(directory, name)))
  }
}

/** Each once: `cp` warns of a name that it is given again. */
const pathsOf = (complaints: readonly Complaint[], kind: Complaint["kind"]): readonly TreePath[] => [
  ...new Set(complaints.flatMap((one) => (one.kind === kind && one.path !== null ? [one.path] : [])))
]

/** The bytes that the entries hold, each inode once. */
const bytesOfAll = (at: TreePath, paths: Iterable<TreePath>): number => {
  const seen = new Set<number>()
  const descent = new Descent(at)
  let bytes = 0
  try {
    for (const path of paths) {
      const stat = ifThere(() => fs.lstatSync(toBytes(descent.to(path))))
      if (stat === undefined || !stat.isFile() || seen.has(stat.ino)) continue
      seen.add(stat.ino)
      bytes += contentBytes(stat)
    }
    return bytes
  } finally {
    descent.close()
  }
}

const cloningOf = async <A>(
  input: CloneInput,
  work: (cloning: Cloning, target: number, source: number) => Promise<A>
): Promise<A> => {
  const source = openRoot(input.source)
  try {
    const target = openRoot(input.target)
    try {
      return await work(new Cloning(input, source, target), target, source)
    } finally {
      fs.closeSync(target)
    }
  } finally {
    fs.closeSync(source)
  }
}

/** Clones what `input` says. Rejects with `Unavailable`, `FileSystemFailure`, Node's own, and the signal's reason. */
export const cloneTree = (input: CloneInput): Promise<{ readonly copiedBytes: number }> =>
  cloningOf(input, async (cloning, _target, source) => {
    const before = input.mayMove === true ? await directoriesOf(source, input.signal) : undefined
    let left = await cloning.whole()
    if (process.getuid?.() !== 0 && left.some(({ kind }) => kind === "denied")) left = await cloning.wholeAsOwner()
    const copied = new Set(await cloning.settle(left))
    await cloning.takeOut()
    if (before !== undefined) for (const path of await cloning.bringAnew(before)) copied.add(path)
    return { copiedBytes: input.across ? await cloning.allBytes() : bytesOfAll(input.target, copied) }
  })

const lookAt = (root: number, path: TreePath): fs.Stats => {
  const directory = openBelow(root, parent(path))
  try {
    return fs.lstatSync(toBytes(within(directory, basename(path))))
  } finally {
    fs.closeSync(directory)
  }
}

/**
 * A snapshot knows no exceptions: takes away what is to be left out, and brings along what its source has in subvolumes of its own.
 * `nested` finds their places in the target. Gives the bytes that had to be copied.
 */
export const leaveOutOf = async (input: {
  readonly source: TreePath
  readonly target: TreePath
  readonly leaveOut: readonly TreePath[]
  readonly signal: AbortSignal
  readonly nested: (target: number, signal: AbortSignal) => Promise<readonly TreePath[]>
}): Promise<number> =>
  cloningOf({ ...input, mayChange: true, across: false }, async (cloning, target) => {
    const places = await input.nested(target, input.signal)
    const uncloned = await cloning.bringNested(places)
    await cloning.takeOut()
    return bytesOfAll(input.target, uncloned)
  })
