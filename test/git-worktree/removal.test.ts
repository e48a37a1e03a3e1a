/** What goes with a workspace, and what must not. Rules: GW4, GW3, W12; C32, C33. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { expect, it } from "vitest"
import { keptInside, openGitWorktree } from "../../providers/git-worktree/index.ts"
import { stoppedAt } from "../layerfs/stoppedAt.ts"
import { oneFile } from "../oneFile.ts"
import { failure, forkOf, git, imported, picture, repository, run, scratch, shell, using } from "./ground.ts"

const as = "-c user.name=a -c user.email=a@example.org"

it("GW4 W12 C32 C33 commits, a rewritten history, a submodule and a repository made in place of the worktree's stay reachable by id; untracked work is kept; a link's target is intact", async () => {
  const module = repository({ m: "m\n" }, {}, "module")
  const outside = scratch()
  fs.writeFileSync(join(outside, "file"), "outside\n")
  const source = repository({ a: "a\n" })
  const before = picture(source)
  const { provider, receipt, store } = await imported(source)
  const inside = join(store, "git-worktree/projects", receipt.project, "inside.git")
  const reachable = (ids: readonly string[]): void => {
    for (const id of ids) expect(git(inside, "for-each-ref", "--contains", id)).toContain("refs/coppice/inside/")
  }
  // Discarded without any checkpoint.
  const discarded = await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    const said = await shell(
      workspace,
      `ln -s ${outside} out; git ${as} commit -q --allow-empty -m one; git rev-parse HEAD;
       git ${as} commit -q --amend --allow-empty -m amended; git rev-parse HEAD;
       git switch -q -c topic; echo t > t; git add t; git ${as} commit -q -m topic; git rev-parse HEAD; git switch -q --detach HEAD~1; git branch -q -D topic`
    )
    await run(workspace.discard("on purpose"))
    return said.trim().split("\n")
  })
  expect(discarded).toHaveLength(3)
  reachable(discarded)
  // A submodule that was set up inside, and a commit in it.
  const own = fs.mkdtempSync(join(scratch(), "bundle-"))
  git(module, "bundle", "create", "-q", join(own, "module.bundle"), "--all")
  const inModule = await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    await run(workspace.write(".bundle", fs.readFileSync(join(own, "module.bundle"))))
    const said = await shell(
      workspace,
      `git ${as} -c protocol.file.allow=always submodule --quiet add "$PWD/.bundle" sub && cd sub && echo n > n && git add n && git ${as} commit -q -m n && git rev-parse HEAD`
    )
    await run(workspace.discard("on purpose"))
    return said.trim()
  })
  reachable([inModule])
  // A repository of the attempt's own at the root.
  const branch = await forkOf(provider, receipt.layer)
  const instead = await using(provider, branch, async (workspace) => {
    const said = await shell(
      workspace,
      `rm .git; git init -q; git add a; git ${as} commit -q -m instead; git rev-parse HEAD`
    )
    await run(workspace.write("changed", "c"))
    await run(workspace.checkpoint({}))
    return said.trim()
  })
  reachable([instead])
  await using(provider, branch, async (workspace) => {
    expect(await shell(workspace, "git log --format=%s; git status --porcelain")).toBe("instead\n?? changed\n")
  })
  // Untracked work without a checkpoint: kept, its entry with it, until a command decides.
  const untracked = await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    await run(workspace.write("work", "w"))
    return workspace.id
  })
  expect((await run(provider.left)).map(({ id }) => id)).toEqual([untracked])
  expect(git(source, "worktree", "list", "--porcelain")).toContain(untracked)
  const recovered = await run(provider.recover(untracked, {}))
  expect(Buffer.from(await run(provider.readAt(recovered.branch, "work"))).toString()).toBe("w")
  expect(fs.readFileSync(join(outside, "file"), "utf8")).toBe("outside\n")
  expect(picture(source)).toEqual(before)
}, 180_000)

it("GW3 only entries of ours are removed: those of the user and of another store stay, also when their files are gone", async () => {
  const source = repository({ a: "a\n" })
  const users = join(scratch(), "users")
  git(source, "worktree", "add", "-q", users)
  git(source, "worktree", "lock", users)
  fs.rmSync(users, { recursive: true })
  const first = await imported(source)
  const second = await imported(source)
  await using(first.provider, await forkOf(first.provider, first.receipt.layer), async (workspace) => {
    await using(second.provider, await forkOf(second.provider, second.receipt.layer), async () => undefined)
    // A third one opens the first's store while a workspace is open there.
    const scope = await run(Scope.make())
    await run(Scope.provide(openGitWorktree({ store: first.store }), scope))
    await run(Scope.close(scope, Exit.void))
    // git tells them in the order of their paths, which are of random names.
    const listed = git(source, "worktree", "list", "--porcelain").match(/^worktree .*/gm)
    expect(new Set(listed)).toEqual(new Set([`worktree ${source}`, `worktree ${users}`, `worktree ${workspace.path}`]))
    expect(await run(Effect.map(workspace.exec(["git", "status"]), ({ exitCode }) => exitCode))).toBe(0)
  })
  expect(git(source, "worktree", "list", "--porcelain").match(/^worktree .*/gm)).toHaveLength(2)
}, 120_000)

