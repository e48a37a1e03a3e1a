/**
 * What the suite asks of a merge, where the manifest declares it: both sides' work in one root, or every conflict and nothing else (K2).
 * Promise: see WorkspaceConformance.ts. Rules: K2, W8, W10, L4, L6.
 */
import assert from "node:assert/strict"
import type { MergeConflict, MergeSide } from "../workspace/WorkspaceValues.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { declares } from "./WorkspaceNeeds.ts"
import { committed, headOf, inside, textAt, type WorkspaceScene } from "./WorkspaceScene.ts"

const lines = (...changed: readonly (readonly [number, string])[]): string => {
  const text = Array.from({ length: 20 }, (_, n) => `line ${n}`)
  for (const [n, line] of changed) text[n] = line
  return `${text.join("\n")}\n`
}

const files = {
  "shared.txt": lines(),
  "sum.cjs": "exports.sum = (a, b) => a - b\n",
  "more.cjs": "exports.more = (a) => a\n",
  "test.cjs": `
const { sum } = require("./sum.cjs"), { more } = require("./more.cjs")
console.log(sum(2, 3), more(4))
`,
  "gone.txt": "removed by one, edited by the other\n"
}

type Edit = readonly [path: string, text: string | null]

const edited = (scene: WorkspaceScene, branch: string, edits: readonly Edit[]): Promise<string> =>
  scene.using(branch, async (workspace) => {
    for (const [path, text] of edits) {
      await scene.run(text === null ? workspace.remove(path) : workspace.write(path, text))
    }
    return (await committed(scene, workspace)).commit
  })

/** Two forks of one head, with an edit of their own each. */
const twoSides = async (scene: WorkspaceScene, ours: readonly Edit[], theirs: readonly Edit[]) => {
  const { branch, head } = await scene.branchOn(files)
  const other = await scene.run(scene.provider.fork(branch))
  const [mine, their] = [await edited(scene, branch, ours), await edited(scene, other.id, theirs)]
  return { branch, head, other: other.id, mine, their }
}

const sideText = async (scene: WorkspaceScene, side: MergeSide | null): Promise<string | null> =>
  side === null ? null : textAt(scene, side.commit, side.path)

const needs = [declares("merge", true)]
const ourLine = lines([2, "ours"])
const theirLine = lines([2, "theirs"])

export const mergeScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K2", "W10", "L4"],
    name: "work of two branches on different files and different lines is merged into one root, which passes the test of both",
    needs,
    body: async (scene) => {
      const { branch, head, other, mine, their } = await twoSides(
        scene,
        [
          ["sum.cjs", "exports.sum = (a, b) => a + b\n"],
          ["shared.txt", lines([1, "ours"])],
          ["ours.txt", "ours\n"]
        ],
        [
          ["more.cjs", "exports.more = (a) => a * 2\n"],
          ["shared.txt", lines([17, "theirs"])],
          ["gone.txt", null]
        ]
      )
      const dry = await scene.run(scene.provider.merge(other, branch, { dryRun: true }))
      assert.equal(dry.outcome, "merged")
      assert.equal(await headOf(scene, branch), mine)
      const merged = await scene.run(
        scene.provider.merge(other, branch, { expectedHead: mine, operationId: "op-merge" })
      )
      assert.ok(merged.outcome === "merged")
      assert.deepEqual([merged.base, merged.commit], [head, await headOf(scene, branch)])
      const { parent, secondParent } = await scene.run(scene.provider.commit(branch))
      assert.deepEqual([parent, secondParent], [mine, their])
      assert.equal(await textAt(scene, branch, "shared.txt"), lines([1, "ours"], [17, "theirs"]))
      await scene.using(branch, async (workspace) => {
        assert.equal(await inside(scene, workspace, [process.execPath, "test.cjs"]), "5 8\n")
        assert.equal(await inside(scene, workspace, "ls"), "more.cjs\nours.txt\nshared.txt\nsum.cjs\ntest.cjs\n")
      })
      assert.equal(await headOf(scene, other), their)
      assert.equal((await scene.run(scene.provider.merge(other, branch))).outcome, "unchanged")
      assert.equal(await headOf(scene, branch), merged.commit)
    }
  },
  {
    rules: ["K2", "W10", "L4"],
    name: "two edits of one line are a conflict that names the file with base and both sides; the branch stays as it was",
    needs: [...needs, declares("conflictReport", true)],
    body: async (scene) => {
      const { branch, head, other, mine, their } = await twoSides(
        scene,
        [
          ["shared.txt", ourLine],
          ["gone.txt", null],
          ["both.txt", "ours\n"]
        ],
        [
          ["shared.txt", theirLine],
          ["gone.txt", "edited\n"],
          ["both.txt", "theirs\n"],
          ["more.cjs", "exports.more = (a) => a * 2\n"]
        ]
      )
      for (const options of [{ dryRun: true }, {}]) {
        const answer = await scene.run(scene.provider.merge(other, branch, options))
        assert.ok(answer.outcome === "conflict")
        assert.deepEqual([answer.base, answer.ours, answer.theirs], [head, mine, their])
        const told = async ({ path, base, ours, theirs }: MergeConflict) => [
          path,
          await sideText(scene, base),
          await sideText(scene, ours),
          await sideText(scene, theirs)
        ]
        const conflicts = await Promise.all(answer.conflicts.map(told))
        assert.deepEqual(
          conflicts.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
          [
            ["both.txt", null, "ours\n", "theirs\n"],
            ["gone.txt", files["gone.txt"], null, "edited\n"],
            ["shared.txt", lines(), ourLine, theirLine]
          ]
        )
        assert.equal(await headOf(scene, branch), mine)
      }
      assert.deepEqual([await textAt(scene, branch, "shared.txt"), await headOf(scene, other)], [ourLine, their])
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K2", "W8", "L4"],
    name: "the same edit on both sides is no conflict, and times alone are none",
    needs,
    body: async (scene) => {
      const same: Edit = ["shared.txt", ourLine]
      const { branch, other } = await twoSides(scene, [same], [same, ["more.cjs", "exports.more = (a) => a * 3\n"]])
      assert.equal((await scene.run(scene.provider.merge(other, branch))).outcome, "merged")
      assert.equal(await textAt(scene, branch, "shared.txt"), ourLine)
      assert.equal(await textAt(scene, branch, "more.cjs"), "exports.more = (a) => a * 3\n")
    }
  },
  {
    rules: ["K2", "L6", "W10"],
    name: "a merge into a head that is not the expected one, of what is not there, or of what has no common past is refused",
    needs,
    once: true,
    body: async (scene) => {
      const { branch, head, other, mine } = await twoSides(scene, [["f", "ours"]], [["g", "theirs"]])
      const stale = await scene.refused("HEAD_MOVED", scene.provider.merge(other, branch, { expectedHead: head }))
      assert.deepEqual([stale["expected"], stale["actual"]], [head, mine])
      await scene.refused("REF_NOT_FOUND", scene.provider.merge("brn_none", branch))
      await scene.refused("REF_NOT_FOUND", scene.provider.merge(other, "brn_none"))
      const stranger = await scene.branchOn({ f: "of another project" })
      await scene.refused("MOVE_REFUSED", scene.provider.merge(stranger.branch, branch))
      assert.equal(await headOf(scene, branch), mine)
    }
  }
]
