/**
 * What the suite asks of a state that is handed to somebody else: it is verified, gone on from, and leaves as a patch (K4).
 * Promise: see WorkspaceConformance.ts. Rules: K4, W5, W6, W16, W20, L13.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { sha256 } from "../base/Digest.ts"
import { type Candidate, identity } from "../workspace/Candidate.ts"
import { fullProfile } from "../workspace/TreeDigest.ts"
import { type Files, writeFiles } from "./SourceFiles.ts"
import { comparedBy, differences, digestOf, lookAt } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { git, tool } from "./WorkspaceNeeds.ts"
import { committed, headOf, inside, lookAtRef, noteDigest, textAt, type WorkspaceScene } from "./WorkspaceScene.ts"

const environment = sha256("the environment of the finder")

const files: Files = {
  ".gitignore": "dist\n*.log\n",
  "src/sum.cjs": "exports.sum = (a, b) => a - b\n",
  "src/unused.js": "exports.unused = true\n",
  "test.cjs": `
const { sum } = require("./src/sum.cjs")
if (sum(2, 3) !== 5) throw new Error("sum is wrong")
console.log("sum is right")
`,
  "image.bin": Buffer.from([0, 1, 2, 255, 254, 0, 10]),
  "run.sh": "#!/bin/sh\nexit 0\n"
}

const settings = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "core.hooksPath=/dev/null"]

const gitIn = (directory: string, ...args: readonly string[]): string =>
  execFileSync("git", [...settings, ...args], {
    cwd: directory,
    encoding: "utf8",
    env: { ...process.env, GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null" },
    stdio: ["ignore", "pipe", "pipe"]
  })

/** A repository with one commit. */
const repository = (scene: WorkspaceScene): string => {
  const source = scene.directory("repository")
  writeFiles(source, files)
  gitIn(source, "init", "-q", "-b", "main")
  gitIn(source, "add", ".")
  gitIn(source, "commit", "-q", "-m", "first")
  return source
}

/** What the finder does, and hands over. */
const finding = async (scene: WorkspaceScene, branch: string): Promise<Candidate> => {
  const commit = await scene.using(branch, async (workspace) => {
    const before = await scene.run(workspace.exec([process.execPath, "test.cjs"]))
    assert.notEqual(before.exitCode, 0)
    await scene.run(workspace.edit("src/sum.cjs", "a - b", "a + b"))
    await inside(
      scene,
      workspace,
      "mkdir dist && echo built > dist/out && echo log > a.log && git mv src/unused.js src/moved.cjs && chmod +x run.sh"
    )
    await scene.run(workspace.write("image.bin", Buffer.from([9, 0, 255, 10, 0, 1])))
    assert.equal(await inside(scene, workspace, [process.execPath, "test.cjs"]), "sum is right\n")
    return (await committed(scene, workspace, { actor: { agent: "finder" } })).commit
  })
  return scene.run(scene.provider.candidate(commit, { environment, parent: null }))
}

