/**
 * Cases from the field that every provider has to pass: things that went wrong for people with other tools.
 * Promise: see WorkspaceConformance.ts. Rules: C1, C2, C5, C7, C10, C12, C13, C15, C17, C19, C25.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { chmodSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { refusalOf } from "./AuthorityWorker.ts"
import { type Files, writeFiles } from "./SourceFiles.ts"
import { comparedBy, differences, lookAt } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { git, ordinaryUser } from "./WorkspaceNeeds.ts"
import {
  committed,
  inside,
  lookAtRef,
  nodeBeside,
  nodeInside,
  noteDigest,
  textAt,
  type WorkspaceScene
} from "./WorkspaceScene.ts"

/** Runs a script inside and in a directory with the same files, and compares what came of it; each step is checkpointed. */
const asInPlainDirectory = async (scene: WorkspaceScene, files: Files, steps: readonly string[]): Promise<void> => {
  const { branch } = await scene.branchOn(files)
  const plain = scene.directory("plain")
  writeFiles(plain, files)
  for (const step of steps) {
    execFileSync("sh", ["-ec", step], { cwd: plain })
    // A workspace of its own each: the next one has to find what this one committed.
    await scene.using(branch, async (workspace) => {
      await inside(scene, workspace, ["sh", "-ec", step])
      await committed(scene, workspace)
    })
    const by = { ...comparedBy(scene.manifest), times: false }
    assert.deepEqual(differences(lookAt(plain), await lookAtRef(scene, branch), by), [], step)
  }
  await noteDigest(scene, branch)
}

const commands: readonly (readonly [cases: string, name: string, files: Files, steps: readonly string[]])[] = [
  [
    "C1",
    "a file that is truncated down and up again ends in zeros",
    { f: "base" },
    [
      "printf abcdefgh > f; truncate -s 4 f; truncate -s 8 f",
      "truncate -s 2 f; truncate -s 6 f; : > g; truncate -s 3 g"
    ]
  ],
  [
    "C2",
    "an empty file is extended and written in its middle",
    { empty: "" },
    [
      "truncate -s 10000 empty; printf Z | dd of=empty bs=1 seek=9000 conv=notrunc status=none",
      "printf YY | dd of=empty bs=1 seek=9001 conv=notrunc status=none; truncate -s 300000 empty"
    ]
  ],
  ["C12", "b is removed and a takes its place", { a: "a", b: "b" }, ["rm b; mv a b"]],
  [
    "C13",
    "a directory is copied, removed, and its copy moved to where it was",
    { "a/b/c": "c", "a/b/d": "d" },
    [
      "cp -r a x; rm -r a; mv x a; rm a/b/c",
      "mkdir -p a/b/c; echo new > a/b/c/f",
      "rm -r a; mkdir a; echo only > a/only"
    ]
  ],
  [
    "C15",
    "a base file that was changed and then removed stays removed",
    { "d/f": "f", g: "g" },
    ["echo changed > d/f", "rm d/f", "mkdir d/f", "rm -r d; echo a file now > d"]
  ],
  [
    "C25",
    "edits by sed, a script, mv and rm are all in the checkpoint",
    { "src/a": "one two\n", "src/b": "b\n", "old/deep/c": "c\n", "gone/x": "x\n" },
    ["sed -i s/two/2/ src/a; mv src/b src/moved; rm -r gone; cp src/a copy; mv old new; echo >> new/deep/c"]
  ]
]

const identity =
  "export GIT_AUTHOR_DATE=@1700000000+0000 GIT_COMMITTER_DATE=@1700000000+0000 GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_EDITOR=true"

const gitSetup = `${identity}; git init -q -b main && git config user.name t && git config user.email t@example.invalid && git add . && git commit -qm first`

const gitWork = [
  "git switch -q -c topic",
  "echo topic >> src/b && git commit -qam topic",
  "git switch -q main",
  "echo main >> other/c && git mv other/c other/moved && git commit -qam main",
  "git switch -q topic",
  "git rebase -q main",
  "echo dirty >> f && echo new > new",
  "git stash -q -u",
  "git switch -q --detach HEAD~1 && git switch -q topic",
  "git stash pop -q",
  "git gc -q --prune=now"
].join(" && ")

