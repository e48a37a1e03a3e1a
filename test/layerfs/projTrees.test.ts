/** What happens to files in a workspace and what a checkpoint makes of it, by overlay and by copy. */
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import {
  committed,
  failure,
  type Files,
  forkOf,
  groundIn,
  run,
  sharedGround,
  shell,
  treeAt,
  using
} from "./projFixture.ts"

const shared = sharedGround({})
const ground = async (files: Files) => groundIn(await shared(), files)
const left = async (provider: WorkspaceProvider, branch: string) =>
  (await run(provider.left)).filter((found) => found.branch === branch)

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  const options = { projection }

  it("W4 C25 shell edits by sed, python, mv, a moved file and a deleted directory are in the checkpoint, which names the call", async () => {
    const { provider, commit } = await ground({
      "src/a.txt": "one\n",
      "src/b.txt": "two\n",
      "old/x": "x",
      "old/deep/y": "y",
      moved: "m"
    })
    const branch = await forkOf(provider, commit)
    const head = await using(provider, branch, options, async (workspace) => {
      expect(workspace.projection).toBe(projection)
      await shell(
        workspace,
        `sed -i s/one/ONE/ src/a.txt; python3 -c 'open("src/p","w").write("p")'; mv moved src/m; rm -r old; mv src/b.txt src/c.txt`
      )
      const actor = { call: "call-7", agent: "agt_x", goal: "goal_y" }
      const outcome = await run(workspace.checkpoint({ actor, message: "edits" }))
      expect(outcome.outcome).toBe("committed")
      const [last] = (await run(provider.log(branch, { limit: 1 }))).commits
      expect(last).toMatchObject({ actor, message: "edits", parent: commit })
      return last!.id
    })
    expect(await treeAt(provider, head)).toEqual({
      "src/": "",
      "src/a.txt": "ONE\n",
      "src/c.txt": "two\n",
      "src/m": "m",
      "src/p": "p"
    })
    expect((await run(provider.branch(branch))).head).toBe(head)
  })

  it("W7 C16 a fork sees nothing that its parent, its sibling or the origin does later, nor does a fork of a fork", async () => {
    const { provider, commit, origin } = await ground({ f: "base", dir: null })
    const parent = await forkOf(provider, commit)
    const sibling = await forkOf(provider, commit)
    await using(provider, parent, options, async (workspace) => {
      const child = await forkOf(provider, parent)
      await shell(workspace, "echo parent > f; touch dir/p")
      fs.writeFileSync(join(origin, "f"), "origin")
      const head = await committed(workspace)
      const grandchild = await forkOf(provider, head)
      await shell(workspace, "echo later > f; touch dir/q")
      await committed(workspace)
      for (const [branch, text, names] of [
        [child, "base", ""],
        [sibling, "base", ""],
        [grandchild, "parent\n", "p\n"]
      ] as const) {
        await using(provider, branch, options, async (other) => {
          expect(await shell(other, "cat f")).toBe(text)
          expect(await shell(other, "ls dir")).toBe(names)
        })
      }
    })
  })

  it("W8 rewriting the same bytes, create then delete, chmod to the same value, and new times are unchanged", async () => {
    const { provider, commit } = await ground({ f: "same", "d/g": "g" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(
        workspace,
        `printf same > f; touch new; rm new; chmod 644 f; mkdir e; rmdir e; touch d/g; chmod 755 d`
      )
      expect(await run(workspace.changes)).toEqual([])
      const outcome = await run(workspace.checkpoint())
      expect(outcome).toMatchObject({ outcome: "unchanged", commit })
      const timed = await run(workspace.checkpoint({ keepTimes: true }))
      expect(timed.outcome).toBe("committed")
    })
    expect(await left(provider, branch)).toEqual([])
  })

  it("W10 the same operation id names one commit for ever", async () => {
    const { provider, commit } = await ground({ f: "1" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "echo 2 > f")
      const operationId = `op_mine_${options.projection}`
      const outcome = await run(workspace.checkpoint({ operationId }))
      expect(outcome.outcome).toBe("committed")
      expect(await run(workspace.checkpoint({ operationId }))).toEqual(outcome)
      const found = await run(provider.findOperation(operationId))
      expect(found).toEqual({ state: "recorded", commit: await run(workspace.head) })
    })
  })

  it("W4 a moved head is HeadMoved: branch untouched, workspace kept with its files", async () => {
    const { provider, commit } = await ground({ f: "1" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "echo mine > f")
      const direct = await run(provider.applyTo(branch, [{ op: "write", path: "g", bytes: "direct" }]))
      expect(direct.outcome).toBe("committed")
      const error = await failure(workspace.checkpoint())
      expect(error).toMatchObject({
        _tag: "HeadMoved",
        expected: commit,
        actual: (direct as { commit: string }).commit
      })
      expect(await shell(workspace, "cat f")).toBe("mine\n")
    })
    expect((await left(provider, branch)).map((found) => found.state)).toEqual(["kept"])
    expect(await treeAt(provider, branch)).toEqual({ f: "1", g: "direct" })
  })

  it("C1 write, truncate down, truncate up: the tail is NUL", async () => {
    const { provider, commit } = await ground({ f: "abcdefgh" })
    const branch = await forkOf(provider, commit)
    const head = await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "printf abcdefgh > g; truncate -s 4 f g; truncate -s 8 f g")
      expect(Buffer.from(await run(workspace.read("g"))).toString()).toBe("abcd\0\0\0\0")
      return committed(workspace)
    })
    const tree = await treeAt(provider, head)
    expect(tree).toEqual({ f: "abcd\0\0\0\0", g: "abcd\0\0\0\0" })
  })

  it("C5 a same-size write right after a checkpoint is seen by the next one", async () => {
    const { provider, commit } = await ground({ f: "aaaa" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      for (const text of ["bbbb", "cccc", "dddd", "eeee"]) {
        await run(workspace.write("f", text))
        const head = await committed(workspace)
        expect(await treeAt(provider, head)).toEqual({ f: text })
      }
    })
  })

  it("C12 remove b, move a to b, reopen: only b", async () => {
    const { provider, commit } = await ground({ a: "A", b: "B" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "rm b; mv a b")
      await committed(workspace)
    })
    await using(provider, branch, options, async (workspace) => {
      expect(await shell(workspace, "ls; cat b")).toBe("b\nA")
    })
  })

  it("C13 copy a to x, remove a, move x to a: works, and the old children are hidden", async () => {
    const { provider, commit } = await ground({ "a/b/c": "c", "a/b/d": "d" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "cp -r a x; rm x/b/d; rm -r a; mv x a")
      await committed(workspace)
    })
    expect(await treeAt(provider, branch)).toEqual({ "a/": "", "a/b/": "", "a/b/c": "c" })
    await using(provider, branch, options, async (workspace) => {
      expect(await shell(workspace, "find . -mindepth 1 | sort")).toBe("./a\n./a/b\n./a/b/c\n")
    })
  })

  it("C15 a changed base file, removed after a reopen, stays removed after another", async () => {
    const { provider, commit } = await ground({ f: "1", g: "g" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "echo 2 > f")
      await committed(workspace)
    })
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "rm f")
      await committed(workspace)
    })
    await using(provider, branch, options, async (workspace) => {
      expect(await shell(workspace, "ls")).toBe("g\n")
      expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
    })
  })

  it("C14 mv and the SDK's move carry a base directory; rename(2) works or is EXDEV as the manifest declares", async () => {
    const { provider, commit } = await ground({ "d/x": "x", "d/l": { link: "x" }, "e/y": "y", "s/z": "z" })
    const branch = await forkOf(provider, commit)
    const manifest = await run(provider.manifest)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "mv d d2")
      await run(workspace.move("e", "e2/inner"))
      const script = `import os\ntry:\n  os.rename("s","s2")\n  print("works")\nexcept OSError as e:\n  print(e.errno)`
      const answer = (await shell(workspace, `python3 -c '${script}'`)).trim()
      expect(answer).toBe(projection === "overlay" ? "18" : "works")
      if (projection === "overlay") expect(manifest.renameDirectory).toBe("copyOnly")
      await committed(workspace)
    })
    const s = projection === "overlay" ? "s" : "s2"
    expect(await treeAt(provider, branch)).toEqual({
      "d2/": "",
      "d2/l": "-> x",
      "d2/x": "x",
      "e2/": "",
      "e2/inner/": "",
      "e2/inner/y": "y",
      [`${s}/`]: "",
      [`${s}/z`]: "z"
    })
  })

  it("C14 in ownDirs rename(2) and git mv of a base directory work, and owning alone is no change", async () => {
    const { provider, commit } = await ground({ "src/x": "x", "src/in/y": "y", "src/l": { link: "x" }, "lib/z": "z" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, { projection, ownDirs: ["src/**", "absent"] }, async (workspace) => {
      expect(await run(workspace.changes)).toEqual([])
      await shell(
        workspace,
        `python3 -c 'import os; os.rename("src/in", "src/out")'; git init -q; git add src; git mv src source`
      )
      await shell(workspace, "rm -r .git")
      await committed(workspace)
    })
    expect(await treeAt(provider, branch)).toEqual({
      "lib/": "",
      "lib/z": "z",
      "source/": "",
      "source/l": "-> x",
      "source/out/": "",
      "source/out/y": "y",
      "source/x": "x"
    })
  })

  it("C20 an edit in a fork of one of two identical files leaves the other, and the store, as they were", async () => {
    const { provider, commit, store } = await ground({ a: "same bytes", b: "same bytes" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      // An edit in place: through a writable hard link it would reach the shared object.
      await shell(workspace, `printf X | dd of=a bs=1 conv=notrunc 2>/dev/null; stat -c %h a b`)
      await committed(workspace)
    })
    expect(await treeAt(provider, branch)).toEqual({ a: "Xame bytes", b: "same bytes" })
    expect(await treeAt(provider, commit)).toEqual({ a: "same bytes", b: "same bytes" })
    const base = join(store, "layerfs", "cache", "base")
    for (const name of fs.existsSync(base) ? fs.readdirSync(base) : []) {
      const at = join(base, name, "a")
      // Bases of other tests lie here too.
      if (fs.existsSync(at) && fs.statSync(at).size === 10) expect(fs.readFileSync(at, "utf8")).toMatch(/same bytes/)
    }
    expect((await run(provider.verify())).ok).toBe(true)
  })

  it("W22 ln of a base file makes a group of two names; a third name joins later and removal of one dissolves a pair", async () => {
    const { provider, commit } = await ground({ f: "f", g: "g" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "mkdir d; ln f d/f2; ln g g2; rm g")
      await committed(workspace)
    })
    await using(provider, branch, options, async (workspace) => {
      expect(await shell(workspace, "stat -c %h f g2")).toBe("2\n1\n")
      await shell(workspace, "[ f -ef d/f2 ]")
      expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
    })
  })

  it("L15 modes with setuid, links, empty directories and nanosecond times come back as they were made", async () => {
    const { provider, commit } = await ground({ f: "f" })
    const branch = await forkOf(provider, commit)
    const look = `find . -mindepth 1 -printf '%y %m %T@ %p %l\\n' | sort -k4`
    const before = await using(provider, branch, options, async (workspace) => {
      await shell(
        workspace,
        `touch -d '2020-01-02 03:04:05.123456789' f; printf x > s; chmod 4755 s; mkdir -m 1777 empty; ln -s nowhere/at/all dangling; ln -s f l; touch -h -d '2001-01-01 00:00:00.000000001' l; touch -d '1999-01-01 00:00:00.5' empty`
      )
      await committed(workspace)
      return shell(workspace, look)
    })
    const after = await using(provider, branch, options, (workspace) => shell(workspace, look))
    expect(after).toBe(before)
    expect(after).toContain("d 1777 915148800.5000000000 ./empty")
    expect(after).toContain("f 4755")
  })

  it("C18 names of 255 bytes, with a newline, of bytes FE and FF, NFC and NFD stay byte-exact and distinct", async () => {
    const { provider, commit } = await ground({ f: "f" })
    const branch = await forkOf(provider, commit)
    const script = `python3 -c '
import os
names=[b"n"*255, b"a\\nb", b"\\xfe\\xff", "\\u00e9".encode(), "e\\u0301".encode(), b" lead", b"back\\\\slash"]
for n in names: open(n,"wb").write(n)
os.symlink(b"\\xff target", b"link")
'`
    const list = `python3 -c 'import os; print(sorted((n, os.readlink(n) if os.path.islink(n) else open(n,"rb").read()) for n in os.listdir(b".")))'`
    const before = await using(provider, branch, options, async (workspace) => {
      await shell(workspace, script)
      await committed(workspace)
      return shell(workspace, list)
    })
    expect(await using(provider, branch, options, (workspace) => shell(workspace, list))).toBe(before)
    expect(before).toContain("\\xfe\\xff")
  })

  it("W8 C17 fifos made inside are no part of the commit and are listed; a base file that became one is removed", async () => {
    const { provider, commit } = await ground({ f: "f", g: "g" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "rm f; mkfifo f new; echo 2 > g")
      const outcome = await run(workspace.checkpoint())
      expect(outcome).toMatchObject({ outcome: "committed", skipped: [{ path: "f" }, { path: "new" }] })
    })
    expect(await treeAt(provider, branch)).toEqual({ g: "2\n" })
  })

  it("W9 an attempt that deletes everything leaves an empty tree, and the base as it was", async () => {
    const { provider, commit, origin } = await ground({ "a/b": "b", c: "c", ".hidden": "h" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      const result = await run(workspace.exec(`rm -rf "$PWD" .[!.]* * 2>/dev/null; true`))
      expect(result.exitCode).toBe(0)
      await committed(workspace)
    })
    expect(await treeAt(provider, branch)).toEqual({})
    expect(Object.keys(await treeAt(provider, commit)).sort()).toEqual([".hidden", "a/", "a/b", "c"])
    expect(fs.readFileSync(join(origin, "a/b"), "utf8")).toBe("b")
  })

  it("W22 a base hard-link pair written through one name is listed as split, or stays a pair", async () => {
    const { provider, commit } = await ground({ a: "pair", b: { hard: "a" } })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, options, async (workspace) => {
      await shell(workspace, "printf more >> a")
      const outcome = await run(workspace.checkpoint())
      const split = projection === "overlay" ? [{ path: "a" }] : []
      expect(outcome).toMatchObject({ outcome: "committed", linkSplit: split })
    })
    const b = projection === "overlay" ? "pair" : "pairmore"
    expect(await treeAt(provider, branch)).toEqual({ a: "pairmore", b })
  })
})
