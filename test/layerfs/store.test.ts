/** The store as a whole: import, fork, commit, read, write back. Rules: W3, W7, W8, W13, L1, L2, L14, L15. */
import { chmodSync, linkSync, lutimesSync, mkdirSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs"
import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { latin, put, logOf } from "./storeChange.ts"
import { comparable, commitInto, importInto, open, readTree, scratch } from "./storeFixture.ts"

const bytes = (root: string, name: Buffer): Buffer => Buffer.concat([Buffer.from(`${root}/`), name])

/** A tree with one of everything that an import keeps. */
const richTree = (root: string): void => {
  mkdirSync(join(root, "dir/empty"), { recursive: true })
  mkdirSync(join(root, "node_modules/pkg"), { recursive: true })
  writeFileSync(join(root, "a.txt"), "alpha\n")
  writeFileSync(join(root, "dir/tool.sh"), "#!/bin/sh\n", { mode: 0o755 })
  chmodSync(join(root, "dir/tool.sh"), 0o4755)
  writeFileSync(join(root, "node_modules/pkg/index.js"), "module.exports = 1\n")
  writeFileSync(join(root, "large.bin"), Buffer.alloc(9 * 1024 * 1024 + 17, "0123456789"))
  linkSync(join(root, "a.txt"), join(root, "dir/same-as-a.txt"))
  symlinkSync("../a.txt", join(root, "dir/link"))
  symlinkSync("/nowhere/at/all", join(root, "dir/absolute"))
  writeFileSync(bytes(root, Buffer.from([0x66, 0xfe, 0xff])), "byte name")
  writeFileSync(join(root, "line\nbreak"), "x")
  writeFileSync(join(root, "n".repeat(255)), "long")
  writeFileSync(join(root, "caf\u00e9"), "composed")
  writeFileSync(join(root, "cafe\u0301"), "decomposed")
  symlinkSync(Buffer.from([0xfe, 0x2f, 0xff]), join(root, "byte-target"))
  execFileSync("touch", ["-d", "@1700000000.123456789", join(root, "a.txt"), join(root, "dir/tool.sh")])
  execFileSync("touch", ["-h", "-d", "@1600000000.987654321", join(root, "dir/link")])
  execFileSync("touch", ["-d", "@1500000000.000000001", join(root, "dir/empty")])
  chmodSync(join(root, "dir/empty"), 0o750)
}

describe("import and write back", () => {
  it("W3 L15 C18 a tree comes back with the same bytes, names, modes, links and nanoseconds", async () => {
    const source = scratch()
    richTree(source)
    const before = comparable(readTree(source))
    const work = scratch()
    const store = await open(join(work, "s"))
    const receipt = await importInto(store, source)
    const target = join(work, "out")
    await store.call("materialise", { commit: receipt.commit, target })
    const after = readTree(target)
    expect(comparable(after)).toEqual(before)
    expect(after.get("a.txt")!.inode).toBe(after.get("dir/same-as-a.txt")!.inode)
    expect(after.get("a.txt")!.links).toBe(2n)
    expect(receipt).toMatchObject({ files: 10, symlinks: 3, directories: 4, hardLinkGroups: 1 })
    expect(comparable(readTree(source))).toEqual(before)
  })

  it("L14 equal trees have equal roots, whatever route built them", async () => {
    const source = scratch()
    mkdirSync(join(source, "d"))
    writeFileSync(join(source, "d/one"), "1")
    writeFileSync(join(source, "two"), "2")
    utimesSync(join(source, "two"), 1, 1)
    const store = await open(join(scratch(), "s"))
    const imported = await importInto(store, source)
    const empty = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = await store.call("fork", { from: empty.layer, name: "b" })
    const dirMode = readTree(source).get("d")!.mode
    await commitInto(store, branch.id, [put("two", "2"), put("junk", "j")])
    await commitInto(store, branch.id, [
      { op: "remove", path: "junk" },
      { op: "putDirectory", path: "d", mode: dirMode, mtimeNs: 5n, replace: false },
      put("d/one", "1")
    ])
    const head = await store.call("resolve", { ref: branch.id })
    expect(head.root).toBe(imported.root)
  })

  it("W7 C16 a fork, and a fork of a fork, never see what the parent does later", async () => {
    const source = scratch()
    writeFileSync(join(source, "f"), "base")
    lutimesSync(join(source, "f"), 3, 3)
    const store = await open(join(scratch(), "s"))
    const receipt = await importInto(store, source)
    const parent = await store.call("fork", { from: receipt.layer, name: "parent" })
    const child = await store.call("fork", { from: parent.id, name: "child" })
    const grandchild = await store.call("fork", { from: child.id, name: "grandchild" })
    await commitInto(store, parent.id, [put("f", "changed")])
    await commitInto(store, child.id, [put("g", "new")])
    writeFileSync(join(source, "f"), "origin moved on")
    const read = async (ref: string, path: string) => {
      const entry = await store.call("entry", { ref, path })
      return entry === null
        ? null
        : Buffer.from(await store.call("content", { id: entry.id!, size: entry.size })).toString()
    }
    expect(await read(parent.id, "f")).toBe("changed")
    expect(await read(child.id, "f")).toBe("base")
    expect(await read(grandchild.id, "f")).toBe("base")
    expect(await read(child.id, "g")).toBe("new")
    expect(await read(grandchild.id, "g")).toBe(null)
  })

  it("W8 changes that change nothing make no commit, and a times-only one only when asked", async () => {
    const source = scratch()
    writeFileSync(join(source, "f"), "base", { mode: 0o644 })
    chmodSync(join(source, "f"), 0o644)
    const store = await open(join(scratch(), "s"))
    const branch = await store.call("fork", { from: (await importInto(store, source)).layer, name: "b" })
    expect(await commitInto(store, branch.id, [])).toMatchObject({ outcome: "unchanged", commit: branch.head })
    expect(await commitInto(store, branch.id, [put("f", "base")])).toMatchObject({ outcome: "unchanged" })
    expect(await commitInto(store, branch.id, [put("g", "x"), { op: "remove", path: "g" }])).toMatchObject({
      outcome: "unchanged"
    })
    expect(await commitInto(store, branch.id, [put("f", "base")], true)).toMatchObject({
      outcome: "committed",
      changedPaths: 0
    })
    const kept = await store.call("entry", { ref: branch.id, path: "f" })
    expect(kept!.mtimeNs).toBe(1_700_000_000_123_456_789n)
    expect(await commitInto(store, branch.id, [put("f", "base", 0o600)])).toMatchObject({
      outcome: "committed",
      changedPaths: 1
    })
  })

  it("W10 a moved head is refused with nothing written, and a repeated operation answers its first commit", async () => {
    const store = await open(join(scratch(), "s"))
    const empty = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = await store.call("fork", { from: empty.layer, name: "b" })
    const call = (operationId: string, text: string) =>
      store.call("commitChanges", {
        branch: branch.id,
        expectedHead: branch.head,
        changes: [put("f", text)],
        message: "",
        operationId,
        actor: { agent: "agt_1" },
        at: 7
      })
    const first = await call("op_1", "one")
    expect(await call("op_1", "one")).toEqual(first)
    await expect(call("op_2", "two")).rejects.toMatchObject({ _tag: "HeadMoved", expected: branch.head })
    expect(await store.call("findOperation", { operationId: "op_2" })).toBe(null)
    const twice = { source: latin(scratch()), name: "t", operationId: "op_twice", at: 1 }
    const [one, other] = await Promise.all([store.call("importDirectory", twice), store.call("importDirectory", twice)])
    expect(other).toEqual(one)
    const log = await logOf(store, branch.id)
    expect(log.map((commit) => commit.operationId)).toEqual(["op_1", "op_e"])
    expect(log[0]).toMatchObject({ actor: { agent: "agt_1" }, at: 7 })
  })

  it("C5 a same-size write with the same mtime right after a commit is seen by the next one", async () => {
    const upper = scratch()
    const file = join(upper, "f")
    const store = await open(join(scratch(), "s"))
    const empty = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = await store.call("fork", { from: empty.layer, name: "b" })
    const take = (): TreeChange => ({ op: "putFile", path: "f", mode: 0o644, mtimeNs: 7n, content: { file } })
    writeFileSync(file, "first")
    expect(await commitInto(store, branch.id, [take()])).toMatchObject({ outcome: "committed" })
    writeFileSync(file, "other")
    expect(await commitInto(store, branch.id, [take()])).toMatchObject({ outcome: "committed", changedPaths: 1 })
    const entry = await store.call("entry", { ref: branch.id, path: "f" })
    expect(Buffer.from(await store.call("content", { id: entry!.id!, size: 5 })).toString()).toBe("other")
  })

  it("W21 a file that became a link is not followed into the commit", async () => {
    const upper = scratch()
    symlinkSync("/etc/hostname", join(upper, "f"))
    const store = await open(join(scratch(), "s"))
    const empty = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = await store.call("fork", { from: empty.layer, name: "b" })
    const change: TreeChange = {
      op: "putFile",
      path: "f",
      mode: 0o644,
      mtimeNs: 7n,
      content: { file: join(upper, "f") }
    }
    await expect(commitInto(store, branch.id, [change])).rejects.toMatchObject({
      _tag: "FileSystemFailure",
      syscallCode: "ELOOP"
    })
    expect(await store.call("branch", { id: branch.id })).toEqual(branch)
  })

  it("L1 a fork copies no file: nothing is added to the packs, and the index grows by at most 1 KiB a fork over 1,000", async () => {
    const source = scratch()
    mkdirSync(join(source, "d"))
    for (let i = 0; i < 200; i += 1) writeFileSync(join(source, `d/${i}`), `${i}`)
    const store = await open(join(scratch(), "s"))
    const { layer } = await importInto(store, source)
    const before = await store.call("stats", {})
    const size = (): number => {
      const db = Database.open(store.directories.index)
      db.raw.exec("PRAGMA wal_checkpoint(TRUNCATE)")
      db.close()
      return statSync(store.directories.index).size
    }
    const indexBefore = size()
    let from = layer
    let fifth = from
    for (let n = 0; n < 1000; n += 1) {
      if (n === 5) fifth = from
      const branch = await store.call("fork", { from, name: `fork ${n}`, operationId: `op_${n}` })
      // Forks of layers, of branches and of commits, deep and wide.
      if (n % 3 === 0) from = branch.id
      if (n % 3 === 1) from = branch.head
    }
    const after = await store.call("stats", {})
    expect({ ...after, branches: 0, indexBytes: 0 }).toEqual({ ...before, branches: 0, indexBytes: 0 })
    expect(after.branches).toBe(before.branches + 1000)
    expect((size() - indexBefore) / 1000).toBeLessThanOrEqual(1024)
    const again = await store.call("fork", { from: fifth, name: "again", operationId: "op_5" })
    expect(again.name).toBe("fork 5")
  })
})
