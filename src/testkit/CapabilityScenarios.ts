/**
 * What the suite asks of the files that a manifest declares to be kept: links, modes, times, holes, names, inodes (W1).
 * Promise: see WorkspaceConformance.ts. Rules: W1, W13, W22, L15; C4, C9, C14, C18, C19.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { lstatSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { comparedBy, differences, lookAt } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { declares, tool } from "./WorkspaceNeeds.ts"
import { committed, inside, lookAtRef, lookInside, nodeInside, noteDigest, textAt } from "./WorkspaceScene.ts"

const setAttribute = (path: string): void => {
  const program = "import os, sys; os.setxattr(sys.argv[1], 'user.coppice', b'kept')"
  execFileSync("python3", ["-c", program, path])
}

const oneInode = `
const fs = require("node:fs")
const file = fs.openSync("base", "r"), before = fs.fstatSync(file).ino
fs.linkSync("base", "second")
fs.appendFileSync("base", " and more")
if (fs.readFileSync("second", "utf8") !== "of the base and more") throw new Error("the second name is another file")
console.log(fs.statSync("base").ino === before && fs.statSync("second").ino === before)
`

const moving: Readonly<Record<"mv" | "call" | "rename", string>> = {
  mv: "base-mv",
  call: "base-call",
  rename: "base-rename"
}

const directoriesOf = (names: readonly string[]) =>
  Object.fromEntries(names.flatMap((name) => [`${name}/sub/file`, `${name}/second`].map((path) => [path, path])))

export const capabilityScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["W1", "C4"],
    name: "symbolic links stay links, with their own targets",
    needs: [declares("symlinks", true)],
    body: async (scene) => {
      const links = { l: { link: "f" }, gone: { link: "no/where" }, abs: { link: "/etc/hostname" }, dir: { link: "d" } }
      const { branch, source } = await scene.branchOn({ f: "f", "d/g": "g", ...links })
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "ln -s ../f d/up && ln -sfn d/g l && rm gone")
        await committed(scene, workspace)
      })
      execFileSync("sh", ["-c", "ln -s ../f d/up && ln -sfn d/g l && rm gone"], { cwd: source })
      const by = { ...comparedBy(scene.manifest), times: false }
      assert.deepEqual(differences(lookAt(source), await lookAtRef(scene, branch), by), [])
    }
  },
  {
    rules: ["W1", "W22", "L15"],
    name: "a group of hard links is one file: a write through one name shows in all, here and in the commit",
    needs: [declares("hardLinks", "preserved")],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ first: "one", second: { hard: "first" }, "d/third": { hard: "first" } })
      await scene.using(branch, async (workspace) => {
        assert.equal(await inside(scene, workspace, "echo two > d/third && cat first second"), "two\ntwo\n")
        await committed(scene, workspace)
      })
      const tree = await lookAtRef(scene, branch)
      for (const path of ["first", "second", "d/third"]) assert.equal(tree.get(path)?.linkGroup, "d/third", path)
    }
  },
  {
    rules: ["W1", "W22", "L15"],
    name: "a group of hard links is imported as one; where a write splits it, the checkpoint names the group",
    needs: [declares("hardLinks", "splitOnWrite")],
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({
        first: "one",
        second: { hard: "first" },
        "d/third": { hard: "first" }
      })
      assert.equal((await lookAtRef(scene, head)).get("second")?.linkGroup, "d/third")
      const split = await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "echo two > d/third")
        return (await committed(scene, workspace)).linkSplit
      })
      assert.equal(await textAt(scene, branch, "d/third"), "two\n")
      if ((await textAt(scene, branch, "first")) === "two\n") return assert.deepEqual(split, [])
      assert.ok(split.length > 0, "it was split, and the checkpoint does not say so")
    }
  },
  {
    rules: ["W1", "W13", "L15"],
    name: "hard links that it does not keep are declared by the import",
    needs: [declares("hardLinks", "none")],
    once: true,
    body: async (scene) => {
      const { receipt, head } = await scene.branchOn({ first: "one", second: { hard: "first" } })
      assert.ok((receipt.noteCounts.normalised ?? 0) > 0, "no note says that they were normalised")
      assert.deepEqual([await textAt(scene, head, "first"), await textAt(scene, head, "second")], ["one", "one"])
    }
  },
  {
    rules: ["W1", "C9"],
    name: "a base file keeps its inode through its first write and a second name",
    needs: [declares("stableInodes", true)],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ base: "of the base" })
      await scene.using(branch, async (workspace) => {
        assert.equal(await nodeInside(scene, workspace, oneInode), "true\n")
        await committed(scene, workspace)
      })
    }
  },
  {
    rules: ["W1", "C9"],
    name: "where inodes are not stable, a file that is open, linked and written is still found by both names",
    needs: [declares("stableInodes", false)],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ base: "of the base" })
      await scene.using(branch, async (workspace) => {
        await nodeInside(scene, workspace, oneInode)
        await committed(scene, workspace)
      })
      assert.equal(await textAt(scene, branch, "second"), "of the base and more")
    }
  },
  {
    rules: ["W1", "L15", "C19"],
    name: "permission bits are kept, setuid and sticky ones too, and a change of bits alone is a change",
    needs: [declares("modes", true)],
    body: async (scene) => {
      const { branch, source } = await scene.branchOn({
        a: { bytes: "a", mode: 0o640 },
        s: { bytes: "s", mode: 0o4711 },
        d: { directory: 0o1777 },
        "e/f": "f"
      })
      const change = "chmod 711 a && chmod 2750 e && chmod 400 e/f"
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, change)
        await committed(scene, workspace)
      })
      execFileSync("sh", ["-c", change], { cwd: source })
      assert.deepEqual(differences(lookAt(source), await lookAtRef(scene, branch), comparedBy(scene.manifest)), [])
      await noteDigest(scene, branch)
      assert.equal((await scene.run(scene.provider.statAt(branch, "s"))).mode, 0o4711)
    }
  },
  {
    rules: ["W1", "L15"],
    name: "times are kept to the nanosecond: of the import inside, and of what is made inside in the commit",
    needs: [declares("nanosecondMtimes", true)],
    body: async (scene) => {
      const { branch, source } = await scene.branchOn({ f: "f", "d/g": "g" })
      const before = lookAt(source)
      const [seen, made] = await scene.using(branch, async (workspace) => {
        const first = await lookInside(scene, workspace)
        await inside(scene, workspace, "echo new > d/new && touch -d '2001-02-03 04:05:06.123456789Z' d/new")
        await committed(scene, workspace)
        return [first, await lookInside(scene, workspace)]
      })
      for (const path of ["f", "d/g"]) assert.equal(seen.get(path)?.mtimeNs, before.get(path)!.mtimeNs, path)
      assert.equal(made.get("d/new")?.mtimeNs, "981173106123456789")
      const { id } = await scene.run(scene.provider.fork(branch))
      const again = await scene.using(id, (workspace) => lookInside(scene, workspace))
      for (const path of ["f", "d/g", "d/new"]) assert.equal(again.get(path)?.mtimeNs, made.get(path)!.mtimeNs, path)
    }
  },
  {
    rules: ["W1", "C19"],
    name: "extended attributes are kept",
    needs: [declares("xattrs", true), tool("python3", "--version")],
    body: async (scene) => {
      const source = scene.directory("source")
      writeFileSync(join(source, "f"), "f")
      setAttribute(join(source, "f"))
      const { branch } = await scene.branchOn(source)
      const program = "import os; print(os.getxattr('f', 'user.coppice').decode())"
      const seen = await scene.using(branch, (workspace) => inside(scene, workspace, ["python3", "-c", program]))
      assert.equal(seen, "kept\n")
    }
  },
  {
    rules: ["W1", "C19"],
    name: "a file with extended attributes, which the manifest says are not kept, comes with all of its bytes",
    needs: [declares("xattrs", false), tool("python3", "--version")],
    once: true,
    body: async (scene) => {
      const source = scene.directory("source")
      for (const name of ["f", "plain"]) writeFileSync(join(source, name), name)
      setAttribute(join(source, "f"))
      const { head } = await scene.branchOn(source)
      assert.deepEqual([await textAt(scene, head, "f"), await textAt(scene, head, "plain")], ["f", "plain"])
    }
  },
  {
    rules: ["W1", "L15", "C19"],
    name: "a file of holes stays one, inside and in an export, and its bytes are right",
    needs: [declares("sparseFiles", true)],
    body: async (scene) => {
      const size = 2 ** 28
      const source = scene.directory("source")
      writeFileSync(join(source, "all hole"), "")
      truncateSync(join(source, "all hole"), size)
      writeFileSync(join(source, "ends"), "begin")
      truncateSync(join(source, "ends"), 2 ** 24)
      const { branch } = await scene.branchOn(source)
      await scene.using(branch, async (workspace) => {
        const blocks = await inside(scene, workspace, "stat -c '%s %b' 'all hole' ends && head -c 5 ends")
        const [whole, none, some, few, begin] = blocks.split(/[ \n]/)
        assert.deepEqual([Number(whole), Number(some), begin], [size, 2 ** 24, "begin"])
        assert.ok(Number(none) * 512 <= 2 ** 16, `${none} blocks for a file of nothing but a hole`)
        assert.ok(Number(few) * 512 <= 2 ** 20, `${few} blocks for a few bytes and a hole`)
        await inside(scene, workspace, "printf Z | dd of='all hole' bs=1 seek=123456789 conv=notrunc status=none")
        await committed(scene, workspace)
      })
      const target = scene.directory("export")
      await scene.run(scene.provider.exportDirectory(branch, target))
      const { size: exported, blocks } = lstatSync(join(target, "all hole"))
      assert.equal(exported, size)
      assert.ok(blocks * 512 <= 2 ** 26, `${blocks} blocks in the export`)
      const range = { offset: 123456788, length: 3 }
      assert.deepEqual(
        Buffer.from(await scene.run(scene.provider.readAt(branch, "all hole", range))),
        Buffer.from("\0Z\0")
      )
    }
  },
  {
    rules: ["W1", "C18"],
    name: "names are bytes: 255 of them, line feeds, no UTF-8, and two forms of one letter stay distinct, link targets likewise",
    needs: [declares("nonUtf8Names", true)],
    body: async (scene) => {
      const { branch, source } = await scene.branchOn({
        [`d/${"x".repeat(255)}`]: "long",
        "d/a\nb": "feed",
        "d/\xfe\xff": "bytes",
        "d/\xc3\xa9": "composed",
        "d/e\xcc\x81": "decomposed",
        "d/link": { link: "\xfe\xff" }
      })
      const change = `
        const fs = require("node:fs"), raw = (text) => Buffer.from(text, "latin1")
        fs.renameSync(raw("d/\\xfe\\xff"), raw("d/\\xff\\xfe"))
        fs.writeFileSync(raw("d/\\xc3\\xa9"), "changed")
        fs.symlinkSync(raw("\\xff\\xfe\\n"), raw("d/\\x80"))`
      await scene.using(branch, async (workspace) => {
        await nodeInside(scene, workspace, change)
        await committed(scene, workspace)
      })
      execFileSync(process.execPath, ["-e", change], { cwd: source })
      const by = { ...comparedBy(scene.manifest), times: false }
      assert.deepEqual(differences(lookAt(source), await lookAtRef(scene, branch), by), [])
      await noteDigest(scene, branch)
      const bytes = Buffer.from("d/\xff\xfe", "latin1")
      assert.equal(Buffer.from(await scene.run(scene.provider.readAt(branch, bytes))).toString(), "bytes")
      const listed = await scene.run(scene.provider.listAt(branch, "d"))
      assert.ok(listed.some(({ pathBytes }) => pathBytes === bytes.toString("base64")))
    }
  },
  {
    rules: ["W1", "C14"],
    name: "a directory of the base is moved by mv, by the call, and by rename(2) or as the manifest says of it",
    body: async (scene) => {
      const { branch } = await scene.branchOn(directoriesOf(Object.values(moving)))
      const renamed = `
        try { require("node:fs").renameSync("${moving.rename}", "to/rename"); console.log("done") }
        catch (error) { console.log(error.code) }`
      const answer = await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, `mkdir to && mv ${moving.mv} to/mv`)
        await scene.run(workspace.move(moving.call, "to/call"))
        const said = (await nodeInside(scene, workspace, renamed)).trim()
        await committed(scene, workspace)
        return said
      })
      if (scene.manifest.renameDirectory === "works") assert.equal(answer, "done")
      else assert.ok(["done", "EXDEV"].includes(answer), `rename(2) answered ${answer}`)
      const tree = await lookAtRef(scene, branch)
      for (const [how, name] of Object.entries(moving)) {
        const gone = how !== "rename" || answer === "done"
        assert.equal(tree.has(name), !gone, name)
        assert.equal(tree.has(`to/${how}/sub/file`), gone, `to/${how}`)
      }
    }
  }
]