const gitState =
  "git status --porcelain && git log --format='%H %T %s' --all && git fsck --strict 2>&1 && git stash list && cat f new src/b other/moved"

/**
 * What a JavaScript scaffolding tool was counted to do (C7), a fifth of it: 500 directories and 900 files made, 3,900 times `lstat`, 520 times
 * `readdir`. Prints a digest of all that it saw. All of it, and its time, is a row of the bench (`inside.scaffold`).
 */
const scaffold = `
  const fs = require("node:fs"), seen = require("node:crypto").createHash("sha256")
  fs.mkdirSync("made")
  const directories = ["made"], files = []
  for (let n = 1; n < 500; n += 1) {
    directories.push(directories[Math.floor((n - 1) / 5)] + "/d" + n)
    fs.mkdirSync(directories[n])
  }
  for (let n = 0; n < 900; n += 1) {
    files.push(directories[n % 500] + "/f" + n + ".js")
    fs.writeFileSync(files[n], "export const n" + n + " = " + n + "\\n")
  }
  for (let n = 0; n < 3900; n += 1) {
    const stat = fs.lstatSync(n % 3 === 0 ? directories[n % 500] : files[n % 900])
    seen.update(stat.isFile() ? "file " + stat.size + " " + stat.mode : "directory " + stat.mode)
  }
  for (let n = 0; n < 520; n += 1) seen.update(fs.readdirSync(directories[n % 500]).sort().join("/"))
  process.stdout.write(seen.digest("hex"))
`

