/**
 * What the suite asks of branches beside each other and of what lies outside of a workspace (K2).
 * Promise: see WorkspaceConformance.ts. Rules: K2, W4, W7, W8, W11, W12, W17, W21; C3, C15, C16, C20, C27, C33, C36.
 */
import assert from "node:assert/strict"
import { once } from "node:events"
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { Workspace } from "../workspace/WorkspaceProvider.ts"
import { comparedBy, differences, lookAt } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import {
  committed,
  headOf,
  inside,
  lookAtRef,
  nodeInside,
  noteDigest,
  textAt,
  type WorkspaceScene
} from "./WorkspaceScene.ts"

const shell = (scene: WorkspaceScene, branch: string, command: string) =>
  scene.using(branch, async (workspace) => {
    const printed = await inside(scene, workspace, command)
    const { outcome } = await scene.run(workspace.checkpoint())
    return { printed, outcome }
  })

const forkOf = async (scene: WorkspaceScene, ref: string): Promise<string> =>
  (await scene.run(scene.provider.fork(ref))).id

/** What must leave no commit, by what it is called. */
const noChanges: Readonly<Record<string, (scene: WorkspaceScene, workspace: Workspace) => Promise<unknown>>> = {
  "nothing at all": async () => undefined,
  "reading and listing": async (scene, workspace) => {
    await inside(scene, workspace, "find . -type f -exec cat {} + > /dev/null; ls -lR > /dev/null")
    await scene.run(workspace.read("d/g"))
    await scene.run(workspace.grep(/g/))
  },
  "the same bytes again": (scene, workspace) => inside(scene, workspace, "cat f > /dev/null; printf f > f"),
  "the same bytes by the call": (scene, workspace) => scene.run(workspace.write("f", "f")),
  "a file made and removed": (scene, workspace) => inside(scene, workspace, "echo x > new && rm new"),
  "a tree made and removed": (scene, workspace) =>
    inside(scene, workspace, "mkdir -p a/b/c && echo x > a/b/c/d && rm -r a"),
  "a file moved away and back": (scene, workspace) => inside(scene, workspace, "mv d/g away && mv away d/g"),
  "the same mode": (scene, workspace) => inside(scene, workspace, "chmod $(stat -c %a f) f && chmod $(stat -c %a d) d"),
  "another time": (scene, workspace) => inside(scene, workspace, "touch -d 2001-02-03 f d/g d"),
  "a file replaced by its like": (scene, workspace) =>
    inside(scene, workspace, "cp -p f other && chmod $(stat -c %a f) other && mv other f")
}

const swapper = `
const fs = require("node:fs")
fs.mkdirSync("real"); fs.writeFileSync("real/file", "inside")
fs.symlinkSync(process.argv[1], "lead")
process.stdout.write("ready\\n")
setInterval(() => {
  for (let i = 0; i < 50; i += 1) {
    fs.renameSync("real", "kept"); fs.renameSync("lead", "real")
    fs.renameSync("real", "lead"); fs.renameSync("kept", "real")
  }
}, 0)
`

