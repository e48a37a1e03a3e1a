/** States as clones, on real file systems in loop images. Rules: RL1, RL2. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterEach, expect, it, type TestContext } from "vitest"
import { reflinkBackend } from "../../providers/reflink/Backend.ts"
import { fromInput } from "../../src/base/PathBytes.ts"
import type { KeepInput, SnapshotBackend } from "../../src/workspace/kit/SnapshotBackend.ts"
import { runAsUser } from "../layerfs/asUser.ts"
import { oneFile } from "../oneFile.ts"
import { type ImageKind, endAll, lackOf, loopImage } from "./loopImage.ts"
import { lookOf, oddTree, specials } from "./trees.ts"

const cleanups: (() => void)[] = []
afterEach(() => endAll(cleanups))

interface Ground {
  readonly disk: string
  readonly image: string
  readonly states: string
  readonly backend: SnapshotBackend
}

const groundOn = async (
  { skip }: TestContext,
  kind: ImageKind,
  image: Parameters<typeof loopImage>[1] = {}
): Promise<Ground> => {
  const lack = lackOf(kind)
  skip(lack !== null, lack ?? "")
  const { path, image: file, remove } = loopImage(kind, image)
  cleanups.push(remove)
  const directory = join(path, "store/reflink")
  fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
  return {
    disk: path,
    image: file,
    states: join(directory, "states"),
    backend: await reflinkBackend({ directory, durability: "full" })
  }
}

const state = (commit: string) => ({ project: "prj_1", commit: `cmt_${commit}` })
const keeping = (commit: string, tree: string, more: Partial<KeepInput> = {}): KeepInput => ({
  snapshot: state(commit),
  parents: [],
  tree: fromInput(tree),
  isImport: true,
  changes: null,
  leaveOut: [],
  message: "",
  at: 0,
  onProgress: () => undefined,
  signal: new AbortController().signal,
  ...more
})
const making = (commit: string, target: string) => ({
  snapshot: state(commit),
  target: fromInput(target),
  workspace: null,
  signal: new AbortController().signal
})

/** Replaces, rewrites and removes files for ever; says when it has begun. */
const spawnWriter = (at: string) =>
  spawn(
    "python3",
    [
      "-c",
      `import os, sys
at, n = sys.argv[1], 0
print("begun", flush=True)
while True:
    n += 1
    name = at + "/f%d" % (n % 400)
    if n % 2:
        try: os.unlink(name)
        except FileNotFoundError: pass
    text = str(n // 400 % 10) * 20000
    with open(at + "/../fresh", "w") as file: file.write(text)
    os.rename(at + "/../fresh", name)`,
      at
    ],
    { stdio: ["ignore", "pipe", "inherit"] }
  )

/** Without what no state holds. */
const keptLook = (look: readonly string[]): readonly string[] =>
  look.filter((line) => !specials.some((path) => line.startsWith(JSON.stringify(path))))

for (const kind of ["btrfs", "xfs"] as const) {
  it(`RL1 RL2 L15 C17 C18 C19 a state and what is made of it are the tree, to the nanosecond, and no byte is copied (${kind})`, async (context) => {
    const { disk, states, backend } = await groundOn(context, kind)
    expect(await backend.probe()).toEqual([])
    const source = join(disk, "source")
    fs.mkdirSync(source)
    oddTree(source, "seed")
    const before = lookOf(source)
    let entries = 0
    const kept = await backend.keep(
      keeping("a", source, { leaveOut: specials, onProgress: (files) => (entries = files) })
    )
    expect(kept).toEqual({ method: "reflink", copiedBytes: 0 })
    expect(entries).toBeGreaterThan(10)
    expect(lookOf(source)).toEqual(before)
    expect(lookOf(join(states, "prj_1.cmt_a/tree"))).toEqual(keptLook(before))
    const target = join(disk, "store/work")
    expect(await backend.make(making("a", target))).toEqual({
      method: kind === "btrfs" ? "subvolume" : "reflink",
      copiedBytes: 0
    })
    expect(lookOf(target)).toEqual(keptLook(before))
    expect(fs.lstatSync(join(target, "hole")).blocks).toBe(0)
    fs.writeFileSync(join(target, "small"), "changed")
    fs.rmSync(join(target, "d"), { recursive: true })
    expect(lookOf(join(states, "prj_1.cmt_a/tree"))).toEqual(keptLook(before))
    const changed = lookOf(target)
    expect((await backend.keep(keeping("b", target, { isImport: false, parents: [state("a")] }))).copiedBytes).toBe(0)
    fs.writeFileSync(join(target, "small"), "changed again")
    expect(lookOf(join(states, "prj_1.cmt_b/tree"))).toEqual(changed)
    expect(lookOf(join(states, "prj_1.cmt_a/tree"))).toEqual(keptLook(before))
  })
}

