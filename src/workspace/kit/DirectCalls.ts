/**
 * File calls on an open tree from the SDK's side: read, write, splice, edit, list, stat, copy, move, remove.
 * Promise: byte-exact; every path goes through `Beneath`, and every file is opened with O_NOFOLLOW from its directory's
 * descriptor, so a rival that swaps names for links gains nothing. Rules: W4, W21, C1, C3, C4, C14, C27.
 */
import * as fs from "node:fs"
import { promisify, types } from "node:util"
import { longestTreePath } from "../../base/LongPath.ts"
import {
  compare,
  isMode,
  join,
  meansDirectory,
  parent,
  type PathInput,
  show,
  type TreePath
} from "../../base/PathBytes.ts"
import { EditRefused } from "../WorkspaceError.ts"
import type { FileStat } from "../WorkspaceProvider.ts"
import { checkOperation } from "./OperationCheck.ts"
import { at, type Beneath, inputPath, lstatOrUndefined, pathError, type Place, typed } from "./Beneath.ts"

const { O_RDONLY, O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = fs.constants
const read = promisify(fs.read)
const write = promisify(fs.write)
const readWhole = promisify(fs.readFile) as (descriptor: number) => Promise<Buffer>
const writeWhole = promisify(fs.writeFile) as (descriptor: number, bytes: Uint8Array) => Promise<void>
const copyFile = promisify(fs.copyFile)

export const statOf = (path: TreePath, stat: fs.BigIntStats, target: TreePath | undefined): FileStat => ({
  ...show(path),
  type: stat.isDirectory() ? "directory" : stat.isSymbolicLink() ? "symlink" : "file",
  mode: stat.isSymbolicLink() ? 0 : Number(stat.mode & 0o7777n),
  size: Number(stat.size),
  mtimeNs: String(stat.mtimeNs),
  ...(target === undefined ? {} : { target: show(target) })
})

const linkAt = (directory: string, name: TreePath): TreePath =>
  fs.readlinkSync(at(directory, name), { encoding: "latin1" })

const isSpecial = (stat: fs.BigIntStats): boolean => !stat.isFile() && !stat.isDirectory() && !stat.isSymbolicLink()

/** Opens a regular file, and only that: a fifo put there meanwhile neither blocks nor passes. */
const openFile = (tree: Beneath, path: PathInput, flags: number, mode = 0o666): number =>
  tree.resolve(path, true, (place) => {
    if (place.name === "" || (place.stat !== undefined && !place.stat.isFile())) throw pathError("notAFile", place.path)
    if (place.stat === undefined && (flags & O_CREAT) === 0) throw pathError("notFound", place.path)
    const descriptor = fs.openSync(at(place.directory, place.name), flags | O_NOFOLLOW | O_NONBLOCK, mode)
    if (fs.fstatSync(descriptor).isFile()) return descriptor
    fs.closeSync(descriptor)
    throw pathError("notAFile", place.path)
  })

const withFile = async <A>(descriptor: number, use: (descriptor: number) => Promise<A>): Promise<A> => {
  try {
    return await use(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}

export const readFile = (tree: Beneath, path: PathInput): Promise<Buffer> =>
  withFile(openFile(tree, path, O_RDONLY), readWhole)

/** A descriptor of a file, which is the caller's to close. */
export const openToRead = (tree: Beneath, path: PathInput): number => openFile(tree, path, O_RDONLY)

/** Creates the directories above `path` that do not exist; whoever else makes one at the same moment is welcome. */
const makeParents = (tree: Beneath, path: PathInput): void => {
  const above = parent(inputPath(path, tree.mountPath))
  const parts = above === "" ? [] : above.split("/")
  for (let count = 1; count <= parts.length; count += 1) {
    tree.resolve(Buffer.from(parts.slice(0, count).join("/"), "latin1"), true, (place) => {
      if (place.stat !== undefined) return
      try {
        fs.mkdirSync(at(place.directory, place.name))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
      }
    })
  }
}

/** A path for what is no directory, and the mode it is to have: refused before anything is made. */
const checkNew = (tree: Beneath, path: PathInput, mode?: number): void => {
  const wanted = inputPath(path, tree.mountPath)
  if (meansDirectory(wanted)) throw pathError("notAFile", wanted)
  checkMode(wanted, mode)
}
const checkMode = (wanted: TreePath, mode: number | undefined): void => {
  if (mode !== undefined && !isMode(mode)) throw pathError("invalidMode", wanted)
}

const bytesOf = (bytes: Uint8Array | string): Uint8Array => (typeof bytes === "string" ? Buffer.from(bytes) : bytes)

/** In place: names that share the file's inode see the new content too. */
export const writeFile = async (tree: Beneath, path: PathInput, bytes: Uint8Array | string, mode?: number) => {
  checkOperation({ op: "write", path, bytes })
  checkNew(tree, path, mode)
  makeParents(tree, path)
  await withFile(openFile(tree, path, O_WRONLY | O_CREAT | O_TRUNC, mode ?? 0o666), async (descriptor) => {
    await writeWhole(descriptor, bytesOf(bytes))
    if (mode !== undefined) fs.fchmodSync(descriptor, mode)
  })
}

const block = 1 << 20

const writeAll = async (descriptor: number, bytes: Uint8Array, position: number): Promise<void> => {
  for (let done = 0; done < bytes.length; ) {
    done += (await write(descriptor, bytes, done, bytes.length - done, position + done)).bytesWritten
  }
}

/** Moves the tail of a file by `by` bytes, block by block from the safe end, so that memory stays bounded. */
const shiftTail = async (descriptor: number, from: number, size: number, by: number): Promise<void> => {
  const buffer = Buffer.allocUnsafe(block)
  const move = async (start: number, length: number): Promise<void> => {
    let got = 0
    while (got < length) {
      const { bytesRead } = await read(descriptor, buffer, got, length - got, start + got)
      if (bytesRead === 0) break
      got += bytesRead
    }
    await writeAll(descriptor, buffer.subarray(0, got), start + by)
  }
  if (by > 0) {
    for (let end = size; end > from; ) {
      const length = Math.min(block, end - from)
      end -= length
      await move(end, length)
    }
  } else if (by < 0) {
    for (let start = from; start < size; start += block) await move(start, Math.min(block, size - start))
  }
}

export const splice = (tree: Beneath, path: PathInput, offset: number, deleteCount: number, bytes: Uint8Array) => {
  checkOperation({ op: "splice", path, offset, deleteCount, bytes })
  if (!types.isUint8Array(bytes)) throw pathError("invalid", inputPath(path, tree.mountPath))
  return withFile(openFile(tree, path, O_RDWR), async (descriptor) => {
    const size = fs.fstatSync(descriptor).size
    if (offset + deleteCount > size) throw pathError("outOfBounds", inputPath(path, tree.mountPath), size)
    const by = bytes.length - deleteCount
    await shiftTail(descriptor, offset + deleteCount, size, by)
    await writeAll(descriptor, bytes, offset)
    if (by < 0) fs.ftruncateSync(descriptor, size + by)
  })
}

export const editRefused = (path: TreePath, matches: number, index: number): EditRefused =>
  new EditRefused({
    message: matches === 0 ? "The text to replace does not occur." : `The text to replace occurs ${matches} times.`,
    remedy: "Give the text exactly as it stands in the file, with enough around it to occur once. Nothing was changed.",
    path: show(path).path,
    matches,
    index
  })

export const edit = async (tree: Beneath, path: PathInput, find: string, replace: string, index = 0) => {
  checkOperation({ op: "edit", path, find, replace })
  const before = await readFile(tree, path)
  const needle = Buffer.from(find)
  let matches = 0
  let found = -1
  if (needle.length > 0) {
    for (let from = before.indexOf(needle); from >= 0; from = before.indexOf(needle, from + 1)) {
      matches += 1
      found = from
    }
  }
  if (matches !== 1) throw editRefused(inputPath(path, tree.mountPath), matches, index)
  await splice(tree, path, found, needle.length, Buffer.from(replace))
}

export const stat = (tree: Beneath, path: PathInput): FileStat =>
  tree.resolve(path, false, (place) => {
    if (place.stat === undefined) throw pathError("notFound", place.path)
    const target = place.stat.isSymbolicLink() ? linkAt(place.directory, place.name) : undefined
    return statOf(place.path, place.stat, target)
  })

/** Opens a directory for listing. The caller closes it. */
const openDirectory = (directory: string, name: TreePath): number =>
  fs.openSync(name === "" ? directory : at(directory, name), O_RDONLY | O_DIRECTORY | (name === "" ? 0 : O_NOFOLLOW))

const withDirectory = <A>(directory: string, name: TreePath, use: (directory: string) => A): A => {
  const descriptor = openDirectory(directory, name)
  try {
    return use(`/proc/self/fd/${descriptor}`)
  } finally {
    fs.closeSync(descriptor)
  }
}

const names = (directory: string): TreePath[] => fs.readdirSync(directory, { encoding: "latin1" }).sort(compare)

export const list = (tree: Beneath, path: PathInput): FileStat[] =>
  tree.resolve(path, true, (place) => {
    if (place.stat === undefined) throw pathError("notFound", place.path)
    if (!place.stat.isDirectory()) throw pathError("notADirectory", place.path)
    return withDirectory(place.directory, place.name, (directory) =>
      names(directory).flatMap((name) => {
        const found = lstatOrUndefined(at(directory, name))
        if (found === undefined || isSpecial(found)) return []
        return [statOf(join(place.path, name), found, found.isSymbolicLink() ? linkAt(directory, name) : undefined)]
      })
    )
  })

/** What opening a directory says when the name means something else by now: it is not there to be listed. */
const goneCodes = ["ENOENT", "ENOTDIR", "ELOOP"]

/**
 * Every entry below the root, without following links; gives the event loop a turn between directories.
 * Holds a descriptor a level, so that each step costs the same at any depth and nobody can swap a parent meanwhile.
 */
export const walk = async (tree: Beneath, visit: (path: TreePath, stat: fs.BigIntStats) => void): Promise<void> => {
  const open: { readonly descriptor: number; readonly path: TreePath; readonly todo: TreePath[] }[] = []
  const enter = (descriptor: number, path: TreePath): void => {
    const todo: TreePath[] = []
    open.push({ descriptor, path, todo })
    const directory = `/proc/self/fd/${descriptor}`
    for (const name of names(directory)) {
      const child = join(path, name)
      const found = lstatOrUndefined(at(directory, name))
      // What lies deeper than any tree reaches is no part of one: a checkpoint lists it.
      if (found === undefined || child.length > longestTreePath) continue
      visit(child, found)
      if (found.isDirectory()) todo.push(name)
    }
  }
  try {
    enter(
      tree.resolve("", false, (place) => openDirectory(place.directory, "")),
      ""
    )
    for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
      const name = top.todo.pop()
      if (name === undefined) {
        fs.closeSync(top.descriptor)
        open.pop()
        continue
      }
      const path = join(top.path, name)
      try {
        enter(openDirectory(`/proc/self/fd/${top.descriptor}`, name), path)
      } catch (error) {
        if (!goneCodes.includes((error as NodeJS.ErrnoException).code ?? "")) throw typed(error, path)
      }
      await new Promise((resolve) => setImmediate(resolve))
    }
  } finally {
    for (const { descriptor } of open) fs.closeSync(descriptor)
  }
}

/** Removes a name and all below it; a link is removed, never followed. */
export const removeAt = (directory: string, name: TreePath): void => {
  const found = lstatOrUndefined(at(directory, name))
  if (found?.isDirectory() === true) {
    withDirectory(directory, name, (inner) => {
      for (const child of names(inner)) removeAt(inner, child)
    })
    fs.rmdirSync(at(directory, name))
  } else fs.unlinkSync(at(directory, name))
}

export const remove = (tree: Beneath, path: PathInput): void =>
  tree.resolve(path, false, (place) => {
    if (place.stat === undefined) throw pathError("notFound", place.path)
    if (place.name === "") throw pathError("invalid", place.path)
    removeAt(place.directory, place.name)
  })

/** Copies one entry and all below it to a name that is free. Modes stay; `keepTimes` keeps mtimes to the microsecond. */
export const copyEntry = async (
  from: { readonly directory: string; readonly name: TreePath },
  to: { readonly directory: string; readonly name: TreePath },
  keepTimes: boolean
): Promise<void> => {
  const source = at(from.directory, from.name)
  const target = at(to.directory, to.name)
  const found = fs.lstatSync(source)
  if (found.isSymbolicLink()) {
    fs.symlinkSync(fs.readlinkSync(source, { encoding: "buffer" }), target)
    if (keepTimes) fs.lutimesSync(target, found.atime, found.mtimeMs / 1000)
  } else if (found.isDirectory()) {
    fs.mkdirSync(target, 0o700)
    const inner = openDirectory(from.directory, from.name)
    const made = openDirectory(to.directory, to.name)
    try {
      for (const child of names(`/proc/self/fd/${inner}`)) {
        const place = (descriptor: number) => ({ directory: `/proc/self/fd/${descriptor}`, name: child })
        await copyEntry(place(inner), place(made), keepTimes)
      }
      fs.fchmodSync(made, found.mode & 0o7777)
      if (keepTimes) fs.futimesSync(made, found.atime, found.mtimeMs / 1000)
    } finally {
      fs.closeSync(inner)
      fs.closeSync(made)
    }
  } else {
    await withFile(fs.openSync(source, O_RDONLY | O_NOFOLLOW | O_NONBLOCK), async (descriptor) => {
      if (!fs.fstatSync(descriptor).isFile()) throw pathError("notAFile", from.name)
      await copyFile(`/proc/self/fd/${descriptor}`, target, fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE)
      await withFile(fs.openSync(target, O_RDONLY | O_NOFOLLOW), async (made) => {
        fs.fchmodSync(made, found.mode & 0o7777)
        if (keepTimes) fs.futimesSync(made, found.atime, found.mtimeMs / 1000)
      })
    })
  }
}

/** Keeps the directory of a place open for as long as an asynchronous call needs it. */
const hold = (place: Place): { readonly directory: string; readonly name: TreePath; readonly close: () => void } => {
  const descriptor = openDirectory(place.directory, "")
  return { directory: `/proc/self/fd/${descriptor}`, name: place.name, close: () => fs.closeSync(descriptor) }
}

const heldPair = async <A>(
  tree: Beneath,
  from: PathInput,
  to: PathInput,
  use: (source: ReturnType<typeof hold>, target: ReturnType<typeof hold>, targetStat: fs.BigIntStats | undefined) => A
): Promise<Awaited<A>> => {
  const wanted = inputPath(from, tree.mountPath)
  const source = tree.resolve(from, false, (place) => {
    if (place.stat === undefined) throw pathError("notFound", place.path)
    if (place.name === "") throw pathError("invalid", place.path)
    const target = inputPath(to, tree.mountPath)
    if (!place.stat.isDirectory() && meansDirectory(target)) throw pathError("notADirectory", target)
    return { held: hold(place), path: place.path }
  })
  try {
    makeParents(tree, to)
    const target = tree.resolve(to, false, (place) => {
      if (place.name === "" || place.path.startsWith(`${source.path}/`)) throw pathError("invalid", place.path)
      return { held: hold(place), stat: place.stat }
    })
    try {
      return await use(source.held, target.held, target.stat)
    } catch (error) {
      throw typed(error, wanted)
    } finally {
      target.held.close()
    }
  } finally {
    source.held.close()
  }
}

/** The target must be free. A link is copied as a link. */
export const copy = (tree: Beneath, from: PathInput, to: PathInput): Promise<void> =>
  heldPair(tree, from, to, async (source, target, there) => {
    if (there !== undefined) throw pathError("exists", inputPath(to, tree.mountPath))
    await copyEntry(source, target, false)
  })

/** rename(2) where the kernel allows it; a base directory of an overlay is copied and removed instead (EXDEV). */
export const move = (tree: Beneath, from: PathInput, to: PathInput): Promise<void> =>
  heldPair(tree, from, to, async (source, target, there) => {
    try {
      fs.renameSync(at(source.directory, source.name), at(target.directory, target.name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error
      if (there !== undefined) {
        if (!there.isDirectory()) throw pathError("exists", inputPath(to, tree.mountPath))
        fs.rmdirSync(at(target.directory, target.name))
      }
      await copyEntry(source, target, true)
      removeAt(source.directory, source.name)
    }
  })

export const makeDirectory = (tree: Beneath, path: PathInput, mode?: number): void => {
  checkMode(inputPath(path, tree.mountPath), mode)
  makeParents(tree, path)
  tree.resolve(path, false, (place) => {
    if (place.stat !== undefined) throw pathError("exists", place.path)
    fs.mkdirSync(at(place.directory, place.name), mode ?? 0o777)
    if (mode !== undefined) chmodAt(place, mode)
  })
}

/** Any target may be planted: what a link says is the tree's own content. Following it is what `Beneath` guards. */
export const makeLink = (tree: Beneath, path: PathInput, target: Buffer): void => {
  checkNew(tree, path)
  makeParents(tree, path)
  tree.resolve(path, false, (place) => {
    if (place.stat !== undefined) throw pathError("exists", place.path)
    fs.symlinkSync(target, at(place.directory, place.name))
  })
}

/** Another name of a file that is there. */
export const hardLink = (tree: Beneath, path: PathInput, file: PathInput): void => {
  makeParents(tree, path)
  tree.resolve(path, false, (place) => {
    if (place.stat !== undefined) throw pathError("exists", place.path)
    tree.resolve(file, false, (first) => fs.linkSync(at(first.directory, first.name), at(place.directory, place.name)))
  })
}

const chmodAt = (place: Place, mode: number): void => {
  const O_PATH = 0o10000000
  const descriptor = fs.openSync(at(place.directory, place.name), O_PATH | O_NOFOLLOW)
  try {
    if (fs.fstatSync(descriptor).isSymbolicLink()) throw pathError("notAFile", place.path)
    // fchmod refuses an O_PATH descriptor; its /proc name leads to that same inode and nowhere else.
    fs.chmodSync(`/proc/self/fd/${descriptor}`, mode)
  } finally {
    fs.closeSync(descriptor)
  }
}

export const chmod = (tree: Beneath, path: PathInput, mode: number): void => {
  checkMode(inputPath(path, tree.mountPath), mode)
  tree.resolve(path, true, (place) => {
    if (place.stat === undefined) throw pathError("notFound", place.path)
    if (place.name === "") throw pathError("invalid", place.path)
    chmodAt(place, mode)
  })
}

export const treePath = (tree: Beneath, path: PathInput): TreePath => inputPath(path, tree.mountPath)

/** Calls `use` with the place of a path (links at its end not followed) while the directory is kept open. */
export const withHeld = async <A>(
  tree: Beneath,
  path: PathInput,
  use: (place: { readonly directory: string; readonly name: TreePath }) => Promise<A>
): Promise<A> => {
  const held = tree.resolve(path, false, (place) => {
    if (place.name === "") throw pathError("invalid", place.path)
    return hold(place)
  })
  try {
    return await use(held)
  } finally {
    held.close()
  }
}
