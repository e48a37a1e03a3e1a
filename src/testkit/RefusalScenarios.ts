/**
 * What the suite asks of input that cannot be meant: a typed refusal with a remedy through every call, and nothing is changed (K3).
 * Promise: see WorkspaceConformance.ts. Rules: K3, W4, W10, W13, W21.
 */
import assert from "node:assert/strict"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { lookAt } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { headOf, lookAtRef, textAt, type WorkspaceScene } from "./WorkspaceScene.ts"
import { callByName } from "./WorkspaceWorker.ts"

/** A call by its name, its arguments, and the codes of which one is the right answer. */
type BadCall = readonly [call: string, args: readonly unknown[], codes: string | readonly string[]]

const bytes = Buffer.from("x")
const noPath = ["PATH_ERROR", "OUTSIDE_WORKSPACE", "ARGUMENT_INVALID"]
const noArgument = ["ARGUMENT_INVALID", "PATH_ERROR"]
const noBatch = [...noArgument, "EDIT_REFUSED"]
const badPaths: readonly unknown[] = [
  "",
  ".",
  "..",
  "a\0b",
  "../x",
  "d/../../x",
  "/etc/hostname",
  "n".repeat(256),
  7,
  null,
  undefined,
  {}
]

/** What no call on an open workspace may do, whatever is asked. */
const insideCalls = (): readonly BadCall[] => [
  ...badPaths.flatMap((path): BadCall[] => [
    ["read", [path], noPath],
    ["write", [path, "x"], noPath],
    ["splice", [path, 0, 0, bytes], noPath],
    ["edit", [path, "f", "g"], noPath],
    ["copy", ["f", path], noPath],
    ["move", ["f", path], noPath],
    ["remove", [path], noPath],
    ["apply", [[{ op: "write", path, bytes: "x" }]], [...noPath, "EDIT_REFUSED"]],
    ["apply", [[{ op: "symlink", path, target: "f" }]], [...noPath, "EDIT_REFUSED"]]
  ]),
  ["read", ["none"], "PATH_ERROR"],
  ["read", ["d"], "PATH_ERROR"],
  ["read", ["f/"], "PATH_ERROR"],
  ["read", ["f/below"], "PATH_ERROR"],
  ["list", ["f"], "PATH_ERROR"],
  ["list", ["none"], "PATH_ERROR"],
  ["stat", ["none"], "PATH_ERROR"],
  ["write", ["d", "x"], "PATH_ERROR"],
  ["write", ["f/below", "x"], "PATH_ERROR"],
  ["write", ["g", 7], noArgument],
  ["write", ["g"], noArgument],
  ...[-1, 1.5, Number.NaN, 0o10000, "755"].map((mode): BadCall => ["write", ["f", "x", { mode }], noArgument]),
  ...[-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "0", 2].flatMap((number): BadCall[] => [
    ["splice", ["f", number, 0, bytes], noArgument],
    ["splice", ["f", 0, number, bytes], noArgument]
  ]),
  ["edit", ["f", "absent", "x"], "EDIT_REFUSED"],
  ["edit", ["twice", "one", "x"], "EDIT_REFUSED"],
  ["edit", ["f", "", "x"], ["EDIT_REFUSED", "ARGUMENT_INVALID"]],
  ["copy", ["none", "x"], "PATH_ERROR"],
  ["copy", ["f", "twice"], "PATH_ERROR"],
  ["move", ["none", "x"], "PATH_ERROR"],
  ["move", ["d", "d/within"], "PATH_ERROR"],
  ["remove", ["none"], "PATH_ERROR"],
  ["apply", ["f"], noBatch],
  ["apply", [[{ op: "unknown", path: "f" }]], noBatch],
  ["apply", [[{ op: "chmod", path: "f", mode: -1 }]], noBatch],
  ["exec", [[]], ["ARGUMENT_INVALID", "SPAWN_FAILED"]],
  ["exec", [["no-such-program-anywhere"]], "SPAWN_FAILED"],
  ["exec", [["echo", "a\0b"]], ["ARGUMENT_INVALID", "SPAWN_FAILED"]],
  ["exec", ["true", { cwd: "none" }], ["PATH_ERROR", "SPAWN_FAILED"]],
  ["exec", ["true", { cwd: "f" }], ["PATH_ERROR", "SPAWN_FAILED"]],
  ["exec", ["true", { cwd: ".." }], ["OUTSIDE_WORKSPACE", "PATH_ERROR", "SPAWN_FAILED"]],
  ...[Number.NaN, -1, "100", Number.POSITIVE_INFINITY].map(
    (timeLimitMs): BadCall => ["exec", ["true", { timeLimitMs }], ["ARGUMENT_INVALID", "SPAWN_FAILED"]]
  ),
  ["exec", ["true", { env: { A: 7 } }], "ARGUMENT_INVALID"],
  ["grep", ["text"], "ARGUMENT_INVALID"],
  ["glob", [7], "ARGUMENT_INVALID"],
  ["checkpoint", [{ operationId: 7 }], "ARGUMENT_INVALID"],
  ["checkpoint", [{ keepTimes: "yes" }], "ARGUMENT_INVALID"]
]