it("RL1 W2 a file system without clones is told by the probe, and a state is never copied onto it in silence", async (context) => {
  const { disk, states, backend } = await groundOn(context, "ext4")
  const [missing, ...more] = await backend.probe()
  expect([missing?.what, more]).toEqual(["file clones on the store's file system (ENOTSUP)", []])
  expect(missing?.remedy).toMatch(/btrfs/)
  const source = join(disk, "source")
  fs.mkdirSync(source)
  fs.writeFileSync(join(source, "a"), "a")
  await expect(backend.keep(keeping("a", source))).rejects.toMatchObject({
    _tag: "Unavailable",
    missing: expect.anything()
  })
  expect(fs.readdirSync(states)).toEqual([])
  expect(fs.readdirSync(source)).toEqual(["a"])
})

for (const kind of ["btrfs", "xfs"] as const) {
  it(`RL1 W13 a source on another file system is copied once, told and counted; what grows from it is cloned (${kind})`, async (context) => {
    const { disk, states, backend } = await groundOn(context, kind)
    const source = fs.mkdtempSync("/var/tmp/coppice-source-")
    cleanups.push(() => fs.rmSync(source, { recursive: true }))
    oddTree(source, "seed")
    const blocks = (path: string) => fs.lstatSync(join(states, "prj_1.cmt_a/tree", path)).blocks * 512
    const kept = await backend.keep(keeping("a", source, { leaveOut: specials }))
    const files = ["small", "big", "d/script", `d/${"n".repeat(255)}`]
    const contents = files.reduce((sum, path) => sum + fs.lstatSync(join(source, path)).size, 4)
    expect(kept).toEqual({ method: "copy", copiedBytes: contents + blocks("mixed") })
    expect(lookOf(join(states, "prj_1.cmt_a/tree"))).toEqual(keptLook(lookOf(source)))
    const target = join(disk, "store/work")
    expect((await backend.make(making("a", target))).copiedBytes).toBe(0)
    // And out of the store again, where nothing can be cloned either.
    const outside = fs.mkdtempSync("/var/tmp/coppice-outside-")
    cleanups.push(() => fs.rmSync(outside, { recursive: true }))
    expect(await backend.make(making("a", join(outside, "tree")))).toMatchObject({ method: "copy" })
    expect(lookOf(join(outside, "tree"))).toEqual(keptLook(lookOf(source)))
  })
}

it("RL1 a file that btrfs does not clone is copied and counted, alone, its hard links kept; a snapshot shares it too", async (context) => {
  const { disk, states, backend } = await groundOn(context, "btrfs")
  const source = join(disk, "source")
  fs.mkdirSync(join(source, "d"), { recursive: true })
  fs.writeFileSync(join(source, "plain"), "p".repeat(10_000))
  for (const name of ["d/nocow", "top"]) {
    fs.writeFileSync(join(source, name), "")
    execFileSync("chattr", ["+C", join(source, name)])
    fs.writeFileSync(join(source, name), "n".repeat(10_000))
  }
  fs.linkSync(join(source, "d/nocow"), join(source, "d/second"))
  for (const path of ["d", ""]) fs.utimesSync(join(source, path), 1_000_000, 2_000_000)
  const before = lookOf(source)
  expect(await backend.keep(keeping("a", source))).toEqual({ method: "reflink", copiedBytes: 20_000 })
  expect(lookOf(join(states, "prj_1.cmt_a/tree"))).toEqual(before)
  const target = join(disk, "store/work")
  expect(await backend.make(making("a", target))).toEqual({ method: "subvolume", copiedBytes: 0 })
  expect(await backend.keep(keeping("b", target, { isImport: false }))).toEqual({ method: "subvolume", copiedBytes: 0 })
})

