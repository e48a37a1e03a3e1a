/**
 * What the suite asks of the calls themselves: a workspace's and a branch's, what a command is given, who may change, how a head is moved.
 * Promise: see WorkspaceConformance.ts. Rules: W4, W14, W18, L2, L3, L7, L13.
 */
import assert from "node:assert/strict"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { type AuthorityGuard, AuthorityLost } from "../base/AuthorityGuard.ts"
import type { Progress } from "../workspace/WorkspaceValues.ts"
import { comparedBy, differences } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { declares } from "./WorkspaceNeeds.ts"
import { committed, headOf, inside, lookAtRef, nodeInside, textAt, type WorkspaceScene } from "./WorkspaceScene.ts"

const files = { f: "one\ntwo\n", "src/a.js": "const a = 1\n", "src/deep/b.js": "const b = a\n", "src/.hidden": "h\n" }

const textOf = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

const lost: AuthorityGuard = Effect.fail(
  new AuthorityLost({
    message: "The lease was taken over.",
    remedy: "Stop.",
    authority: "lease on todo_1, epoch 1",
    why: "epoch",
    workspace: null,
    quarantine: null
  })
)

const inOrder = (seen: readonly Progress[]): void => {
  assert.ok(seen.length > 0, "no progress was told")
  for (const [at, one] of seen.entries()) {
    const before = seen[at - 1]
    if (before?.phase !== one.phase) continue
    assert.ok(one.files >= before.files && one.bytes >= before.bytes, `a count of ${one.phase} went down`)
    if (one.totalFiles !== null) assert.ok(one.files <= one.totalFiles, `${one.files} of ${one.totalFiles} files`)
  }
}

/** A branch with four states: the text of `f` is its number. */
const fourStates = async (scene: WorkspaceScene) => {
  const { branch, head } = await scene.branchOn({ f: "0" })
  const states = [head]
  for (const text of ["1", "2", "3"]) {
    const operations = [{ op: "write", path: "f", bytes: text }] as const
    const actor = { call: `call-${text}` }
    states.push((await scene.run(scene.provider.applyTo(branch, operations, { actor }))).commit)
  }
  return { branch, states }
}

