/**
 * Random work against a plain directory as the model: whatever is done to both, they stay the same tree (K1, K2).
 * Promise: every checkpoint is compared whole; a checkpoint is `unchanged` exactly when the model is; no commit changes later; a
 * failure tells its seed and what was done. Rules: K1, K2, W6, W7, W8, W22, L15; C1, C2, C4, C12, C13, C18.
 */
import assert from "node:assert/strict"
import type * as Effect from "effect/Effect"
import { sha256 } from "../base/Digest.ts"
import { fullProfile } from "../workspace/TreeDigest.ts"
import type { FileOperation, Workspace } from "../workspace/WorkspaceProvider.ts"
import { callOn, callOnModel, type Played, played, type Random, randomOf, toldCall } from "./FuzzOperations.ts"
import { playProgram } from "./InsidePrograms.ts"
import { type Files, writeFiles } from "./SourceFiles.ts"
import { type Compared, comparedBy, differences, digestOf, lookAt, type Tree } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { lookAtRef, lookInside, nodeBeside, nodeInside, type WorkspaceScene } from "./WorkspaceScene.ts"

/** What is played on. */
interface Play {
  readonly scene: WorkspaceScene
  readonly next: Random
  readonly model: string
  readonly by: Compared
  /** What was done so far, for a report. */
  readonly done: string[]
  readonly fresh: () => number
}

const base: Files = {
  "a/x": "ax",
  "a/y": "ay",
  "a/deep/z": "adz",
  "b/x": "bx",
  top: "top",
  l1: { link: "a" },
  l3: { link: "l1/x" },
  "links/base": "of the base"
}

const entries = (tree: Tree, by: Compared): Tree =>
  new Map([...tree].map(([path, entry]) => [path, by.links ? entry : { ...entry, linkGroup: null }]))

const same = ({ done, by }: Play, want: Tree, have: Tree, where: string, links = by.links): void => {
  const found = differences(entries(want, { ...by, links }), have, { ...by, links })
  assert.deepEqual(found.slice(0, 20), [], `${where}\n${done.join("\n")}`)
}

/** A batch of a program's operations, in the workspace and in the model. */
const playBoth = async ({ scene, next, model, done, fresh }: Play, workspace: Workspace): Promise<void> => {
  const operations: Played[] = []
  while (operations.length < 14) operations.push(...played(next, scene.manifest, fresh))
  const stdin = JSON.stringify(operations)
  const [plain, ends] = [
    JSON.parse(nodeBeside(model, playProgram, stdin)) as readonly string[],
    JSON.parse(await nodeInside(scene, workspace, playProgram, stdin)) as readonly string[]
  ]
  done.push(...operations.map((one, at) => `${JSON.stringify(one)} ${plain[at]}`))
  const unlike = operations.flatMap((one, at) =>
    plain[at] === ends[at] ? [] : [`${JSON.stringify(one)}: ${ends[at]} instead of ${plain[at]}`]
  )
  assert.deepEqual(unlike, [], done.join("\n"))
}

/** Up to `count` calls that have to succeed, each done to the model at once. */
const callsOf = ({ scene, next, model, done }: Play, count: number): FileOperation[] => {
  const calls: FileOperation[] = []
  for (let tries = 0; tries < 200 && calls.length < count; tries += 1) {
    const call = callOn(next, scene.manifest, model)
    if (call === undefined) continue
    callOnModel(model, call)
    done.push(toldCall(call))
    calls.push(call)
  }
  return calls
}

const callBoth = async (play: Play, workspace: Workspace): Promise<void> => {
  const { scene, next, done } = play
  if (next(2) === 0) {
    const calls = callsOf(play, 4)
    await scene.run(workspace.apply(calls)).catch((error: Error) => assert.fail(`${error.message}\n${done.join("\n")}`))
    return
  }
  for (let n = 0; n < 4; n += 1) {
    for (const call of callsOf(play, 1)) {
      await scene
        .run(callOf(workspace, call))
        .catch((error: Error) => assert.fail(`${error.message}\n${done.join("\n")}`))
    }
  }
}

/** The call of a workspace that does one operation by itself. */
const callOf = (workspace: Workspace, one: FileOperation): Effect.Effect<void, unknown> => {
  if (one.op === "write") return workspace.write(one.path, one.bytes, one.mode === undefined ? {} : { mode: one.mode })
  if (one.op === "splice") {
    return workspace.splice(one.path, one.offset, one.deleteCount, Buffer.from(one.bytes))
  }
  if (one.op === "remove") return workspace.remove(one.path)
  if (one.op === "move") return workspace.move(one.from, one.to)
  if (one.op === "copy") return workspace.copy(one.from, one.to)
  return workspace.apply([one])
}

/** The commit holds the model's tree: by its digest where that compares everything, else entry by entry. */
const holdsModel = async (play: Play, ref: string): Promise<void> => {
  const { scene, model } = play
  const want = lookAt(model)
  const options = { environment: sha256("here"), parent: null }
  const { profile, treeDigest } = await scene.run(scene.provider.candidate(ref, options))
  if (profile === fullProfile && treeDigest === digestOf(want)) return
  same(play, want, await lookAtRef(scene, ref), "as it is exported")
  assert.notEqual(profile, fullProfile, "the tree digest is another than that of the tree that is exported")
}