for (const kind of ["btrfs", "xfs"] as const) {
  it(`RL2 W12 a file that cannot be changed is kept, made and dropped like any other (${kind})`, async (context) => {
    const { disk, states, backend } = await groundOn(context, kind)
    const source = join(disk, "source")
    fs.mkdirSync(source)
    fs.writeFileSync(join(source, "fixed"), "fixed")
    execFileSync("chattr", ["+i", join(source, "fixed")])
    cleanups.push(() => execFileSync("chattr", ["-i", join(source, "fixed")]))
    await backend.keep(keeping("a", source))
    const target = join(disk, "store/work")
    await backend.make(making("a", target))
    execFileSync("chattr", ["+i", join(target, "fixed")])
    await backend.keep(keeping("b", target, { isImport: false }))
    expect(fs.readFileSync(join(states, "prj_1.cmt_b/tree/fixed"), "utf8")).toBe("fixed")
    for (const commit of ["a", "b"]) await backend.drop(state(commit))
    expect(fs.readdirSync(states)).toEqual([])
    if (kind === "xfs") execFileSync("chattr", ["-i", join(target, "fixed")])
    else await backend.clear!(fromInput(target))
    expect(fs.existsSync(target)).toBe(kind === "xfs")
  })
}

for (const kind of ["btrfs", "xfs"] as const) {
  it(`L15 C19 root keeps whose each file is, and its setuid bit (${kind})`, async (context) => {
    const { disk, states, backend } = await groundOn(context, kind)
    const source = join(disk, "source")
    fs.mkdirSync(source)
    fs.writeFileSync(join(source, "theirs"), "theirs")
    fs.chownSync(join(source, "theirs"), 20_001, 20_002)
    fs.chmodSync(join(source, "theirs"), 0o4750)
    await backend.keep(keeping("a", source))
    const target = join(disk, "store/work")
    await backend.make(making("a", target))
    for (const at of [join(states, "prj_1.cmt_a/tree"), target]) {
      const { uid, gid, mode } = fs.lstatSync(join(at, "theirs"))
      expect([uid, gid, mode & 0o7777]).toEqual([20_001, 20_002, 0o4750])
    }
  })
}

it("W13 C17 C19 what an ordinary user may not read is left out by name, and what it may not keep is told; the import goes on", async (context) => {
  const { disk } = await groundOn(context, "xfs")
  const source = join(disk, "source")
  fs.mkdirSync(join(source, "shut"), { recursive: true })
  for (const name of ["open", "closed", "special", "shut/in"]) fs.writeFileSync(join(source, name), name)
  fs.chmodSync(join(source, "closed"), 0o600)
  fs.chmodSync(join(source, "special"), 0o4755)
  fs.chmodSync(join(source, "shut"), 0o700)
  const { code, stdout, stderr } = await runAsUser("../reflink/userImport.ts", [source, join(disk, "mine")])
  expect([code, stderr]).toEqual([0, ""])
  const { files, notes, listed } = JSON.parse(stdout)
  expect(files).toBe(2)
  expect(listed).toEqual([
    ["open", 0o644],
    ["special", 0o755]
  ])
  expect(notes).toEqual([
    ["normalised", "special"],
    ["skippedUnreadable", "closed"],
    ["skippedUnreadable", "shut"]
  ])
})

it("RL2 W3 what a command put into a subvolume of its own is kept, as a directory", async (context) => {
  const { disk, states, backend } = await groundOn(context, "btrfs")
  const source = join(disk, "source")
  fs.mkdirSync(source)
  fs.writeFileSync(join(source, "a"), "a")
  await backend.keep(keeping("a", source))
  const target = join(disk, "store/work")
  await backend.make(making("a", target))
  fs.mkdirSync(join(target, "d"))
  execFileSync("btrfs", ["subvolume", "create", join(target, "d/own")], { stdio: "ignore" })
  execFileSync("btrfs", ["subvolume", "create", join(target, "d/own/deeper")], { stdio: "ignore" })
  fs.writeFileSync(join(target, "d/own/deeper/x"), "x")
  fs.writeFileSync(join(target, "d/own/y"), "y")
  const before = lookOf(target)
  expect(await backend.keep(keeping("b", target, { isImport: false }))).toEqual({ method: "subvolume", copiedBytes: 0 })
  expect(lookOf(join(states, "prj_1.cmt_b/tree"))).toEqual(before)
  await backend.drop(state("b"))
  expect(await backend.kept()).toEqual([state("a")])
})

