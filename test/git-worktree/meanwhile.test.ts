/** What a user does to the repository while a workspace of it is open. Rules: GW2, GW3. */
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { entriesLeft } from "../../providers/git-worktree/index.ts"
import { forkOf, git, imported, picture, providerOn, repository, run, shell, using } from "./ground.ts"

it("GW2 GW4 after `git worktree repair` by the user git works inside as before, and nothing of it enters the user's repository", async () => {
  const source = repository({ a: "a\n" })
  const before = picture(join(source, ".git"))
  const { provider, receipt } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  await using(provider, branch, async (workspace) => {
    const file = join(workspace.path, ".git")
    const written = fs.readFileSync(file, "utf8")
    git(source, "worktree", "repair")
    expect(fs.readFileSync(file, "utf8")).not.toBe(written)
    expect(
      await shell(
        workspace,
        "echo b > b; git add b; git -c user.name=a -c user.email=a@b commit -qm b; git status --porcelain"
      )
    ).toBe("")
    expect(fs.readFileSync(file, "utf8")).toBe(written)
    git(source, "worktree", "repair")
    await run(workspace.checkpoint({}))
    expect(fs.readFileSync(file, "utf8")).toBe(written)
    // What an attempt puts there itself stays.
    await shell(workspace, "rm .git; ln -s nowhere .git")
    await run(workspace.exec(["true"]))
    expect(fs.readlinkSync(file)).toBe("nowhere")
  })
  await using(provider, branch, async (workspace) =>
    expect(await shell(workspace, "git log --format=%s")).toBe("b\nfirst\n")
  )
  expect(picture(join(source, ".git"))).toEqual(before)
})

it("GW2 GW3 W12 a repository that is moved meanwhile keeps its entry: that is told with its remedy, and the entry goes when it is back", async () => {
  const source = repository({ a: "a\n" })
  const { provider, receipt, store } = await imported(source)
  const moved = `${source}-moved`
  const paths: string[] = []
  const ids: string[] = []
  for (const how of ["discard", "close"]) {
    await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
      paths.push(workspace.path)
      ids.push(workspace.id)
      fs.renameSync(source, moved)
      if (how === "discard") await run(workspace.discard("on purpose"))
    })
    fs.renameSync(moved, source)
  }
  expect(await run(entriesLeft({ store }))).toEqual([])
  fs.renameSync(source, moved)
  const left = await run(entriesLeft({ store }))
  expect(left.map(({ workspace, path }) => [workspace, path])).toEqual(ids.map((id, n) => [id, paths[n]!]).toSorted())
  expect(left[0]).toMatchObject({ repository: join(source, ".git"), remedy: expect.stringContaining(left[0]!.path) })
  // As the remedy says.
  git(moved, "worktree", "unlock", paths[0]!)
  git(moved, "worktree", "prune")
  expect(git(moved, "worktree", "list")).not.toContain(paths[0])
  expect(git(moved, "worktree", "list")).toContain(paths[1])
  fs.renameSync(moved, source)
  await providerOn(store)
  expect(git(source, "worktree", "list")).not.toContain(paths[1])
  expect(fs.readdirSync(join(store, "git-worktree/left"))).toEqual([])
})