it("GW4 C32 what was committed and stashed inside of a workspace without a changed file is listed, and can be fetched by what the list says", async () => {
  const source = repository({ a: "a\n" })
  const { provider, receipt, store } = await imported(source)
  expect(await run(keptInside({ store }))).toEqual([])
  const branch = await forkOf(provider, receipt.layer)
  const id = await using(provider, branch, async (workspace) => {
    const commit = await shell(
      workspace,
      `git ${as} commit -q --allow-empty -m "nothing but words"; git rev-parse HEAD; echo b >> a; git ${as} stash -q`
    )
    expect(await run(workspace.checkpoint({}))).toMatchObject({ outcome: "unchanged" })
    return commit.trim()
  })
  const kept = await run(keptInside({ store }))
  expect(kept).toContainEqual(
    expect.objectContaining({ project: receipt.project, name: "HEAD", id, subject: "nothing but words" })
  )
  const stash = kept.find(({ name }) => name === "refs/stash")!
  expect(stash.subject).toMatch(/^WIP on/)
  const elsewhere = scratch()
  git(elsewhere, "clone", "-q", source, "clone")
  const clone = join(elsewhere, "clone")
  git(clone, "fetch", "-q", stash.repository, stash.reference)
  expect(git(clone, "show", "FETCH_HEAD:a")).toBe("a\nb\n")
  expect(await run(keptInside({ store: scratch() }))).toEqual([])
})

it("W12 L12 what another process recovers is not removed under its capture: a discard is Busy, and hears afterwards what came of it", async () => {
  const { provider, receipt, store } = await imported(repository({ a: "a\n", b: "b\n" }))
  const branch = await forkOf(provider, receipt.layer)
  const id = await using(provider, branch, async (workspace) => {
    await shell(workspace, "echo second > a; rm b; echo new > c")
    return workspace.id
  })
  const decider = await oneFile(join(import.meta.dirname, "../layerfs/decider.ts"))
  const first = await stoppedAt(decider, [store, "git-worktree", "recover", id], "recovery.mounted")
  expect(await failure(provider.discardLeft(id, "no"))).toMatchObject({ _tag: "Busy" })
  const recovered = (JSON.parse(await first.go()) as { readonly branch: string }).branch
  expect(await run(provider.listAt(recovered, ""))).toMatchObject([{ path: "a" }, { path: "c" }])
  expect(await failure(provider.discardLeft(id, "no"))).toMatchObject({
    _tag: "RefNotFound",
    message: expect.stringContaining(recovered)
  })
  expect(fs.readdirSync(join(store, "git-worktree/work"))).toEqual([])
}, 30_000)