/** The same for the provider; `branch` stands on `head`, and `full` is a directory with something in it. */
const providerCalls = (branch: string, full: string): readonly BadCall[] => [
  ["fork", ["brn_none"], "REF_NOT_FOUND"],
  ["fork", [""], ["REF_NOT_FOUND", "ARGUMENT_INVALID"]],
  ["fork", [7], "ARGUMENT_INVALID"],
  ["branch", ["brn_none"], "REF_NOT_FOUND"],
  ["commit", ["cmt_none"], "REF_NOT_FOUND"],
  ["readAt", ["cmt_none", "f"], "REF_NOT_FOUND"],
  ["readAt", [branch, "none"], "PATH_ERROR"],
  ["readAt", [branch, "d"], "PATH_ERROR"],
  ["readAt", [branch, "../x"], "OUTSIDE_WORKSPACE"],
  ["readAt", [branch, "/etc/hostname"], "OUTSIDE_WORKSPACE"],
  ...[-1, 1.5, Number.NaN].map((offset): BadCall => ["readAt", [branch, "f", { offset }], noArgument]),
  ["listAt", [branch, "f"], "PATH_ERROR"],
  ["statAt", [branch, "none"], "PATH_ERROR"],
  ["importDirectory", [{ source: join(full, "none") }], "IMPORT_REFUSED"],
  ["importDirectory", [{ source: join(full, "something") }], "IMPORT_REFUSED"],
  ["importDirectory", [{ source: "" }], ["IMPORT_REFUSED", "ARGUMENT_INVALID"]],
  ["importDirectory", [{}], "ARGUMENT_INVALID"],
  ["exportDirectory", [branch, full], "EXPORT_REFUSED"],
  ["exportDirectory", ["cmt_none", full], ["REF_NOT_FOUND", "EXPORT_REFUSED"]],
  ["exportPatch", [{ from: "cmt_none", to: branch }], "REF_NOT_FOUND"],
  ["candidate", ["cmt_none", { environment: `sha256:${"0".repeat(64)}`, parent: null }], "REF_NOT_FOUND"],
  ["pin", ["key", "cmt_none"], "REF_NOT_FOUND"],
  ["recover", ["wsp_none"], "REF_NOT_FOUND"],
  ["discardLeft", ["wsp_none", "why"], "REF_NOT_FOUND"],
  ["findOperation", [7], "ARGUMENT_INVALID"],
  ["applyTo", ["brn_none", [{ op: "write", path: "x", bytes: "x" }]], "REF_NOT_FOUND"],
  ["applyTo", [branch, [{ op: "write", path: "../x", bytes: "x" }]], "OUTSIDE_WORKSPACE"],
  ["applyTo", [branch, [{ op: "edit", path: "f", find: "absent", replace: "x" }]], "EDIT_REFUSED"],
  ["applyTo", [branch, "write"], noBatch],
  ["execOn", ["brn_none", "true"], "REF_NOT_FOUND"]
]

