/** Calls of git-worktree that their caller gives up, and what a failed pipe of two gits tells. Rules: W9, W10, W12, W14, W15, GW2, GW3. */
import { randomBytes } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import { setImmediate as turn } from "node:timers/promises"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { expect, it } from "vitest"
import { Database } from "../../src/sqlite/Database.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { mayMount, smallDisk } from "../layerfs/smallDisk.ts"
import { atEnd, failure, forkOf, git, imported, providerOn, put, repository, run, scratch, using } from "./ground.ts"

const many = (of: string) =>
  Object.fromEntries(Array.from({ length: 1500 }, (_, n) => [`${of}/f${n}`, `${of} ${n} `.repeat(500)]))

const until = async (seen: () => boolean): Promise<void> => {
  while (!seen()) await turn()
}

const below = (at: string): readonly string[] => (fs.existsSync(at) ? fs.readdirSync(at) : [])

it("W9 W10 W12 a checkpoint that is given up while its state is kept commits nothing and keeps nothing; the next one commits", async () => {
  const { provider, receipt, store } = await imported(repository({ a: "a\n" }))
  const branch = await forkOf(provider, receipt.layer)
  const packs = join(store, "git-worktree/projects", receipt.project, "states.git/objects/pack")
  await using(provider, branch, async (workspace) => {
    put(workspace.path, many("new"))
    const fiber = Effect.runFork(workspace.checkpoint({ operationId: "op_given_up" }))
    await until(() => below(packs).some((name) => name.startsWith("tmp_pack")))
    await run(Fiber.interrupt(fiber))
    expect(await run(provider.findOperation("op_given_up"))).toEqual({ state: "absent" })
    expect((await run(provider.branch(branch))).head).toBe(receipt.commit)
    expect(below(join(store, "git-worktree/trees"))).toHaveLength(1)
    expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "committed", changedPaths: 1501 })
  })
})

it("W9 W12 GW3 an opening that is given up while its files are written leaves no worktree, and the user's list as it was", async () => {
  const source = repository({ a: "a\n" }, many("beside"))
  const { provider, receipt, store } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  const building = join(store, "git-worktree/building")
  const fiber = Effect.runFork(Effect.scoped(Effect.asVoid(provider.open(branch))))
  await until(() => below(building).some((name) => below(join(building, name, "beside")).length > 0))
  await run(Fiber.interrupt(fiber))
  for (const name of ["building", "worktrees", "work"]) expect(below(join(store, "git-worktree", name))).toEqual([])
  // The row of a workspace stands once its tree is complete.
  const db = Database.open(join(store, "git-worktree/index.db"), { readOnly: true })
  const rows = db.get("SELECT count(*) AS n FROM workspaces")!["n"]
  db.close()
  expect(rows).toBe(0)
  expect(git(source, "worktree", "list").trim().split("\n")).toHaveLength(1)
  await using(provider, branch, async (workspace) => {
    expect(await run(workspace.list("beside"))).toHaveLength(1500)
  })
})

it.skipIf(!mayMount)(
  "W15 GW2 a disk that fills while the user's history is copied is told as a full disk, whichever of the two gits fails first, and nothing is left",
  async () => {
    const disk = smallDisk(16 * 2 ** 20)
    atEnd(disk.remove)
    const store = join(disk.path, "store")
    const provider = await providerOn(store)
    const source = repository({ noise: randomBytes(40 << 20) })
    for (let round = 0; round < 3; round += 1) {
      const error = await failure(provider.importDirectory({ source }))
      expect(error).toMatchObject({
        _tag: "FileSystemFailure",
        syscallCode: "ENOSPC",
        remedy: expect.stringMatching(/Free space/)
      })
    }
    expect(below(join(store, "git-worktree/projects"))).toEqual([])
  }
)

it("W14 GW2 the copy of the user's history tells that it goes on, by its bytes, before a file is stored", async () => {
  const told: Progress[] = []
  const noise = randomBytes(4 << 20)
  const provider = await providerOn(join(scratch(), "store"))
  const source = repository({ noise })
  await run(provider.importDirectory({ source, onProgress: (step) => void told.push(step) }))
  const history = told.filter(({ phase, files }) => phase === "store" && files === 0)
  expect(history.length).toBeGreaterThan(0)
  const bytes = told.filter(({ phase }) => phase === "store").map((step) => step.bytes)
  expect(bytes).toEqual(bytes.toSorted((a, b) => a - b))
  expect(bytes.at(-1)!).toBeGreaterThan(history.at(-1)!.bytes)
})
