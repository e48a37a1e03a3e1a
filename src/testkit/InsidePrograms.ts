/**
 * Programs that run inside a workspace, and beside it over the model: plain JavaScript for `node -e`, because nothing of the testkit need be
 * visible inside. Promise: they know their working directory and nothing else; paths in and out are one character a byte.
 * Rules: K1, W7.
 */

/** Prints what is below the working directory as JSON: `[path, type, mode, size, mtimeNs, content, target]` of each entry. */
export const lookProgram = `
const fs = require("node:fs"), { createHash } = require("node:crypto")
const found = []
const at = (path) => Buffer.from(path, "latin1")
const visit = (directory) => {
  for (const raw of fs.readdirSync(at(directory), { encoding: "buffer" })) {
    const path = (directory === "." ? "" : directory + "/") + raw.toString("latin1")
    const stat = fs.lstatSync(at(path), { bigint: true })
    const mode = Number(stat.mode) & 0o7777, size = Number(stat.size), time = String(stat.mtimeNs)
    if (stat.isDirectory()) {
      found.push([path, "directory", mode, 0, time, null, null])
      visit(path)
    } else if (stat.isSymbolicLink()) {
      found.push([path, "symlink", 0, size, time, null, fs.readlinkSync(at(path), { encoding: "buffer" }).toString("latin1")])
    } else if (stat.isFile()) {
      const block = 4 * 1024 * 1024, bytes = fs.readFileSync(at(path)), hashes = []
      for (let from = 0; from === 0 || from < bytes.length; from += block)
        hashes.push(createHash("sha256").update(bytes.subarray(from, from + block)).digest())
      const whole = hashes.length === 1 ? hashes[0] : createHash("sha256").update(Buffer.concat(hashes)).digest()
      found.push([path, "file", mode, size, time, "sha256:" + whole.toString("hex"), null])
    }
  }
}
visit(".")
process.stdout.write(JSON.stringify(found))
`

/**
 * Carries out a list of operations, given as JSON on stdin, in the working directory, and prints how each ended: `ok` or the code of its error.
 * A directory that rename(2) does not take across (EXDEV) is moved entry by entry, as mv does it.
 */
export const playProgram = `
const fs = require("node:fs")
process.umask(0o022)
const at = (path) => Buffer.from(path, "latin1")
const below = (directory, name) => directory + "/" + name
const bytes = (size, fill) => {
  const made = Buffer.alloc(size)
  let state = fill * 2654435761 >>> 0
  for (let i = 0; i < size; i += 1) {
    if (i % 7 === 0) state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    made[i] = state >>> 24
  }
  return made
}
const names = (directory) => fs.readdirSync(at(directory), { encoding: "buffer" }).map((name) => name.toString("latin1"))
const move = (from, to) => {
  try {
    fs.renameSync(at(from), at(to))
  } catch (error) {
    if (error.code !== "EXDEV") throw error
    if (fs.lstatSync(at(to), { throwIfNoEntry: false }) !== undefined) fs.rmdirSync(at(to))
    const { mode } = fs.lstatSync(at(from))
    fs.mkdirSync(at(to))
    for (const name of names(from)) move(below(from, name), below(to, name))
    fs.chmodSync(at(to), mode & 0o7777)
    fs.rmdirSync(at(from))
  }
}
const within = (path, flags, use) => {
  const file = fs.openSync(at(path), flags)
  try { return use(file) } finally { fs.closeSync(file) }
}
const put = (file, data, offset) => {
  for (let done = 0; done < data.length; ) done += fs.writeSync(file, data, done, data.length - done, offset + done)
}
const clear = (path) => fs.rmSync(at(path), { recursive: true, force: true })
const operations = {
  write: (path, size, fill) => fs.writeFileSync(at(path), bytes(size, fill)),
  append: (path, size, fill) => fs.appendFileSync(at(path), bytes(size, fill)),
  truncate: (path, size) => fs.truncateSync(at(path), size),
  patch: (path, offset, size, fill) => within(path, "r+", (file) => put(file, bytes(size, fill), offset)),
  move,
  link: (from, to) => fs.linkSync(at(from), at(to)),
  symlink: (target, path) => fs.symlinkSync(at(target), at(path)),
  unlink: (path) => fs.unlinkSync(at(path)),
  clear,
  mkdir: (path) => void fs.mkdirSync(at(path), { recursive: true }),
  chmod: (path, mode, directoryMode) => {
    const stat = fs.lstatSync(at(path))
    if (!stat.isSymbolicLink()) fs.chmodSync(at(path), stat.isDirectory() ? directoryMode : mode)
  },
  held: (path, size, fill) => within(path, "w+", (file) => {
    put(file, bytes(size, fill), 0)
    fs.unlinkSync(at(path))
    fs.writeFileSync(at(path), bytes(size + 1, fill + 1))
    put(file, bytes(9, fill + 2), size)
    const back = Buffer.alloc(size + 9)
    fs.readSync(file, back, 0, back.length, 0)
    if (!back.equals(Buffer.concat([bytes(size, fill), bytes(9, fill + 2)]))) throw { code: "TORN" }
  }),
  replace: (path, size, fill) => {
    clear(path)
    fs.mkdirSync(at(path))
    fs.writeFileSync(at(below(path, "fresh")), bytes(size, fill))
  },
  over: (path, size, fill) => {
    fs.writeFileSync(at(path + ".new"), bytes(size, fill))
    try { fs.renameSync(at(path + ".new"), at(path)) } catch (error) { fs.unlinkSync(at(path + ".new")); throw error }
  }
}
const ends = JSON.parse(fs.readFileSync(0, "utf8")).map(([name, ...args]) => {
  try {
    operations[name](...args)
    return "ok"
  } catch (error) {
    return error.code ?? String(error)
  }
})
process.stdout.write(JSON.stringify(ends))
`