export const handoffScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K4", "W5", "W6", "W16", "W20"],
    name: "the receiver verifies the candidate, opens it as what it is, does new work, and the patch of both passes in a clean clone",
    needs: [git],
    body: async (scene) => {
      const source = repository(scene)
      const { branch, head } = await scene.branchOn(source)
      const candidate = await finding(scene, branch)
      await scene.reopen()
      const again = await scene.run(scene.provider.candidate(candidate.commit, { environment, parent: null }))
      assert.equal(identity(again), identity(candidate))
      if (candidate.profile === fullProfile) {
        assert.equal(digestOf(await lookAtRef(scene, candidate.commit)), candidate.treeDigest)
      }
      const received = await scene.run(scene.provider.fork(candidate.commit))
      const commit = await scene.using(
        received.id,
        async (workspace) => {
          assert.equal(await inside(scene, workspace, [process.execPath, "test.cjs"]), "sum is right\n")
          assert.equal(await inside(scene, workspace, "cat dist/out"), "built\n")
          await scene.run(workspace.write("src/more.cjs", "exports.more = (a) => a * 2\n"))
          await inside(scene, workspace, "echo 'if (require(\"./src/more.cjs\").more(4) !== 8) throw 1' >> test.cjs")
          assert.equal(await inside(scene, workspace, [process.execPath, "test.cjs"]), "sum is right\n")
          return (await committed(scene, workspace, { actor: { agent: "receiver" } })).commit
        },
        { as: { candidate, environment } }
      )
      const {
        patch,
        files: named,
        ignoredChanges
      } = await scene.run(scene.provider.exportPatch({ from: head, to: commit }))
      assert.ok(!named.some(({ path }) => path.startsWith("dist") || path.endsWith(".log") || path.startsWith(".git/")))
      assert.ok(ignoredChanges >= 2, `${ignoredChanges} ignored changes are told of`)
      const clean = join(scene.directory("clean"), "clone")
      gitIn(source, "clone", "-q", "--no-hardlinks", source, clean)
      writeFileSync(`${clean}.patch`, patch)
      gitIn(clean, "apply", "--index", `${clean}.patch`)
      const printed = execFileSync(process.execPath, ["test.cjs"], { cwd: clean, encoding: "utf8" })
      assert.equal(printed, "sum is right\n")
      assert.equal(gitIn(clean, "ls-files", "-s", "run.sh").slice(0, 6), "100755")
      assert.equal(
        gitIn(clean, "ls-files"),
        ".gitignore\nimage.bin\nrun.sh\nsrc/more.cjs\nsrc/moved.cjs\nsrc/sum.cjs\ntest.cjs\n"
      )
      const bytes = execFileSync("cat", ["image.bin"], { cwd: clean })
      assert.deepEqual([...bytes], [9, 0, 255, 10, 0, 1])
      assert.equal(gitIn(source, "status", "--porcelain"), "")
    }
  },
  {
    rules: ["K4", "W5", "W20"],
    name: "a candidate is its tree and its environment: another tree, or an environment that nobody named, is refused",
    needs: [git],
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(repository(scene))
      const candidate = await finding(scene, branch)
      const base = await scene.run(scene.provider.fork(head))
      const open = (id: string, as: object) =>
        Effect.scoped(scene.provider.open(id, { ...scene.options, as: { candidate, ...as } }))
      const other = await scene.refused("CANDIDATE_REFUSED", open(base.id, { environment }))
      assert.equal(other["reason"], "otherTree")
      await scene.refused("ENVIRONMENT_MISMATCH", open(branch, {}))
      const elsewhere = sha256("another environment")
      const mismatch = await scene.refused("ENVIRONMENT_MISMATCH", open(branch, { environment: elsewhere }))
      assert.deepEqual([mismatch["expected"], mismatch["actual"]], [environment, elsewhere])
      await scene.run(open(branch, { environment: elsewhere, allowEnvironment: environment }))
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K4", "W5"],
    name: "a pinned commit stays what it was, whatever its branch does, and the same tree by another way has the same root",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f", "d/g": "g" })
      const one = await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "echo one > f; mv d e")
        return committed(scene, workspace)
      })
      await scene.run(scene.provider.pin("handoff", one.commit))
      await scene.run(scene.provider.pin("handoff", one.commit))
      const other = await scene.run(scene.provider.fork(head))
      const two = await scene.using(other.id, async (workspace) => {
        await inside(scene, workspace, "rm -r d; echo two > f")
        await committed(scene, workspace)
        await inside(scene, workspace, "mkdir e; printf g > e/g; echo one > f")
        return committed(scene, workspace)
      })
      assert.equal(two.root, one.root)
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "rm -r e f")
        await committed(scene, workspace)
      })
      await scene.reopen()
      assert.equal(await textAt(scene, one.commit, "f"), "one\n")
      await noteDigest(scene, one.commit)
      await scene.run(scene.provider.unpin("handoff"))
      await scene.run(scene.provider.unpin("handoff"))
      assert.notEqual(await headOf(scene, branch), one.commit)
    }
  },
  {
    rules: ["K4", "W16"],
    name: "an export is the tree and nothing beside it, into a directory that is empty or not there",
    body: async (scene) => {
      const { branch } = await scene.branchOn(files)
      await scene.using(branch, async (workspace) => {
        await inside(
          scene,
          workspace,
          "mkdir -p dist/deep empty && echo built > dist/deep/out && ln -s ../src dist/link"
        )
        await committed(scene, workspace)
      })
      const place = scene.directory("exports")
      const target = join(place, "not there")
      const told = await scene.run(scene.provider.exportDirectory(branch, target))
      const { id } = await scene.run(scene.provider.fork(branch))
      const tree = await lookAtRef(scene, branch)
      assert.ok(tree.has("empty") && tree.get("dist/link")?.target === "../src")
      assert.equal(told.files, [...tree.values()].filter(({ type }) => type === "file").length)
      const receipt = await scene.run(scene.provider.importDirectory({ source: target }))
      const by = comparedBy(scene.manifest, receipt)
      assert.deepEqual(differences(tree, await lookAtRef(scene, receipt.commit), by), [])
      assert.equal((await scene.run(scene.provider.commit(id))).root, receipt.root)
    }
  },
  {
    rules: ["K4", "W16", "L15"],
    name: "an archive is the tree with its times and links, for any tar, and a target that is there already is refused and kept",
    needs: [tool("tar", "--version")],
    body: async (scene) => {
      const { branch } = await scene.branchOn(files)
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "mkdir -p deep/empty && ln -s ../src deep/link && truncate -s 100000 deep/hole")
        await committed(scene, workspace)
      })
      const target = join(scene.directory("archives"), "state.tar")
      await scene.run(scene.provider.exportTar(branch, target))
      const unpacked = scene.directory("unpacked")
      execFileSync("tar", ["-xpf", target, "-C", unpacked])
      assert.deepEqual(differences(await lookAtRef(scene, branch), lookAt(unpacked), comparedBy(scene.manifest)), [])
      const before = readFileSync(target)
      await scene.refused("EXPORT_REFUSED", scene.provider.exportTar(branch, target))
      assert.ok(readFileSync(target).equals(before))
      await scene.refused("REF_NOT_FOUND", scene.provider.exportTar("cmt_none", `${target}.none`))
      assert.equal(existsSync(`${target}.none`), false)
    }
  },
  {
    rules: ["K4", "L13"],
    name: "a bundle carries a state to another store with its id and its tree, and a damaged one brings nothing; or bundles are refused by name",
    body: async (scene) => {
      const { branch } = await scene.branchOn(files)
      const { commit } = await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "echo more > src/more && chmod 700 src/more")
        return committed(scene, workspace)
      })
      const target = join(scene.directory("bundles"), "state")
      const made = await Effect.runPromise(Effect.result(scene.provider.exportBundle({ ref: commit, target })))
      if (made._tag === "Failure") {
        await scene.refused("UNSUPPORTED", scene.provider.exportBundle({ ref: commit, target }))
        await scene.refused("UNSUPPORTED", scene.provider.importBundle({ source: target }))
        return assert.equal(existsSync(target), false)
      }
      const other = await scene.another()
      const cut = `${target}.cut`
      writeFileSync(cut, readFileSync(target).subarray(0, made.success.bytes - 100))
      await scene.refused("BUNDLE_REFUSED", other.importBundle({ source: cut }))
      await scene.refused("REF_NOT_FOUND", other.commit(commit))
      const receipt = await scene.run(other.importBundle({ source: target }))
      assert.equal(receipt.commit, commit)
      const [here, there] = [
        await scene.run(scene.provider.candidate(commit, { environment, parent: null })),
        await scene.run(other.candidate(commit, { environment, parent: null }))
      ]
      assert.deepEqual([there.treeDigest, there.root], [here.treeDigest, here.root])
      assert.equal((await scene.run(other.importBundle({ source: target }))).commits, 0)
      assert.equal((await scene.run(other.verify())).ok, true)
    }
  }
]