/** One opened workspace: batches, looks and checkpoints. */
const visit = async (play: Play, branch: string): Promise<void> => {
  const { scene, next, model, done } = play
  await scene.using(branch, async (workspace) => {
    same(play, lookAt(model), await lookInside(scene, workspace), "after it was opened", false)
    for (let checkpoint = 0; checkpoint < 2; checkpoint += 1) {
      const before = digestOf(entries(lookAt(model), play.by))
      await playBoth(play, workspace)
      if (next(3) > 0) await callBoth(play, workspace)
      if (next(3) === 0) await playBoth(play, workspace)
      same(play, lookAt(model), await lookInside(scene, workspace), "in the open workspace", false)
      const { outcome, commit } = await scene.run(workspace.checkpoint())
      done.push(outcome)
      const changed = digestOf(entries(lookAt(model), play.by)) !== before
      assert.equal(outcome, changed ? "committed" : "unchanged", done.join("\n"))
      await holdsModel(play, commit)
    }
  })
}

/** Calls on the branch itself, without a workspace. */
const direct = async (play: Play, branch: string): Promise<void> => {
  const { scene, done } = play
  const calls = callsOf(play, 5)
  if (calls.length === 0) return
  const { commit } = await scene
    .run(scene.provider.applyTo(branch, calls))
    .catch((error: Error) => assert.fail(`on the branch: ${error.message}\n${done.join("\n")}`))
  await holdsModel(play, commit)
}

export const fuzzScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K1", "K2", "W4", "W6", "W7", "W8", "L15"],
    name: "random work, checkpoints, restarts and forks of forks leave exactly what a plain directory has, and no commit changes later",
    body: async (scene) => {
      const { seed, rounds } = scene.fuzz
      const files: Files =
        scene.manifest.hardLinks === "none" ? base : { ...base, "links/base too": { hard: "links/base" } }
      const model = scene.directory("model")
      writeFiles(model, files)
      const next = randomOf(seed)
      let pairs = 0
      const by = { ...comparedBy(scene.manifest), times: false }
      const done = [`seed ${seed}`]
      const play: Play = { scene, next, model, by, done, fresh: () => (pairs += 1) }
      let { branch, head } = await scene.branchOn(files)
      const frozen: { readonly commit: string; readonly digest: string }[] = []
      for (let round = 0; round < rounds; round += 1) {
        if (round % 3 === 2) await direct(play, branch)
        else await visit(play, branch)
        head = (await scene.run(scene.provider.branch(branch))).head
        frozen.push({ commit: head, digest: digestOf(await lookAtRef(scene, head)) })
        if (next(2) === 0) await scene.reopen()
        if (next(2) === 0) branch = (await scene.run(scene.provider.fork(branch))).id
        done.push(`round ${round} ended`)
      }
      for (const { commit, digest } of frozen) {
        assert.equal(digestOf(await lookAtRef(scene, commit)), digest, `seed ${seed}: a commit changed`)
      }
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K1", "C1", "C2"],
    name: "a file that is truncated, extended, written in holes and spliced at random is what a buffer says, here and in every commit",
    body: async (scene) => {
      const { seed } = scene.fuzz
      const next = randomOf(seed + 1)
      let buffer = Buffer.alloc(200_000, "chunks that come again ")
      const { branch } = await scene.branchOn({ f: buffer })
      const put = (at: number, bytes: Buffer): void => {
        const longer = Buffer.alloc(Math.max(buffer.length, at + bytes.length))
        buffer.copy(longer)
        bytes.copy(longer, at)
        buffer = longer
      }
      await scene.using(branch, async (workspace) => {
        for (let step = 0; step < 30; step += 1) {
          const kind = next(4)
          const at = next(buffer.length + 100_000)
          const bytes = Buffer.alloc(1 + next(5000), next(256))
          if (kind === 0) {
            const program = `require("node:fs").truncateSync("f", ${at})`
            await nodeInside(scene, workspace, program)
            buffer = Buffer.concat([buffer.subarray(0, at), Buffer.alloc(Math.max(0, at - buffer.length))])
          } else if (kind === 1) {
            const program = `
              const fs = require("node:fs"), file = fs.openSync("f", "r+")
              fs.writeSync(file, Buffer.alloc(${bytes.length}, ${bytes[0]}), 0, ${bytes.length}, ${at})`
            await nodeInside(scene, workspace, program)
            put(at, bytes)
          } else {
            const offset = next(buffer.length + 1)
            const count = next(Math.min(buffer.length - offset, 20_000) + 1)
            await scene.run(workspace.splice("f", offset, count, bytes))
            buffer = Buffer.concat([buffer.subarray(0, offset), bytes, buffer.subarray(offset + count)])
          }
          const here = Buffer.from(await scene.run(workspace.read("f")))
          assert.ok(here.equals(buffer), `seed ${seed}, step ${step}: ${here.length} bytes of ${buffer.length}`)
          if (step % 6 !== 5) continue
          await scene.run(workspace.checkpoint())
          const kept = Buffer.from(await scene.run(scene.provider.readAt(branch, "f")))
          assert.ok(kept.equals(buffer), `seed ${seed}, step ${step}: the commit`)
        }
      })
    }
  }
]
