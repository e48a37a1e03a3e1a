/** Open workspaces under which somebody else takes something away. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import { failure, forkOf, ground, groundIn, run, shell, sharedGround, treeAt, using, write } from "./projFixture.ts"

const shared = sharedGround({ f: "origin's own" })

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it.skipIf(process.getuid!() !== 0)(
    "W12 W17 a tree that somebody unmounts from outside runs no command in what lay below it; its files are checkpointed all the same",
    async () => {
      const { provider, commit, origin } = await groundIn(await shared(), { f: "origin's own" })
      const branch = await forkOf(provider, commit)
      await using(provider, branch, { projection }, async (workspace) => {
        await shell(workspace, "echo new > g")
        const holder = /^\d+$/.exec(await pidOf(workspace.id))![0]
        const gone = spawnSync("nsenter", [
          "-t",
          holder,
          "-U",
          "-p",
          "-m",
          "--preserve-credentials",
          "umount",
          "-l",
          workspace.path
        ])
        expect(gone.status, String(gone.stderr)).toBe(0)
        const interrupted = { _tag: "WorkspaceClosed", state: "interrupted" }
        expect(await failure(workspace.exec("cat f"))).toMatchObject(interrupted)
        expect(await failure(workspace.enter(["true"]))).toMatchObject(interrupted)
        expect((await run(workspace.checkpoint())).outcome).toBe("committed")
      })
      expect(await treeAt(provider, branch)).toEqual({ f: "origin's own", g: "new\n" })
      expect(fs.readdirSync(origin)).toEqual(["f"])
      expect(await run(provider.left)).toEqual([])
    }
  )

  it("W12 W17 a mount path that exists and is not empty is covered, not touched", async () => {
    const { provider, commit, root } = await groundIn(await shared(), { f: "f" })
    const mountPath = join(root, "taken")
    write(mountPath, { mine: "mine", "deep/er": "er" })
    await using(provider, await forkOf(provider, commit), { projection, mountPath }, async (workspace) => {
      expect(await shell(workspace, "pwd; ls -A; rm -rf ./* ; echo x > mine")).toBe(`${mountPath}\nf\n`)
      expect(fs.readFileSync(join(mountPath, "mine"), "utf8")).toBe("mine")
      await run(workspace.discard("done"))
    })
    expect([fs.readdirSync(mountPath), fs.readFileSync(join(mountPath, "deep/er"), "utf8")]).toEqual([
      ["deep", "mine"],
      "er"
    ])
  })

  it("W12 a store that is deleted under an open workspace gives typed errors and ends with its scope", async () => {
    const { provider, commit, store, origin } = await ground({ f: "f" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, { projection }, async (workspace) => {
      await shell(workspace, "echo new > g")
      await removeTree(join(store, "layerfs"))
      const failed = await failure(workspace.checkpoint())
      expect(failed).toMatchObject({ remedy: expect.stringMatching(/./), message: expect.stringMatching(/./) })
      expect(await failure(Effect.scoped(provider.open(branch, { projection })))).toMatchObject({
        remedy: expect.stringMatching(/./)
      })
    })
    expect(fs.readFileSync(join(origin, "f"), "utf8")).toBe("f")
  })
})

/** The first process of the namespaces of a workspace, by the path of its mount table. */
const pidOf = async (id: string): Promise<string> => {
  const found = fs.readdirSync("/proc").find((pid) => {
    try {
      return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`/${id}/mounts`)
    } catch {
      return false
    }
  })
  const [child] = fs.readFileSync(`/proc/${found}/task/${found}/children`, "utf8").trim().split(" ")
  return child!
}
