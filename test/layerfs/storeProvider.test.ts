/** The store through the provider: reading at a ref, direct calls, diff, refusals. Rules: W1, W3, W4, W12, W13, W21, L2, L3; C4. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { FileOperation } from "../../src/workspace/WorkspaceProvider.ts"
import { scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

const seeded = async () => {
  const source = scratch()
  mkdirSync(join(source, "src"))
  writeFileSync(join(source, "src/a.ts"), "one two one\n")
  writeFileSync(join(source, "b"), "b")
  symlinkSync("src/a.ts", join(source, "link"))
  const fs = await provider(join(scratch(), "s"))
  const receipt = await run(fs.importDirectory({ source }))
  const branch = await run(fs.fork(receipt.layer, { name: "work" }))
  return { fs, receipt, branch, source }
}

describe("the manifest", () => {
  it("W1 W3 names every capability, and what it lacks is a typed answer that says what to do instead", async () => {
    const { fs, branch } = await seeded()
    expect(await run(fs.manifest)).toEqual({
      provider: "layerfs",
      version: "1",
      keepsIgnoredFiles: true,
      copyFreeFork: true,
      visiblePath: true,
      unprivileged: true,
      mountAtChosenPath: true,
      symlinks: true,
      hardLinks: "splitOnWrite",
      stableInodes: false,
      modes: true,
      nanosecondMtimes: true,
      xattrs: false,
      sparseFiles: true,
      nonUtf8Names: true,
      renameDirectory: "copyOnly",
      merge: false,
      conflictReport: false,
      history: true,
      blame: true,
      collect: false,
      quota: true,
      durability: "full",
      checksOpened: true,
      crossMachine: false
    })
    const before = await run(fs.stats)
    const lacking = {
      importGit: fs.importGit({ repository: "/r" }),
      merge: fs.merge(branch.id, branch.id),
      retire: fs.retire(branch.id),
      collect: fs.collect
    }
    for (const [capability, call] of Object.entries(lacking)) {
      const answer = await failure(call)
      expect(answer).toMatchObject({ _tag: "Unsupported", code: "UNSUPPORTED", capability })
      expect(answer.remedy).toMatch(/^[A-Z].*\.$/)
    }
    expect(await run(fs.stats)).toEqual(before)
  })
})

describe("reading at a ref", () => {
  it("W3 L3 read, list and stat work at a layer, a commit and a branch without a mount", async () => {
    const { fs, receipt, branch } = await seeded()
    for (const ref of [receipt.layer, receipt.commit, branch.id]) {
      expect(text(await run(fs.readAt(ref, "src/a.ts")))).toBe("one two one\n")
      expect((await run(fs.listAt(ref, ""))).map((entry) => [entry.path, entry.type])).toEqual([
        ["b", "file"],
        ["link", "symlink"],
        ["src", "directory"]
      ])
      expect(await run(fs.statAt(ref, "link"))).toMatchObject({ type: "symlink", target: { path: "src/a.ts" } })
    }
    expect(await failure(fs.readAt("cmt_none", "b"))).toMatchObject({ _tag: "RefNotFound", ref: "cmt_none" })
    expect(await failure(fs.readAt(branch.id, "src"))).toMatchObject({ _tag: "PathError", reason: "notAFile" })
    expect(await failure(fs.readAt(branch.id, "none"))).toMatchObject({ _tag: "PathError", reason: "notFound" })
    expect(await failure(fs.listAt(branch.id, "b"))).toMatchObject({ _tag: "PathError", reason: "notADirectory" })
  })

  it("C4 chains of 1 and 40 links are followed, 41 and circles are a loop, and every link stays a link", async () => {
    const source = scratch()
    writeFileSync(join(source, "end"), "reached")
    for (let i = 1; i <= 41; i += 1) symlinkSync(i === 1 ? "end" : `l${i - 1}`, join(source, `l${i}`))
    symlinkSync("circle", join(source, "circle"))
    symlinkSync("missing", join(source, "dangling"))
    symlinkSync(join(source, "end"), join(source, "own-absolute"))
    symlinkSync("/etc/hostname", join(source, "absolute"))
    symlinkSync("../../../../etc/hostname", join(source, "climbing"))
    const fs = await provider(join(scratch(), "s"))
    const { commit } = await run(fs.importDirectory({ source }))
    expect(text(await run(fs.readAt(commit, "l1")))).toBe("reached")
    expect(text(await run(fs.readAt(commit, "l40")))).toBe("reached")
    expect(text(await run(fs.readAt(commit, "own-absolute")))).toBe("reached")
    expect(await failure(fs.readAt(commit, "l41"))).toMatchObject({ reason: "loop" })
    expect(await failure(fs.readAt(commit, "circle"))).toMatchObject({ reason: "loop" })
    expect(await failure(fs.readAt(commit, "dangling"))).toMatchObject({ reason: "notFound" })
    expect(await failure(fs.readAt(commit, "absolute"))).toMatchObject({ _tag: "OutsideWorkspace" })
    expect(await failure(fs.readAt(commit, "climbing"))).toMatchObject({ _tag: "OutsideWorkspace" })
    expect(await failure(fs.readAt(commit, "../x"))).toMatchObject({ _tag: "OutsideWorkspace" })
    expect(await failure(fs.readAt(commit, "/etc/hostname"))).toMatchObject({ _tag: "OutsideWorkspace" })
    for (const name of ["l1", "l41", "circle", "dangling", "absolute", "climbing"]) {
      expect(await run(fs.statAt(commit, name))).toMatchObject({ type: "symlink" })
    }
  })
})

describe("direct calls on a branch", () => {
  it("W4 L2 each call is one commit, and a batch is all or nothing with the failing operation named", async () => {
    const { fs, branch } = await seeded()
    const done = await run(
      fs.applyTo(branch.id, [
        { op: "write", path: "new/deep/file", bytes: "x" },
        { op: "edit", path: "src/a.ts", find: "two", replace: "2" },
        { op: "move", from: "b", to: "c" },
        { op: "copy", from: "src", to: "copy" },
        { op: "symlink", path: "l", target: "c" },
        { op: "chmod", path: "c", mode: 0o600 },
        { op: "mkdir", path: "empty" }
      ])
    )
    expect(done).toMatchObject({ outcome: "committed" })
    const { changes } = await run(fs.diff(branch.base, branch.id))
    expect(changes.map((change) => [change.path, change.kind])).toEqual([
      ["b", "removed"],
      ["c", "added"],
      ["copy", "added"],
      ["copy/a.ts", "added"],
      ["empty", "added"],
      ["l", "added"],
      ["new", "added"],
      ["new/deep", "added"],
      ["new/deep/file", "added"],
      ["src/a.ts", "modified"]
    ])
    expect(await run(fs.statAt(branch.id, "c"))).toMatchObject({ mode: 0o600, size: 1 })
    const { head } = await run(fs.branch(branch.id))
    const refused = await failure(
      fs.applyTo(branch.id, [
        { op: "write", path: "z", bytes: "z" },
        { op: "edit", path: "copy/a.ts", find: "one", replace: "1" }
      ])
    )
    expect(refused).toMatchObject({ _tag: "EditRefused", matches: 2, index: 1 })
    expect((await run(fs.branch(branch.id))).head).toBe(head)
  })

  it("W4 W21 a path that ends like a directory's names nothing else, and a mode that is none is refused, with no commit", async () => {
    const { fs, branch, receipt } = await seeded()
    for (const path of ["b/", "b/.", "src/../b/"]) {
      expect(await failure(fs.readAt(branch.id, path)), path).toMatchObject({ reason: "notADirectory" })
      expect(await failure(fs.applyTo(branch.id, [{ op: "remove", path }])), path).toMatchObject({
        reason: "notADirectory"
      })
    }
    expect((await run(fs.listAt(branch.id, "src/"))).map(({ path }) => path)).toEqual(["src/a.ts"])
    const refused = async (operation: FileOperation) => failure(fs.applyTo(branch.id, [operation]))
    expect(await refused({ op: "write", path: "new/", bytes: "x" })).toMatchObject({ reason: "notAFile" })
    expect(await refused({ op: "copy", from: "b", to: "new/" })).toMatchObject({ reason: "notADirectory" })
    for (const mode of [0o10000, -1, 1.5, Number.NaN]) {
      const answer = { _tag: "PathError", reason: "invalidMode" }
      expect(await refused({ op: "write", path: "b", bytes: "x", mode })).toMatchObject(answer)
      expect(await refused({ op: "mkdir", path: "made", mode })).toMatchObject(answer)
      expect(await refused({ op: "chmod", path: "b", mode })).toMatchObject(answer)
    }
    // Longer than any process could name it from the root.
    const long = Array.from({ length: 17 }, () => "n".repeat(255)).join("/")
    expect(await refused({ op: "write", path: long, bytes: "x" })).toMatchObject({ reason: "invalid" })
    expect((await run(fs.branch(branch.id))).head).toBe(receipt.commit)
  })

  it("W21 a write through a link that leads out names nothing outside and changes nothing", async () => {
    const { fs, branch } = await seeded()
    await run(
      fs.applyTo(branch.id, [
        { op: "symlink", path: "out", target: "/tmp" },
        { op: "symlink", path: "up", target: "../.." }
      ])
    )
    for (const path of ["out/x", "up/x", "../x", "/tmp/x"]) {
      expect(await failure(fs.applyTo(branch.id, [{ op: "write", path, bytes: "x" }]))).toMatchObject({
        _tag: "OutsideWorkspace"
      })
    }
    expect(await run(fs.applyTo(branch.id, [{ op: "remove", path: "out" }]))).toMatchObject({ changedPaths: 1 })
  })
})
