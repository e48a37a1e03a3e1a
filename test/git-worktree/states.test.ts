/** What is kept of a state, whatever becomes of the user's repository, and what the store takes. Rules: GW1, GW2, L8, L10, W7, W13, W15; C17. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { expect, it } from "vitest"
import { keepState, refOf } from "../../providers/git-worktree/States.ts"
import type { KeepInput } from "../../src/workspace/kit/SnapshotBackend.ts"
import {
  failure,
  forkOf,
  git,
  imported,
  picture,
  providerOn,
  put,
  repository,
  run,
  scratch,
  shell,
  using
} from "./ground.ts"

/** The user throws away what the import stood on, and everything that nothing names. */
const forget = (source: string): void => {
  git(source, "checkout", "-q", "--orphan", "anew")
  git(source, "commit", "-q", "-m", "anew")
  git(source, "branch", "-q", "-D", "main")
  git(source, "reflog", "expire", "--expire=now", "--all")
  git(source, "gc", "-q", "--prune=now")
}

it("GW2 L8 W7 a state borrows nothing: the user rewrites history and drops its objects, and every byte is still there; a new worktree says what is gone", async () => {
  const source = repository({ a: "a\n", "b/c": "c\n" }, { staged: "s\n", untracked: "u\n" })
  git(source, "add", "staged")
  const base = git(source, "rev-parse", "HEAD").trim()
  const { provider, receipt } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  git(source, "rm", "-q", "--cached", "staged")
  forget(source)
  expect(() => git(source, "cat-file", "-e", base)).toThrow()
  const target = join(scratch(), "export")
  await run(provider.exportDirectory(branch, target))
  expect(picture(target)).toMatchObject({ "b/c": expect.anything(), staged: expect.anything() })
  expect(await run(provider.verify())).toMatchObject({ ok: true })
  const error = await failure(Effect.scoped(provider.open(branch, {})))
  expect(error).toMatchObject({ code: "UNAVAILABLE", missing: [`commit ${base}`] })
  expect(fs.existsSync(join(source, ".git/worktrees"))).toBe(false)
}, 120_000)

it("GW1 GW3 while a worktree is open, the user's gc and prune leave its base and its entry alone, and find nothing wrong", async () => {
  const source = repository({ a: "a\n" })
  const { provider, receipt } = await imported(source)
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    await shell(workspace, "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside")
    forget(source)
    git(source, "worktree", "prune", "--expire=now")
    expect(git(source, "fsck", "--strict", "--no-dangling")).toBe("")
    expect(git(source, "worktree", "list", "--porcelain")).toContain(workspace.path)
    expect(await shell(workspace, "git log --format=%s; git fsck --no-dangling 2>&1; git status --porcelain")).toBe(
      "inside\nfirst\n"
    )
    await run(workspace.discard("looked"))
  })
}, 120_000)

it("GW2 L10 a state whose objects are damaged is named, not a byte of it is handed out, and no half worktree stays", async () => {
  const source = repository({ a: "a".repeat(2000) })
  const { provider, receipt, store } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  const packs = join(store, "git-worktree/projects", receipt.project, "states.git/objects/pack")
  for (const name of fs.readdirSync(packs).filter((one) => one.endsWith(".pack"))) {
    fs.chmodSync(join(packs, name), 0o600)
    const bytes = fs.readFileSync(join(packs, name))
    for (let at = 20; at < bytes.length - 20; at += 7) bytes[at] = bytes[at]! ^ 0x55
    fs.writeFileSync(join(packs, name), bytes)
  }
  expect(await failure(provider.readAt(branch, "a"))).toMatchObject({ code: "OBJECT_DAMAGED" })
  expect(await failure(Effect.scoped(provider.open(branch, {})))).toMatchObject({ code: "OBJECT_DAMAGED" })
  for (const name of ["worktrees", "building", "work"])
    expect(fs.readdirSync(join(store, "git-worktree", name))).toEqual([])
  expect(git(source, "worktree", "list").trim().split("\n")).toHaveLength(1)
  expect((await run(provider.verify())).ok).toBe(false)
}, 120_000)

