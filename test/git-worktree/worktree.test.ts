/** Worktrees of a user's repository: made, seen by git, and gone again. Rules: GW1, GW2, W7, W12. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { atEnd, failure, forkOf, git, imported, picture, repository, run, shell, using } from "./ground.ts"

const identity = "git config user.name inside && git config user.email inside@example.org"

it("GW1 GW2 a worktree shows the state with what is ignored and untracked, git inside says what it said in the source, and the source's .git is what it was but for the entry", async () => {
  const source = repository(
    { a: "a\n", "b/c": "c\n", ".gitignore": "ignored\n", staged: "1\n", gone: "g\n" },
    { ignored: "i\n", untracked: "u\n", link: { link: "b/c" }, dangling: { link: "/nowhere" } }
  )
  git(source, "branch", "other")
  git(source, "rm", "-q", "gone")
  git(source, "config", "alias.s", "status")
  writeFileSync(join(source, "staged"), "2\n")
  git(source, "add", "staged")
  writeFileSync(join(source, "a"), "changed\n")
  const status = git(source, "status", "--porcelain")
  const before = picture(source)
  const { provider, receipt } = await imported(source)
  expect(picture(source)).toEqual(before)
  const branch = await forkOf(provider, receipt.layer)
  await using(provider, branch, async (workspace) => {
    expect(await shell(workspace, "git status --porcelain")).toBe(status)
    expect(await shell(workspace, "git rev-parse HEAD other")).toBe(git(source, "rev-parse", "HEAD", "other"))
    expect(await shell(workspace, "git config alias.s; cat ignored untracked; readlink link dangling")).toBe(
      "status\ni\nu\nb/c\n/nowhere\n"
    )
    const entry = `worktrees/${workspace.id}`
    expect(git(source, "worktree", "list", "--porcelain")).toContain(workspace.path)
    expect(existsSync(join(source, ".git", entry, "locked"))).toBe(true)
    const open = picture(source, (path) => path.startsWith(".git/worktrees"))
    expect(open).toEqual(before)
  })
  expect(picture(source)).toEqual(before)
}, 120_000)

it("GW2 GW4 C10 what is committed, branched, stashed and configured inside enters nothing of the user's, a checkpoint's fork has it, and it stays reachable by id", async () => {
  const source = repository({ a: "a\n", ".gitignore": "secret\n" }, { secret: "the key\n" })
  const before = picture(source)
  const { provider, receipt, store } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  const ids = await using(provider, branch, async (workspace) => {
    const said = await shell(
      workspace,
      `${identity} && git add -f secret && git commit -qm secret && git rev-parse HEAD &&
       git switch -qc topic && echo b > b && git add b && git commit -qm b && git rev-parse HEAD &&
       echo stashed >> a && git stash -q && git rev-parse stash@{0} && git gc -q && git fsck --no-dangling 2>&1`
    )
    const outcome = await run(workspace.checkpoint({}))
    expect(outcome.outcome).toBe("committed")
    return said.trim().split("\n")
  })
  expect(picture(source)).toEqual(before)
  expect(git(source, "fsck", "--strict")).toBe("")
  for (const id of ids) expect(() => git(source, "cat-file", "-e", id)).toThrow()
  const project = join(store, "git-worktree/projects", receipt.project, "inside.git")
  for (const id of ids) expect(git(project, "cat-file", "-t", id)).toBe("commit\n")
  expect(git(project, "for-each-ref", "--format=%(refname)")).toContain("/refs/heads/topic")
  const again = await forkOf(provider, branch)
  await using(provider, again, async (workspace) => {
    expect((await shell(workspace, "git rev-parse topic~1 HEAD stash@{0}")).trim().split("\n")).toEqual(ids)
    expect(await shell(workspace, "git symbolic-ref HEAD; git status --porcelain; git fsck --no-dangling 2>&1")).toBe(
      "refs/heads/topic\n"
    )
    expect(await shell(workspace, "git stash pop -q && cat a")).toBe("a\nstashed\n")
    await run(workspace.discard("looked"))
  })
  expect(picture(source)).toEqual(before)
}, 120_000)

it("GW1 W2 W17 a store below /dev, where a tree that works only in its place cannot be shown, is refused with what to do; without isolation it works", async () => {
  const store = mkdtempSync("/dev/shm/coppice-worktree-")
  atEnd(() => rmSync(store, { recursive: true, force: true }))
  const { provider, receipt } = await imported(repository({ a: "a\n" }), join(store, "s"))
  const branch = await forkOf(provider, receipt.layer)
  expect(await failure(Effect.scoped(provider.open(branch)))).toMatchObject({
    code: "MOUNT_PATH_UNAVAILABLE",
    remedy: expect.stringContaining("Put the store elsewhere")
  })
  expect(await run(provider.left)).toEqual([])
  await using(
    provider,
    branch,
    async (workspace) => expect(await shell(workspace, "cat a; git status --short")).toBe("a\n"),
    {
      isolation: "off"
    }
  )
})

it("W17 GW1 a path of the origin that is hidden once more stops nobody, and what commands reach there is told", async () => {
  const source = repository({ a: "a\n", "sub/b": "b\n" }, { ".env": "TOKEN=1\n" })
  const { provider, receipt } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  const hide = [join(source, ".env"), join(source, "sub"), join(source, ".git", "objects"), source]
  await using(
    provider,
    branch,
    async (workspace) => {
      expect(workspace.isolation.level).toBe("enforced")
      expect(
        await shell(workspace, `cat a; git log --format=%s; cat '${source}/.env' 2> /dev/null || echo hidden`)
      ).toBe("a\nfirst\nhidden\n")
      expect(workspace.isolation.reachable).toContainEqual(expect.stringMatching(/objects: below what commands reach$/))
    },
    { hide }
  )
})