for (const [kind, options, methods] of [
  ["btrfs", "", "reflink subvolume subvolume subvolume"],
  ["btrfs", "user_subvol_rm_allowed", "reflink subvolume subvolume subvolume"],
  ["xfs", "", "reflink reflink reflink reflink"]
] as const) {
  it(`RL1 RL2 W12 an ordinary user keeps, makes and drops states, and what a mode of 000 hides comes along (${kind} ${options})`, async (context) => {
    const { disk } = await groundOn(context, kind, { options })
    const { code, stdout, stderr } = await runAsUser("../reflink/userProgram.ts", [disk])
    expect([code, stderr]).toEqual([0, ""])
    expect(stdout.trim()).toBe(methods)
    expect(fs.readdirSync(join(disk, "mine/store/reflink/states"))).toEqual([])
  })
}

for (const kind of ["btrfs", "xfs"] as const) {
  it(`RL2 L8 killed at any step, a state is whole or not there, and what was half made is removed (${kind})`, async (context) => {
    const { disk, states, backend } = await groundOn(context, kind)
    const keeper = await oneFile(fileURLToPath(new URL("./programs/keeper.ts", import.meta.url)))
    const directory = join(disk, "store/reflink")
    const run = (crashAt: string, ...args: readonly string[]) =>
      spawnSync(process.execPath, [keeper, directory, ...args], {
        encoding: "utf8",
        env: { ...process.env, COPPICE_CRASH_AT: crashAt }
      })
    const source = join(disk, "source")
    fs.mkdirSync(source)
    oddTree(source, "seed")
    const look = lookOf(source)
    for (const crashAt of ["reflink.keep.cloned", "reflink.keep.synced"]) {
      expect(run(crashAt, "keep", "cmt_a", source).signal).toBe("SIGKILL")
      expect(fs.readdirSync(states)).toHaveLength(1)
      expect(await backend.kept()).toEqual([])
      expect(fs.readdirSync(states)).toEqual([])
    }
    expect(run("reflink.keep.placed", "keep", "cmt_a", source).signal).toBe("SIGKILL")
    expect(await backend.kept()).toEqual([state("a")])
    expect(lookOf(join(states, "prj_1.cmt_a/tree"))).toEqual(look)
    const target = join(disk, "store/work")
    expect(run("reflink.make.made", "make", "cmt_a", target).signal).toBe("SIGKILL")
    expect(lookOf(target)).toEqual(look)
    expect(run("reflink.drop.renamed", "drop", "cmt_a").signal).toBe("SIGKILL")
    expect(fs.readdirSync(states)).toHaveLength(1)
    expect(await backend.kept()).toEqual([])
    expect(fs.readdirSync(states)).toEqual([])
    expect(lookOf(source)).toEqual(look)
  })
}

for (const kind of ["btrfs", "xfs"] as const) {
  it(`RL2 L8 a state that was answered is there after a power cut, and so are what it was made of and nothing half (${kind})`, async (context) => {
    const { disk, image, backend } = await groundOn(context, kind)
    // From elsewhere: what was copied lies in memory until it is flushed; a clone flushes what it clones.
    const source = fs.mkdtempSync("/var/tmp/coppice-source-")
    oddTree(source, "seed")
    const look = keptLook(lookOf(source))
    await backend.keep(keeping("a", source, { leaveOut: specials }))
    await backend.make(making("a", join(disk, "store/work")))
    fs.writeFileSync(join(disk, "store", "work", "small"), "changed")
    const changed = lookOf(join(disk, "store/work"))
    await backend.keep(keeping("b", join(disk, "store/work"), { isImport: false }))
    // Nothing comes behind this one that would flush it too.
    await backend.keep(keeping("c", source, { leaveOut: specials }))
    // What the inner file system holds in memory alone is not in its image.
    const saved = join(fs.mkdtempSync("/var/tmp/coppice-cut-"), "image")
    cleanups.push(() => fs.rmSync(dirname(saved), { recursive: true }))
    execFileSync("cp", ["--sparse=always", image, saved])
    for (const remove of cleanups.splice(0, 1)) remove()
    cleanups.push(() => fs.rmSync(source, { recursive: true }))
    const after = loopImage(kind, { from: saved })
    cleanups.push(after.remove)
    const directory = join(after.path, "store/reflink")
    const again = await reflinkBackend({ directory, durability: "full" })
    expect((await again.kept()).map(({ commit }) => commit).toSorted()).toEqual(["cmt_a", "cmt_b", "cmt_c"])
    expect(lookOf(join(directory, "states/prj_1.cmt_c/tree"))).toEqual(look)
    expect(lookOf(join(directory, "states/prj_1.cmt_a/tree"))).toEqual(look)
    expect(lookOf(join(directory, "states/prj_1.cmt_b/tree"))).toEqual(changed)
  })
}