/** Every call is refused as it should be; tells of all that were not, at once. */
const allRefused = async (
  scene: WorkspaceScene,
  on: Parameters<typeof callByName>[0],
  calls: readonly BadCall[]
): Promise<void> => {
  const wrong: string[] = []
  for (const [call, args, codes] of calls) {
    const shown = args.map((one) => (typeof one === "number" ? String(one) : JSON.stringify(one))).join(", ")
    await scene
      .refused(codes, callByName(on, call, ...args))
      .catch((error: unknown) => wrong.push(`${call}(${shown}): ${(error as Error).message ?? error}`.slice(0, 400)))
  }
  assert.deepEqual(wrong, [])
}

/** What a store holds; its index may keep a log beside itself meanwhile. */
const standing = async (scene: WorkspaceScene) => {
  const { objects, branches, commits, layers, uniqueBytes } = await scene.run(scene.provider.stats)
  return { objects, branches, commits, layers, uniqueBytes }
}

const files = { f: "f", twice: "one and one", "d/g": "g" }

export const refusalScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K3", "W4", "W21"],
    name: "no call on a workspace takes a path, a number or an option that cannot be meant: each is refused by name, and nothing changes",
    once: true,
    body: async (scene) => {
      const { branch, head, source } = await scene.branchOn(files)
      const before = lookAt(source)
      await scene.using(branch, async (workspace) => {
        await allRefused(scene, workspace, insideCalls())
        assert.deepEqual(await scene.run(workspace.changes), [])
        assert.equal((await scene.run(workspace.checkpoint())).commit, head)
      })
      assert.deepEqual(lookAt(source), before)
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  },
  {
    rules: ["K3", "W4", "W13", "W21"],
    name: "no call of the provider takes what is not there or cannot be meant: each is refused by name, and nothing changes",
    once: true,
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(files)
      const full = scene.directory("full")
      writeFileSync(join(full, "something"), "something")
      const before = await standing(scene)
      await allRefused(scene, scene.provider, providerCalls(branch, full))
      await scene.refused("REF_NOT_FOUND", Effect.scoped(scene.provider.open("brn_none", scene.options)))
      await scene.refused("ARGUMENT_INVALID", Effect.scoped(scene.provider.open(branch, { projection: "x" as "copy" })))
      assert.deepEqual(await standing(scene), before)
      assert.equal(await headOf(scene, branch), head)
      assert.deepEqual([...lookAt(full).keys()], ["something"])
    }
  },
  {
    rules: ["K3", "W4"],
    name: "a batch of which one step is refused is not done at all, and the refusal names the step",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(files)
      const steps = [
        { op: "write", path: "f", bytes: "changed" },
        { op: "mkdir", path: "made" },
        { op: "move", from: "d", to: "made/d" },
        { op: "remove", path: "twice" },
        { op: "edit", path: "made/d/g", find: "absent", replace: "x" }
      ] as const
      await scene.using(branch, async (workspace) => {
        assert.equal((await scene.refused("EDIT_REFUSED", workspace.apply(steps)))["index"], 4)
        assert.deepEqual(await scene.run(workspace.changes), [])
        await scene.run(workspace.apply(steps.slice(0, 4)))
        assert.equal((await scene.run(workspace.checkpoint())).outcome, "committed")
      })
      const { id } = await scene.run(scene.provider.fork(head))
      assert.equal((await scene.refused("EDIT_REFUSED", scene.provider.applyTo(id, steps)))["index"], 4)
      assert.equal(await headOf(scene, id), head)
      await scene.run(scene.provider.applyTo(id, steps.slice(0, 4)))
      assert.deepEqual([await textAt(scene, id, "f"), await textAt(scene, id, "made/d/g")], ["changed", "g"])
      const [inOne, onBranch] = [await lookAtRef(scene, branch), await lookAtRef(scene, id)]
      assert.deepEqual([...inOne.keys()], [...onBranch.keys()])
    }
  },
  {
    rules: ["K3", "W4"],
    name: "a workspace that is closed says so in every call, and does nothing",
    once: true,
    body: async (scene) => {
      const { branch, head } = await scene.branchOn(files)
      const closed = await scene.using(branch, async (workspace) => workspace)
      for (const call of [closed.write("f", "x"), closed.read("f"), closed.exec("true"), closed.checkpoint()]) {
        assert.equal((await scene.refused("WORKSPACE_CLOSED", call))["state"], "closed")
      }
      assert.equal(await headOf(scene, branch), head)
    }
  }
]
