/**
 * What the suite asks of a manifest and a probe: each declaration is exercised, what is lacking is refused by name (W1, W2).
 * Promise: see WorkspaceConformance.ts. Rules: W1, W2, W3, W4, L1, L3, L8; C25.
 */
import assert from "node:assert/strict"
import * as Effect from "effect/Effect"
import type { OpenOptions } from "../workspace/WorkspaceProvider.ts"
import { lookAt } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { declares, ordinaryUser } from "./WorkspaceNeeds.ts"
import { committed, headOf, inside, lookAtRef, textAt, type WorkspaceScene } from "./WorkspaceScene.ts"
import { callByName } from "./WorkspaceWorker.ts"

/** A call that the provider lacks says so by name. */
const isUnsupported = async (scene: WorkspaceScene, call: string, ...args: readonly unknown[]): Promise<void> => {
  const refusal = await scene.refused("UNSUPPORTED", callByName(scene.provider, call, ...args))
  assert.equal(refusal["_tag"], "Unsupported")
  assert.match(String(refusal["capability"]), /\S/)
}

/** Opens a workspace and lets it go. */
const openAndClose = (scene: WorkspaceScene, branch: string, options: OpenOptions) =>
  Effect.scoped(scene.provider.open(branch, options))

export const manifestScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["W2"],
    name: "the probe names a projection that works, and a remedy for each piece that is missing; what is opened is what was asked for",
    once: true,
    body: async (scene) => {
      const { ready, projections, missing } = await scene.run(scene.provider.probe)
      assert.equal(ready, true)
      assert.ok(projections.some(({ available }) => available))
      for (const piece of [...missing, ...projections.flatMap((one) => one.missing)]) {
        assert.match(piece.what, /\S/)
        assert.match(piece.remedy, /\S/)
      }
      const { branch } = await scene.branchOn({ f: "f" })
      for (const { projection, available, missing: pieces } of projections) {
        if (available) {
          const used = await scene.using(branch, async (workspace) => workspace.projection, { projection })
          assert.equal(used, projection)
        } else {
          assert.ok(pieces.length > 0, `${projection} is not available, and nothing is missing`)
          await scene.refused("UNAVAILABLE", openAndClose(scene, branch, { projection }))
        }
      }
    }
  },
  {
    rules: ["W1", "W3"],
    name: "what the manifest lacks is refused by its name, with what to do instead, and nothing changes",
    once: true,
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f" })
      const before = await scene.run(scene.provider.stats)
      const { merge, collect, history, blame } = scene.manifest
      if (!merge) await isUnsupported(scene, "merge", branch, branch)
      if (!collect) await isUnsupported(scene, "collect")
      if (!history) await isUnsupported(scene, "log", branch)
      if (!blame) await isUnsupported(scene, "blame", branch, "f")
      assert.deepEqual(await scene.run(scene.provider.stats), before)
      assert.equal(await headOf(scene, branch), head)
    }
  },
  {
    rules: ["W1", "W4"],
    name: "the workspace's path is where processes find their files",
    needs: [declares("visiblePath", true)],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "found" })
      await scene.using(branch, async (workspace) => {
        assert.equal(await inside(scene, workspace, ["cat", `${workspace.path}/f`]), "found")
        assert.equal((await inside(scene, workspace, "pwd -P")).trim(), workspace.path)
        assert.equal(workspace.environment.root, workspace.path)
      })
    }
  },
  {
    rules: ["W1", "W4"],
    name: "it is mounted at the path that was chosen, and at no other",
    needs: [declares("mountAtChosenPath", true)],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "found", own: { link: "f" } })
      const mountPath = scene.directory("chosen")
      await scene.using(
        branch,
        async (workspace) => {
          assert.equal(workspace.path, mountPath)
          assert.equal(await inside(scene, workspace, ["cat", `${mountPath}/own`]), "found")
        },
        { mountPath }
      )
      assert.deepEqual(lookAt(mountPath), new Map())
    }
  },
  {
    rules: ["W1", "W4"],
    name: "a chosen path that it cannot mount at is refused, never taken for another one",
    needs: [declares("mountAtChosenPath", false)],
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const mountPath = scene.directory("chosen")
      const codes = ["UNSUPPORTED", "MOUNT_PATH_UNAVAILABLE", "UNAVAILABLE"]
      await scene.refused(codes, openAndClose(scene, branch, { mountPath }))
    }
  },
  {
    rules: ["W1", "W16"],
    name: "ignored files are kept by import, checkpoint and fork",
    needs: [declares("keepsIgnoredFiles", true)],
    body: async (scene) => {
      const ignored = { ".env": "SECRET=1", "node_modules/a/index.js": "1", "dist/out": "built" }
      const { branch } = await scene.branchOn({ ".gitignore": "node_modules\ndist\n.env\n*.o\n", ...ignored })
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "echo object > made.o && echo again > dist/out")
        await committed(scene, workspace)
      })
      const tree = await lookAtRef(scene, branch)
      for (const path of [...Object.keys(ignored), "made.o"]) assert.ok(tree.has(path), path)
      assert.equal(await textAt(scene, branch, "dist/out"), "again\n")
    }
  },
  {
    rules: ["W1", "L1"],
    name: "forks copy nothing: objects and stored bytes stay, and what a fork adds is a row",
    needs: [declares("copyFreeFork", true)],
    body: async (scene) => {
      const files = Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`d${n % 10}/f${n}`, `content ${n}`]))
      const { head } = await scene.branchOn({ ...files, large: Buffer.alloc(2 ** 20, "large") })
      // What is in a log beside the index while it is open comes to rest in it at its end.
      await scene.reopen()
      const before = await scene.run(scene.provider.stats)
      for (let n = 0; n < 40; n += 1) await scene.run(scene.provider.fork(head))
      await scene.reopen()
      const after = await scene.run(scene.provider.stats)
      assert.deepEqual([after.objects, after.storedBytes], [before.objects, before.storedBytes])
      assert.equal(after.branches, before.branches + 40)
      assert.ok(after.indexBytes - before.indexBytes <= 40 * 1024, `${after.indexBytes - before.indexBytes} bytes`)
    }
  },
  {
    rules: ["W1", "L3"],
    name: "every commit stays readable: in the log, by its files, and by what differs from one to the next",
    needs: [declares("history", true)],
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "0", d: { directory: 0o755 } })
      const commits = [head]
      await scene.using(branch, async (workspace) => {
        for (const text of ["1", "2", "3"]) {
          await scene.run(workspace.write("f", text))
          if (text === "2") await scene.run(workspace.write("d/new", "new"))
          commits.push((await committed(scene, workspace, { message: `text ${text}` })).commit)
        }
      })
      await scene.reopen()
      const { commits: logged } = await scene.run(scene.provider.log(branch))
      assert.deepEqual(
        logged.slice(0, 3).map(({ id, message }) => [id, message]),
        commits
          .slice(1)
          .map((id, at) => [id, `text ${at + 1}`])
          .toReversed()
      )
      for (const [at, commit] of commits.entries()) assert.equal(await textAt(scene, commit, "f"), String(at))
      const { changes } = await scene.run(scene.provider.diff(commits[1]!, commits[2]!))
      assert.deepEqual(
        changes.map(({ kind, path }) => `${kind} ${path}`),
        ["added d/new", "modified f"]
      )
    }
  },
  {
    rules: ["W1", "L3", "C25"],
    name: "blame names the commit of each line, and through it who made it",
    needs: [declares("blame", true)],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "one\ntwo\nthree\n" })
      const actor = { call: "call-7", agent: "ada", goal: "goal-1" }
      const commit = await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "sed -i 's/two/TWO/' f")
        return (await committed(scene, workspace, { actor })).commit
      })
      const { lines, commits } = await scene.run(scene.provider.blame(branch, "f"))
      assert.deepEqual(
        lines.map((line) => [line.text, line.commit === commit]),
        [
          ["one", false],
          ["TWO", true],
          ["three", false]
        ]
      )
      assert.deepEqual(commits[commit]?.actor, actor)
    }
  },
  {
    rules: ["W1", "L8"],
    name: "each result names the durability that the manifest declares",
    once: true,
    body: async (scene) => {
      const { branch, receipt } = await scene.branchOn({ f: "f" })
      const made = await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("f", "g"))
        return committed(scene, workspace)
      })
      const { durability } = scene.manifest
      assert.deepEqual([made.durability, receipt.durability], [durability, durability])
      assert.equal((await scene.run(scene.provider.branch(branch))).durability, durability)
    }
  },
  {
    rules: ["W1"],
    name: "an ordinary user opens, runs and checkpoints without any privilege",
    needs: [declares("unprivileged", true), ordinaryUser],
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      await scene.using(branch, async (workspace) => {
        assert.equal(await inside(scene, workspace, "id -u"), `${process.getuid?.()}\n`)
        await inside(scene, workspace, "echo mine > f")
        await committed(scene, workspace)
      })
      assert.equal(await textAt(scene, branch, "f"), "mine\n")
    }
  }
]