it("W13 C11 C17 files that are replaced, appended to and removed while a tree is kept: each is one version, none is torn", async (context) => {
  const { disk, states, backend } = await groundOn(context, "xfs")
  const source = join(disk, "source")
  fs.mkdirSync(source)
  for (let n = 0; n < 400; n += 1) fs.writeFileSync(join(source, `f${n}`), "0".repeat(20_000))
  const writer = spawnWriter(source)
  cleanups.push(() => writer.kill("SIGKILL"))
  await new Promise((resolve) => writer.stdout!.once("data", resolve))
  for (const round of ["a", "b", "c", "d", "e"]) await backend.keep(keeping(round, source))
  const ended = new Promise((resolve) => writer.once("close", resolve))
  writer.kill("SIGKILL")
  await ended
  for (const { commit } of await backend.kept()) {
    const names = fs.readdirSync(join(states, `prj_1.${commit}/tree`))
    for (let n = 0; n < 400; n += 2) expect(names).toContain(`f${n}`)
    for (const name of names) {
      const text = fs.readFileSync(join(states, `prj_1.${commit}/tree`, name), "utf8")
      expect([name, new Set(text).size, text.length]).toEqual([name, 1, 20_000])
    }
  }
})

/** Takes the place of `d` by a link to `outside` and back, for ever; says when it has begun. */
const spawnRival = (at: string, outside: string) =>
  spawn(
    "python3",
    [
      "-c",
      `import os, sys
at, outside = sys.argv[1:]
print("begun", flush=True)
while True:
    os.rename(at + "/d", at + "/away")
    os.symlink(outside, at + "/d")
    for n in range(2000): pass
    os.unlink(at + "/d")
    os.rename(at + "/away", at + "/d")
    for n in range(20000): pass`,
      at,
      outside
    ],
    { stdio: ["ignore", "pipe", "inherit"] }
  )

it("W13 C17 C27 a directory that is swapped for a link again and again while a source is kept: nothing comes from where that leads", async (context) => {
  const { disk, states, backend } = await groundOn(context, "xfs")
  const [source, outside] = [join(disk, "source"), join(disk, "outside")]
  for (const [at, text] of [
    [join(source, "d/e"), "inside!"],
    [join(outside, "e"), "outside"]
  ] as const) {
    fs.mkdirSync(at, { recursive: true })
    for (let n = 0; n < 300; n += 1) {
      fs.writeFileSync(join(at, `f${n}`), text)
      fs.utimesSync(join(at, `f${n}`), 1, 1)
    }
  }
  const rival = spawnRival(source, outside)
  cleanups.push(() => rival.kill("SIGKILL"))
  await new Promise((resolve) => rival.stdout!.once("data", resolve))
  // One that finds no moment of rest is refused.
  for (const round of ["a", "b", "c", "d", "e", "f"])
    await backend.keep(keeping(round, source)).catch((error: unknown) => {
      expect(error).toMatchObject({ _tag: "FileSystemFailure", syscallCode: "EBUSY" })
    })
  const ended = new Promise((resolve) => rival.once("close", resolve))
  rival.kill("SIGKILL")
  await ended
  const { stdout } = spawnSync("grep", ["-rl", "outside", states], { encoding: "utf8" })
  expect(stdout).toBe("")
}, 60_000)