it("GW1 W3 an empty project has a repository of the store's own; a plain directory is taken where that was asked for", async () => {
  const store = join(scratch(), "store")
  const provider = await providerOn(store, { plainDirectories: true })
  const plain = scratch()
  fs.writeFileSync(join(plain, "a"), "a\n")
  const { layer: empty } = await run(provider.createEmpty({ name: "empty" }))
  const { layer } = await run(provider.importDirectory({ source: plain }))
  for (const [from, status] of [
    [empty, ""],
    [layer, "?? a\n"]
  ] as const) {
    const branch = await forkOf(provider, from)
    await using(provider, branch, async (workspace) => {
      expect(await shell(workspace, "git status --porcelain; git log --format=%s")).toBe(`${status}empty\n`)
      await shell(workspace, "echo b > b; git add b; git -c user.name=a -c user.email=a@b commit -qm b")
      await run(workspace.checkpoint({}))
    })
    await using(provider, branch, async (workspace) => {
      expect(await shell(workspace, "git log --format=%s; cat b")).toBe("b\nempty\nb\n")
      await run(workspace.discard("looked"))
    })
  }
  expect(fs.readdirSync(plain)).toEqual(["a"])
}, 120_000)

it("GW2 L8 many checkpoints end in few packs, and every state is still what it was", async () => {
  const { provider, receipt, store } = await imported(repository({ a: "a\n" }))
  const branch = await forkOf(provider, receipt.layer)
  const heads: string[] = []
  for (let at = 0; at < 60; at += 1) {
    const outcome = await run(provider.applyTo(branch, [{ op: "write", path: "a", bytes: `${at}\n` }]))
    if (outcome.outcome === "committed") heads.push(outcome.commit)
  }
  expect(heads).toHaveLength(60)
  const packs = join(store, "git-worktree/projects", receipt.project, "states.git/objects/pack")
  expect(fs.readdirSync(packs).filter((name) => name.endsWith(".pack")).length).toBeLessThan(40)
  for (const [at, head] of heads.entries()) {
    expect(Buffer.from(await run(provider.readAt(head, "a"))).toString()).toBe(`${at}\n`)
  }
}, 300_000)

it("GW2 W13 W14 an import that is interrupted while files are stored leaves nothing of it, and the next one is whole", async () => {
  const source = repository(
    { a: "a\n" },
    Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`many/${at}`, `${at}\n`]))
  )
  const before = picture(source)
  const store = join(scratch(), "store")
  const provider = await providerOn(store)
  let tell: (() => void) | undefined
  const seen = new Promise<void>((resolve) => (tell = resolve))
  const fiber = Effect.runFork(
    provider.importDirectory({ source, onProgress: ({ phase }) => (phase === "store" ? tell?.() : undefined) })
  )
  await seen
  await run(Fiber.interrupt(fiber))
  expect(fs.readdirSync(join(store, "git-worktree/projects"))).toEqual([])
  const { files } = await run(provider.importDirectory({ source }))
  expect(files).toBe(301)
  expect(picture(source)).toEqual(before)
}, 120_000)

it("W13 C17 a directory that is swapped for a link while it is kept brings nothing from where that leads", async () => {
  const [source, outside, states] = [scratch(), scratch(), join(scratch(), "states.git")]
  put(source, { "d/1": "inside\n", "d/2": "inside\n", "d/e/3": "inside\n" })
  put(outside, { 2: "outside\n", "e/3": "outside\n" })
  git(scratch(), "init", "-q", "--bare", states)
  const swap = (): void => {
    if (fs.existsSync(`${source}-d`)) return
    fs.renameSync(join(source, "d"), `${source}-d`)
    fs.symlinkSync(outside, join(source, "d"))
  }
  const input: KeepInput = {
    snapshot: { project: "prj_1", commit: "cmt_1" },
    parents: [],
    tree: source,
    isImport: true,
    changes: null,
    leaveOut: [],
    message: "",
    at: 0,
    onProgress: swap,
    signal: new AbortController().signal
  }
  const none = { id: "prj_1", directory: states, inside: "", base: "", commonDir: "", objects: [] }
  await keepState({ ...none, states, algorithm: "sha1" }, input, { flush: false, entry: null, indexMtime: 0 })
  const kept = ["d/1", "d/2", "d/e/3"].map((at) => git(states, "cat-file", "-p", `${refOf("cmt_1")}:state/${at}`))
  expect(kept).toEqual(["inside\n", "inside\n", "inside\n"])
  fs.rmSync(`${source}-d`, { recursive: true })
})