export const isolationScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K2", "W7", "C16"],
    name: "parallel edits of forks stay apart: parent, sibling, child and origin see nothing of each other",
    body: async (scene) => {
      const { source, branch, head } = await scene.branchOn({ f: "base\n", "d/g": "g\n", h: "h\n" })
      const forks = await Promise.all(["left", "right"].map(() => forkOf(scene, branch)))
      const [left, right] = forks as [string, string]
      await Promise.all([
        shell(scene, left, "echo left > f; rm -r d; echo left > only-left"),
        shell(scene, right, "echo right > f; echo right > d/g; mv h only-right"),
        shell(scene, branch, "echo parent > f; echo parent > d/g")
      ])
      writeFileSync(join(source, "f"), "origin\n")
      const child = await forkOf(scene, right)
      await shell(scene, right, "echo later > f; rm only-right")
      await shell(scene, child, "echo child >> d/g")
      await scene.reopen()
      const texts = async (ref: string) => {
        const tree = await lookAtRef(scene, ref)
        const files = [...tree].filter(([, { type }]) => type === "file").map(([path]) => path)
        return Object.fromEntries(await Promise.all(files.map(async (path) => [path, await textAt(scene, ref, path)])))
      }
      assert.deepEqual(await texts(left), { f: "left\n", h: "h\n", "only-left": "left\n" })
      assert.deepEqual(await texts(right), { "d/g": "right\n", f: "later\n" })
      assert.deepEqual(await texts(child), { "d/g": "right\nchild\n", f: "right\n", "only-right": "h\n" })
      assert.deepEqual(await texts(branch), { "d/g": "parent\n", f: "parent\n", h: "h\n" })
      assert.deepEqual(await texts(head), { "d/g": "g\n", f: "base\n", h: "h\n" })
      for (const ref of [left, right, child, branch]) await noteDigest(scene, ref)
    }
  },
  {
    rules: ["K2", "W7", "C15", "C16"],
    name: "a workspace that is open sees its base and nothing that is committed elsewhere meanwhile",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "base\n", g: "base\n" })
      const other = await forkOf(scene, branch)
      await scene.using(branch, async (workspace) => {
        await shell(scene, other, "echo other > f; rm g; echo other > new")
        assert.equal(await inside(scene, workspace, "cat f g; ls"), "base\nbase\nf\ng\n")
        await inside(scene, workspace, "rm g")
        await committed(scene, workspace)
      })
      for (const _ of [1, 2]) {
        await scene.reopen()
        assert.equal((await shell(scene, branch, "ls; cat f")).printed, "f\nbase\n")
      }
    }
  },
  {
    rules: ["K2", "W4", "W12"],
    name: "a head that moved meanwhile is HeadMoved with both heads: the branch stays, and the files are kept",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "base" })
      const moved = await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("mine", "mine"))
        const other = await scene.using(branch, async (second) => {
          await scene.run(second.write("theirs", "theirs"))
          return (await committed(scene, second)).commit
        })
        const refusal = await scene.refused("HEAD_MOVED", workspace.checkpoint())
        assert.deepEqual([refusal["expected"], refusal["actual"]], [head, other])
        assert.equal(Buffer.from(await scene.run(workspace.read("mine"))).toString(), "mine")
        return other
      })
      assert.equal(await headOf(scene, branch), moved)
      const [left, ...more] = await scene.run(scene.provider.left)
      assert.deepEqual([left?.branch, left?.base, left?.state, more], [branch, head, "kept", []])
      const { branch: recovered } = await scene.run(scene.provider.recover(left!.id))
      assert.equal(await textAt(scene, recovered, "mine"), "mine")
      assert.equal(await headOf(scene, branch), moved)
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K2", "W8"],
    name: "what changes nothing makes no commit, whatever was done to get there",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f", "d/g": "g" })
      for (const [what, act] of Object.entries(noChanges)) {
        await scene.using(branch, async (workspace) => {
          await act(scene, workspace)
          assert.deepEqual(await scene.run(workspace.changes), [], what)
          const { outcome, commit } = await scene.run(workspace.checkpoint())
          assert.deepEqual([outcome, commit], ["unchanged", head], what)
        })
        assert.equal(await headOf(scene, branch), head, what)
      }
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K2", "W11", "C3"],
    name: "eight workspaces fork, edit and checkpoint at once without a lost byte; 200 writes at once in one of them all succeed",
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "base\n", "d/g": "g\n" })
      const loops = Array.from({ length: 8 }, async (_, number) => {
        const mine = await forkOf(scene, branch)
        for (const round of [1, 2]) {
          const { outcome } = await shell(scene, mine, `echo ${number}.${round} >> f; echo ${number} > d/n${round}`)
          assert.equal(outcome, "committed")
        }
        return [await textAt(scene, mine, "f"), await textAt(scene, mine, "d/n2")]
      })
      assert.deepEqual(
        await Promise.all(loops),
        loops.map((_, number) => [`base\n${number}.1\n${number}.2\n`, `${number}\n`])
      )
      const many = await forkOf(scene, branch)
      await scene.using(many, async (workspace) => {
        const writes = Array.from({ length: 200 }, (_, n) => workspace.write(`p${n % 5}/deep/w${n}`, `${n}`))
        await scene.run(Effect.all(writes, { concurrency: "unbounded" }))
        assert.equal((await committed(scene, workspace)).changedPaths, 210)
      })
      for (const n of [0, 99, 199]) assert.equal(await textAt(scene, many, `p${n % 5}/deep/w${n}`), `${n}`)
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
    }
  },
  {
    rules: ["K2", "C20"],
    name: "of two files with the same bytes one is edited in a fork: the other, the base and the store stay as they were",
    body: async (scene) => {
      const same = "the same bytes in two files\n"
      const { branch, head } = await scene.branchOn({ a: same, b: same })
      const fork = await forkOf(scene, branch)
      await shell(scene, fork, "printf X | dd of=a bs=1 conv=notrunc status=none; truncate -s 5 a; chmod 600 a")
      assert.deepEqual([await textAt(scene, fork, "a"), await textAt(scene, fork, "b")], ["Xhe s", same])
      assert.deepEqual([await textAt(scene, head, "a"), await textAt(scene, head, "b")], [same, same])
      assert.equal((await shell(scene, branch, "cat a b")).printed, same + same)
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
    }
  },
  {
    rules: ["K2", "W17", "C36"],
    name: "a process that writes outside of its workspace is stopped, or what it reached is named",
    body: async (scene) => {
      const { source, branch } = await scene.branchOn({ f: "f" })
      const outside = scene.directory("outside")
      const sentinel = join(outside, "sentinel")
      writeFileSync(sentinel, "untouched")
      const before = lookAt(source)
      await scene.using(
        branch,
        async (workspace) => {
          await scene.run(workspace.exec(`echo reached > '${sentinel}'; echo reached > '${outside}/new'; true`))
          const { level, reachable } = workspace.isolation
          const reached = readFileSync(sentinel, "utf8") !== "untouched"
          if (level === "enforced") return assert.equal(reached, false, "isolation is enforced, and it was reached")
          assert.ok(reachable.length > 0, `isolation is ${level}, and nothing is said to be reachable`)
          if (!reached) return undefined
          const { changed } = (await scene.run(workspace.sentinels))!
          assert.ok(changed.length > 0, "a watched place was written, and no sentinel tells")
        },
        { hide: [outside] }
      )
      assert.deepEqual(differences(before, lookAt(source), comparedBy(scene.manifest)), [], "the origin")
    }
  },
  {
    rules: ["K2", "W12", "W21", "C33"],
    name: "closing, discarding and removing follow no link out of the workspace",
    body: async (scene) => {
      const outside = scene.directory("outside")
      writeFileSync(join(outside, "kept"), "kept")
      mkdirSync(join(outside, "directory"))
      const source = scene.directory("source")
      writeFileSync(join(source, "f"), "f")
      symlinkSync(outside, join(source, "out"))
      const { branch } = await scene.branchOn(source)
      const before = lookAt(outside)
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, `ln -s '${outside}' again; mkdir d; ln -s '${outside}/directory' d/link`)
        await scene.run(workspace.remove("out"))
        await committed(scene, workspace)
        await scene.run(workspace.remove("d"))
        await committed(scene, workspace)
      })
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, `ln -s '${outside}' dropped; rm f`)
        await scene.run(workspace.discard("not wanted"))
      })
      assert.deepEqual(lookAt(outside), before)
      assert.equal(await textAt(scene, branch, "f"), "f")
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K2", "W21", "C27"],
    name: "a process that keeps swapping a directory for a link out of the tree wins no read, write, list or removal",
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const outside = scene.directory("outside")
      writeFileSync(join(outside, "file"), "outside")
      const before = lookAt(outside)
      await scene.using(branch, async (workspace) => {
        await scene.run(
          Effect.scoped(
            Effect.gen(function* () {
              const running = yield* workspace.start([process.execPath, "-e", swapper, outside])
              yield* Effect.promise(() => once(running.stdout, "data"))
              for (let n = 0; n < 60; n += 1) {
                const read = yield* Effect.result(workspace.read("real/file"))
                if (read._tag === "Success") assert.equal(Buffer.from(read.success).toString(), "inside")
                yield* Effect.result(workspace.write("real/file", "inside"))
                yield* Effect.result(workspace.write(`real/new${n}`, "inside"))
                yield* Effect.result(workspace.list("real"))
                yield* Effect.result(workspace.remove(`real/new${n}`))
              }
              yield* running.kill({ graceMs: 0 })
            })
          )
        )
        await scene.run(workspace.discard("only raced"))
      })
      assert.deepEqual(lookAt(outside), before)
    }
  },
  {
    rules: ["K2", "W21", "C4", "C27"],
    name: "an absolute link below the workspace's path is its own; any other, and one that climbs out, is refused and followed nowhere",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "own", d: null })
      const outside = scene.directory("outside")
      writeFileSync(join(outside, "file"), "outside")
      const before = lookAt(outside)
      await scene.using(branch, async (workspace) => {
        const links = { own: `${workspace.path}/f`, out: join(outside, "file"), dir: outside, up: "../../../../../.." }
        for (const [name, target] of Object.entries(links)) await inside(scene, workspace, ["ln", "-s", target, name])
        assert.equal(Buffer.from(await scene.run(workspace.read("own"))).toString(), "own")
        await scene.run(workspace.write("own", "written"))
        assert.equal(Buffer.from(await scene.run(workspace.read("f"))).toString(), "written")
        for (const path of [
          "out",
          "dir/file",
          "up/etc/hostname",
          "d/../../x",
          "/etc/hostname",
          join(outside, "file")
        ]) {
          await scene.refused("OUTSIDE_WORKSPACE", workspace.read(path))
          await scene.refused("OUTSIDE_WORKSPACE", workspace.write(path, "reached"))
          await scene.refused("OUTSIDE_WORKSPACE", workspace.edit(path, "outside", "reached"))
          // A link that is there already may be told first.
          await scene.refused(["OUTSIDE_WORKSPACE", "PATH_ERROR"], workspace.copy("f", path))
          await scene.refused("OUTSIDE_WORKSPACE", workspace.splice(path, 0, 1, Buffer.from("R")))
        }
        await scene.refused("OUTSIDE_WORKSPACE", workspace.remove("dir/file"))
        await scene.refused("OUTSIDE_WORKSPACE", workspace.list("dir"))
        await scene.refused("OUTSIDE_WORKSPACE", workspace.move("dir/file", "taken"))
        // The link itself is the workspace's own.
        await scene.run(workspace.remove("dir"))
        await committed(scene, workspace)
      })
      assert.deepEqual(lookAt(outside), before)
      const chain = `
        const fs = require("node:fs")
        fs.writeFileSync("end", "reached")
        for (let i = 1; i <= 41; i += 1) fs.symlinkSync(i === 1 ? "end" : "l" + (i - 1), "l" + i)
        fs.symlinkSync("circle", "circle")`
      await scene.using(branch, async (workspace) => {
        await nodeInside(scene, workspace, chain)
        for (const path of ["l1", "l40"])
          assert.equal(Buffer.from(await scene.run(workspace.read(path))).toString(), "reached")
        for (const path of ["l41", "circle"]) {
          assert.equal((await scene.refused("PATH_ERROR", workspace.read(path)))["reason"], "loop", path)
        }
        await committed(scene, workspace)
      })
      const tree = await lookAtRef(scene, branch)
      for (const path of ["l1", "l41", "circle", "out", "up"]) assert.equal(tree.get(path)?.type, "symlink", path)
    }
  }
]