it("RL2 W15 on a full disk a state is not there and the call says why; with space it is kept", async (context) => {
  const { disk, states, backend } = await groundOn(context, "xfs")
  const source = fs.mkdtempSync("/var/tmp/coppice-source-")
  cleanups.push(() => fs.rmSync(source, { recursive: true }))
  fs.writeFileSync(join(source, "large"), Buffer.alloc(32 << 20, 1))
  const { bavail, bsize } = fs.statfsSync(disk)
  execFileSync("fallocate", ["-l", String(bavail * bsize - (8 << 20)), join(disk, "ballast")])
  await expect(backend.keep(keeping("a", source))).rejects.toMatchObject({
    _tag: "FileSystemFailure",
    syscallCode: "ENOSPC",
    remedy: expect.stringMatching(/Free space/)
  })
  expect(fs.readdirSync(states)).toEqual([])
  fs.rmSync(join(disk, "ballast"))
  expect(await backend.keep(keeping("a", source))).toEqual({ method: "copy", copiedBytes: 32 << 20 })
})

for (const kind of ["btrfs", "xfs"] as const) {
  it(`RL2 L11 what states share is counted once, and what differs beside it (${kind})`, async (context) => {
    const { disk, backend } = await groundOn(context, kind)
    expect(await backend.storedBytes()).toBe(0)
    const source = join(disk, "source")
    fs.mkdirSync(source)
    fs.writeFileSync(join(source, "large"), Buffer.alloc(4 << 20, 1))
    for (const commit of ["a", "b", "c"]) await backend.keep(keeping(commit, source))
    expect(await backend.storedBytes()).toBe(4 << 20)
    const file = fs.openSync(join(source, "large"), "r+")
    fs.writeSync(file, Buffer.alloc(8192, 2), 0, 8192, 1 << 20)
    fs.fsyncSync(file)
    fs.closeSync(file)
    await backend.keep(keeping("d", source))
    expect(await backend.storedBytes()).toBe((4 << 20) + 8192)
    for (const commit of ["a", "b", "c"]) await backend.drop(state(commit))
    expect(await backend.storedBytes()).toBe(4 << 20)
  })
}

it("L10 W21 RL2 contents come in pieces and in order; a link, a missing file and a missing state are damage, and nothing outside is read", async (context) => {
  const { disk, states, backend } = await groundOn(context, "btrfs")
  const source = join(disk, "source")
  fs.mkdirSync(join(source, "d"), { recursive: true })
  fs.writeFileSync(join(source, "d/large"), Buffer.alloc((2 << 20) + 5, "l"))
  fs.writeFileSync(join(source, "none"), "")
  fs.writeFileSync(join(disk, "secret"), "secret")
  fs.symlinkSync(join(disk, "secret"), join(source, "link"))
  fs.symlinkSync("d", join(source, "way"))
  await backend.keep(keeping("a", source))
  const pieces = async (...paths: readonly string[]) => {
    const found: [string, number, boolean][] = []
    for await (const { path, bytes, last } of backend.contents(state("a"), paths))
      found.push([path, bytes.length, last])
    return found
  }
  expect(await pieces("none", "d/large")).toEqual([
    ["none", 0, true],
    ["d/large", 1 << 20, false],
    ["d/large", 1 << 20, false],
    ["d/large", 5, true]
  ])
  for (const path of ["link", "way/large", "gone", "d"]) {
    await expect(pieces(path), path).rejects.toMatchObject({ _tag: "ObjectDamaged", object: "cmt_a" })
  }
  fs.rmSync(join(states, "prj_1.cmt_a"), { recursive: true })
  await expect(pieces("none")).rejects.toMatchObject({ _tag: "ObjectDamaged" })
  await expect(backend.make(making("a", join(disk, "store/work")))).rejects.toMatchObject({ _tag: "ObjectDamaged" })
  expect(fs.existsSync(join(disk, "store/work"))).toBe(false)
})

it("RL2 W9 an aborted call leaves no state, and no program behind", async (context) => {
  const { disk, states, backend } = await groundOn(context, "xfs")
  const source = join(disk, "source")
  fs.mkdirSync(source)
  for (let n = 0; n < 3000; n += 1) fs.writeFileSync(join(source, `f${n}`), "f")
  const stop = new AbortController()
  const onProgress = () => stop.abort(new Error("enough"))
  await expect(backend.keep(keeping("a", source, { signal: stop.signal, onProgress }))).rejects.toThrow("enough")
  expect(fs.readdirSync(states)).toEqual([])
  expect(await backend.keep(keeping("a", source))).toEqual({ method: "reflink", copiedBytes: 0 })
  await expect(backend.keep(keeping("a", source))).rejects.toMatchObject({ code: "EEXIST" })
  expect(await backend.kept()).toEqual([state("a")])
})