export const callScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["W4", "L3"],
    name: "each call of a workspace does what it says, byte for byte, and the commit is read without it just the same",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(files)
      const bytes = Buffer.from([0, 255, 10, 13, 0, 254])
      await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("new/deep/bytes", bytes, { mode: 0o640 }))
        assert.ok(Buffer.from(await scene.run(workspace.read("new/deep/bytes"))).equals(bytes))
        await scene.run(workspace.splice("f", 4, 3, Buffer.from("zwei")))
        await scene.run(workspace.edit("src/a.js", "a = 1", "a = 2"))
        await scene.run(workspace.copy("src", "copied"))
        await scene.run(workspace.move("src/deep", "moved"))
        await scene.run(workspace.remove("copied/.hidden"))
        await scene.run(
          workspace.apply([
            { op: "mkdir", path: "made", mode: 0o700 },
            { op: "symlink", path: "l", target: "f" }
          ])
        )
        const { type, size, mode } = await scene.run(workspace.stat("new/deep/bytes"))
        assert.deepEqual([type, size, scene.manifest.modes ? mode : 0o640], ["file", 6, 0o640])
        const globbed = await scene.run(workspace.glob("**/*.js"))
        assert.deepEqual(globbed.map(({ path }) => path).toSorted(), [
          "copied/a.js",
          "copied/deep/b.js",
          "moved/b.js",
          "src/a.js"
        ])
        const found = await scene.run(workspace.grep(/const \w = a/))
        assert.deepEqual(found.map(({ path, line }) => `${path}:${line}`).toSorted(), [
          "copied/deep/b.js:1",
          "moved/b.js:1"
        ])
        assert.equal(await inside(scene, workspace, "cat f l src/a.js"), "one\nzwei\none\nzwei\nconst a = 2\n")
        const changes = await scene.run(workspace.changes)
        const { changedPaths } = await committed(scene, workspace)
        assert.equal(changedPaths, changes.length)
      })
      assert.ok(Buffer.from(await scene.run(scene.provider.readAt(branch, "new/deep/bytes"))).equals(bytes))
      const range = { offset: 4, length: 4 }
      assert.equal(textOf(await scene.run(scene.provider.readAt(branch, "f", range))), "zwei")
      const listed = await scene.run(scene.provider.listAt(branch, "src"))
      assert.deepEqual(
        listed.map(({ path }) => path),
        ["src/.hidden", "src/a.js"]
      )
      assert.equal((await scene.run(scene.provider.statAt(branch, "l"))).target?.path, "f")
      const { paths } = await scene.run(scene.provider.globAt(branch, "**/b.js"))
      assert.deepEqual(
        paths.map(({ path }) => path),
        ["copied/deep/b.js", "moved/b.js"]
      )
      const { matches } = await scene.run(scene.provider.grepAt(branch, /zwei/))
      assert.deepEqual(
        matches.map(({ path, line, text }) => [path, line, text]),
        [["f", 2, "zwei"]]
      )
      assert.equal(await textAt(scene, head, "f"), files.f)
    }
  },
  {
    rules: ["W4", "L2"],
    name: "the same work by calls on the branch is one commit each, without a workspace, and comes to the same tree",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(files)
      const { id } = await scene.run(scene.provider.fork(branch))
      const steps = [
        { op: "write", path: "new/deep/f", bytes: "f", mode: 0o644 },
        { op: "splice", path: "f", offset: 0, deleteCount: 3, bytes: "eins" },
        { op: "edit", path: "src/a.js", find: "a = 1", replace: "a = 2" },
        { op: "move", from: "src/deep", to: "moved" },
        { op: "copy", from: "src", to: "copied" },
        { op: "remove", path: "src" },
        { op: "mkdir", path: "made", mode: 0o755 },
        { op: "symlink", path: "l", target: "moved/b.js" },
        { op: "chmod", path: "f", mode: 0o600 }
      ] as const
      const commits: string[] = [head]
      for (const step of steps) commits.push((await scene.run(scene.provider.applyTo(branch, [step]))).commit)
      assert.equal(new Set(commits).size, scene.manifest.modes ? 10 : new Set(commits).size)
      const again = await scene.run(
        scene.provider.applyTo(branch, [{ op: "mkdir", path: "made", mode: 0o755 }]).pipe(Effect.result)
      )
      if (again._tag === "Success") assert.equal(again.success.outcome, "unchanged")
      await scene.using(id, async (workspace) => {
        await scene.run(workspace.apply(steps))
        await committed(scene, workspace)
      })
      const by = { ...comparedBy(scene.manifest), times: false }
      assert.deepEqual(differences(await lookAtRef(scene, branch), await lookAtRef(scene, id), by), [])
      const { result, checkpoint } = await scene.run(
        scene.provider.execOn(branch, "cat l; echo more >> l", scene.options)
      )
      assert.deepEqual([result.stdout.text, checkpoint.outcome], ["const b = a\n", "committed"])
      assert.equal(await textAt(scene, branch, "moved/b.js"), "const b = a\nmore\n")
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["W4"],
    name: "a command gets its input, directory and variables, an environment that is allowed and no other, and its output whole or told as cut",
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn(files)
      process.env["COPPICE_CONFORMANCE"] = "of the host"
      scene.atEnd(() => delete process.env["COPPICE_CONFORMANCE"])
      await scene.using(branch, async (workspace) => {
        const run = (command: string, options: Parameters<typeof workspace.exec>[1]) =>
          scene.run(workspace.exec(command, options))
        assert.equal(
          (await run("cat; pwd -P", { stdin: "typed\n", cwd: "src" })).stdout.text,
          `typed\n${workspace.path}/src\n`
        )
        assert.equal((await run("cat", {})).stdout.text, "")
        const printed = `echo "$COPPICE_CONFORMANCE|$GIVEN"`
        assert.equal((await run(printed, { env: { GIVEN: "given" } })).stdout.text, "|given\n")
        const passed = await run(printed, { passEnv: ["COPPICE_CONFORMANCE"] })
        assert.deepEqual([passed.stdout.text, passed.passedEnv], ["of the host|\n", ["COPPICE_CONFORMANCE"]])
        const streamed: Buffer[] = []
        await run("echo a; echo b >&2; echo c", {
          onOutput: (stream, bytes) => void (stream === "stdout" && streamed.push(Buffer.from(bytes)))
        })
        assert.equal(Buffer.concat(streamed).toString(), "a\nc\n")
        const long = await run("head -c 3000000 /dev/zero | tr '\\0' x; echo end", {})
        const { totalBytes, truncated, bytes } = long.stdout
        assert.deepEqual([totalBytes, truncated, bytes.length <= 2 ** 20 + 4096], [3_000_004, true, true])
        assert.ok(long.stdout.text.startsWith("xxx") && long.stdout.text.endsWith("xend\n"))
        const spillDirectory = scene.directory("spill")
        const spilled = await run("head -c 3000000 /dev/zero | tr '\\0' y", { spillDirectory })
        assert.ok(spilled.stdout.spill?.startsWith(spillDirectory))
        assert.deepEqual(await scene.run(workspace.changes), [])
      })
    }
  },
  {
    rules: ["W4", "W11"],
    name: "a process that was started speaks both ways, goes on beside other calls, and is proven gone after its end",
    body: async (scene) => {
      const { branch } = await scene.branchOn(files)
      const echo = `process.stdin.on("data", (bytes) => process.stdout.write("heard " + bytes))`
      await scene.using(branch, async (workspace) => {
        await scene.run(
          Effect.scoped(
            Effect.gen(function* () {
              const started = yield* workspace.start([process.execPath, "-e", echo])
              const heard = new Promise<string>((resolve) => {
                let text = ""
                started.stdout.on("data", (bytes) => {
                  text += String(bytes)
                  if (text.includes("\n")) resolve(text)
                })
              })
              started.stdin.write("word\n")
              assert.equal(yield* Effect.promise(() => heard), "heard word\n")
              yield* workspace.write("beside", "beside")
              started.stdin.end()
              assert.deepEqual(yield* started.wait, { code: 0, signal: null })
              assert.equal(yield* started.provenGone, true)
            })
          )
        )
        await committed(scene, workspace)
      })
      assert.equal(await textAt(scene, branch, "beside"), "beside")
    }
  },
  {
    rules: ["W18", "W12"],
    name: "once authority is lost no call changes anything; the files are a commit on a branch of their own, and the branch stays",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(files)
      let holds = true
      const guard: AuthorityGuard = Effect.suspend(() => (holds ? Effect.void : lost))
      const kept = await scene.using(
        branch,
        async (workspace) => {
          await scene.run(workspace.write("mine", "mine"))
          holds = false
          const first = await scene.refused("AUTHORITY_LOST", workspace.write("f", "later"))
          holds = true
          for (const call of [workspace.write("f", "later"), workspace.exec("rm f"), workspace.checkpoint()]) {
            await scene.refused("AUTHORITY_LOST", call)
          }
          assert.equal(textOf(await scene.run(workspace.read("f"))), files.f)
          return first["quarantine"] as { readonly branch: string; readonly commit: string }
        },
        { guard }
      )
      assert.equal(await headOf(scene, branch), head)
      assert.deepEqual(
        [await textAt(scene, kept.commit, "mine"), await textAt(scene, kept.branch, "f")],
        ["mine", files.f]
      )
      const [left] = await scene.run(scene.provider.left)
      assert.deepEqual([left?.state, left?.quarantine], ["quarantined", kept])
    }
  },
  {
    rules: ["W14"],
    name: "an import, an export and a verification tell how far they are, and no count goes down",
    once: true,
    body: async (scene) => {
      const source = scene.directory("source")
      for (let n = 0; n < 200; n += 1) writeFileSync(join(source, `f${n}`), `file ${n}`)
      const seen: Progress[][] = [[], [], []]
      const into = (at: number) => (progress: Progress) => void seen[at]!.push(progress)
      const { commit } = await scene.run(scene.provider.importDirectory({ source, onProgress: into(0) }))
      await scene.run(scene.provider.exportDirectory(commit, scene.directory("export"), { onProgress: into(1) }))
      await scene.run(scene.provider.verify({ onProgress: into(2) }))
      for (const one of seen) inOrder(one)
      assert.equal(seen[0]!.at(-1)!.phase === "scan", false)
    }
  },
  {
    rules: ["W14", "W9"],
    name: "a first opening tells how far its files are, up to all of them, and one whose base is served tells nothing",
    once: true,
    body: async (scene) => {
      const source = scene.directory("source")
      for (let n = 0; n < 200; n += 1) writeFileSync(join(source, `f${n}`), `file ${n}`)
      const { branch } = await scene.branchOn(source)
      const seen: Progress[] = []
      const onProgress = (progress: Progress): void => void seen.push(progress)
      const projection = await scene.using(branch, async (workspace) => workspace.projection, { onProgress })
      if (projection === "lazy") return assert.deepEqual(seen, [])
      inOrder(seen)
      assert.deepEqual([...new Set(seen.map(({ phase }) => phase))], ["materialise"])
      const last = seen.at(-1)!
      assert.deepEqual([last.files, last.totalFiles], [200, 200])
      assert.equal(last.bytes, last.totalBytes)
    }
  },
  {
    rules: ["L7", "W10"],
    name: "a head is moved back only from where it was seen, is given back by undo, and an older state is worked on by a branch of its own",
    needs: [declares("history", true)],
    body: async (scene) => {
      const { branch, states } = await fourStates(scene)
      const [, one, two, three] = states as [string, string, string, string]
      await scene.refused("HEAD_MOVED", scene.provider.reset(branch, { to: one, expectedHead: two }))
      assert.equal(await headOf(scene, branch), three)
      const moved = await scene.run(scene.provider.reset(branch, { to: one, expectedHead: three, reason: "try again" }))
      assert.deepEqual(
        [moved.previous, moved.head, moved.undone.commits, moved.undone.calls.length],
        [three, one, 2, 2]
      )
      assert.equal(await textAt(scene, branch, "f"), "1")
      assert.equal(await textAt(scene, three, "f"), "3")
      const [entry] = (await scene.run(scene.provider.undoLog(branch))).moves
      assert.ok(entry !== undefined && JSON.stringify(entry).includes("try again"))
      const undone = await scene.run(scene.provider.undo(branch, { expectedHead: one }))
      assert.deepEqual([undone.head, await headOf(scene, branch)], [three, three])
      assert.equal(
        (await scene.refused("MOVE_REFUSED", scene.provider.undo(branch, { expectedHead: three })))["reason"],
        "nothingToUndo"
      )
      const older = await scene.run(scene.provider.rewind(branch, { to: two }))
      await scene.using(older.id, async (workspace) => {
        assert.equal(
          await nodeInside(scene, workspace, `process.stdout.write(require("node:fs").readFileSync("f"))`),
          "2"
        )
      })
      const stranger = await scene.branchOn({ f: "of another project" })
      await scene.refused("MOVE_REFUSED", scene.provider.reset(branch, { to: stranger.head, expectedHead: three }))
      assert.equal(await headOf(scene, branch), three)
    }
  }
]