export const caseScenarios: readonly WorkspaceScenario[] = [
  ...commands.map(
    ([id, name, files, steps]): WorkspaceScenario => ({
      rules: [id, "W7"],
      name: `${name}: here, in the commit and after it is opened again, as in a plain directory`,
      body: (scene) => asInPlainDirectory(scene, files, steps)
    })
  ),
  {
    rules: ["C5", "W8"],
    name: "a write of the same size right after a checkpoint is seen by the next one, however fast it comes",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "0000" })
      await scene.using(branch, async (workspace) => {
        for (let n = 1; n <= 12; n += 1) {
          const text = String(n).padStart(4, "0")
          if (n % 3 === 0) await inside(scene, workspace, `printf ${text} > f`)
          else await scene.run(workspace.write("f", text))
          const { commit } = await committed(scene, workspace)
          assert.equal(await textAt(scene, commit, "f"), text)
        }
      })
    }
  },
  {
    rules: ["C7", "K1"],
    name: "what a scaffolding tool makes and looks at a great many times is what it is in a plain directory, inside and in the commit",
    once: true,
    body: async (scene) => {
      const files = { "package.json": "{}" }
      const { branch } = await scene.branchOn(files)
      const plain = scene.directory("plain")
      writeFiles(plain, files)
      const want = nodeBeside(plain, scaffold)
      await scene.using(branch, async (workspace) => {
        assert.equal(await nodeInside(scene, workspace, scaffold), want)
        await committed(scene, workspace)
      })
      const by = { ...comparedBy(scene.manifest), times: false }
      assert.deepEqual(differences(lookAt(plain), await lookAtRef(scene, branch), by), [])
    }
  },
  {
    rules: ["C10"],
    name: "git switch, rebase, stash and gc come to the same in a fork as in a plain directory, and go on after a checkpoint",
    needs: [git],
    body: async (scene) => {
      const source = scene.directory("repository")
      writeFiles(source, { "src/a": "a\n", "src/b": "b\n", "other/c": "c\n", f: "f\n" })
      execFileSync("sh", ["-ec", gitSetup], { cwd: source })
      const { branch } = await scene.branchOn(source)
      const plainly = (script: string) =>
        execFileSync("sh", ["-ec", `${identity}; ${script}`], { cwd: source, encoding: "utf8" })
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, ["sh", "-ec", `${identity}; ${gitWork}`])
        await committed(scene, workspace)
      })
      plainly(gitWork)
      const want = plainly(gitState)
      await scene.using(branch, async (workspace) => {
        assert.equal(await inside(scene, workspace, ["sh", "-ec", `${identity}; ${gitState}`]), want)
        const commit = `${identity}; git add -A && git commit -qm more && git log --format=%H -1`
        assert.equal(await inside(scene, workspace, ["sh", "-ec", commit]), plainly(commit))
      })
      // Where git keeps to itself what was done, nothing is left.
      for (const { id } of await scene.run(scene.provider.left)) {
        await scene.run(scene.provider.discardLeft(id, "only looked"))
      }
    }
  },
  {
    rules: ["C17", "W13"],
    name: "what no tree can hold is listed with its reason, by the import and by the checkpoint, and everything else comes",
    body: async (scene) => {
      const source = scene.directory("source")
      writeFiles(source, { f: "f", "d/g": "g" })
      execFileSync("mkfifo", [join(source, "d", "pipe")])
      const { branch, receipt } = await scene.branchOn(source)
      const skipped = receipt.notes.filter(({ kind }) => kind === "skippedSpecialFile")
      assert.deepEqual(
        skipped.map(({ path }) => path.path),
        ["d/pipe"]
      )
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "mkfifo made && echo new > new && rm f && mkfifo f")
        const { skipped: told, skippedTotal } = await committed(scene, workspace)
        assert.deepEqual(told?.map(({ path, reason }) => `${reason} ${path}`).toSorted(), ["fifo f", "fifo made"])
        assert.equal(skippedTotal, 2)
      })
      assert.deepEqual([...(await lookAtRef(scene, branch)).keys()], ["d", "d/g", "new"])
    }
  },
  {
    rules: ["C17", "W13"],
    name: "what this user may not read is listed, and the import goes on",
    needs: [ordinaryUser],
    once: true,
    body: async (scene) => {
      const source = scene.directory("source")
      writeFileSync(join(source, "closed"), "closed")
      writeFileSync(join(source, "open"), "open")
      chmodSync(join(source, "closed"), 0)
      const { receipt, head } = await scene.branchOn(source)
      const unread = receipt.notes.filter(({ kind }) => kind === "skippedUnreadable")
      assert.deepEqual(
        unread.map(({ path }) => path.path),
        ["closed"]
      )
      assert.equal(await textAt(scene, head, "open"), "open")
    }
  },
  {
    rules: ["C18", "W4", "W13"],
    name: "a path deeper than any call can name is refused or told of, never cut short, and everything above it is kept",
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const dig = `
        const fs = require("node:fs"), name = "n".repeat(200)
        for (let level = 0; level < 22; level += 1) {
          fs.writeFileSync("file", String(level))
          fs.mkdirSync(name)
          process.chdir(name)
        }`
      await scene.using(branch, async (workspace) => {
        await nodeInside(scene, workspace, dig)
        const first = await Effect.runPromise(Effect.result(workspace.checkpoint()))
        if (first._tag === "Failure") {
          assert.match(refusalOf(first.failure).code, /^(FILE_SYSTEM_FAILURE|PATH_ERROR|UNAVAILABLE)$/)
          // Nothing is lost by it: without the depth it is committed.
          await inside(scene, workspace, ["sh", "-c", `cd ${`${"n".repeat(200)}/`.repeat(19)} && rm -r n*`])
          await committed(scene, workspace)
        } else {
          assert.ok(first.success.outcome === "committed")
          const deep = first.success.skipped?.filter(({ reason }) => reason === "pathTooLong") ?? []
          assert.ok(deep.length > 0, "paths of more than 4,095 bytes are in no tree, and nothing tells of them")
        }
      })
      const at = (level: number) => `${`${"n".repeat(200)}/`.repeat(level)}file`
      for (const level of [0, 10, 19]) assert.equal(await textAt(scene, branch, at(level)), String(level))
    }
  }
]
