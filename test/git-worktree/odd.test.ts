/** What an attempt, a user or a power cut leaves in odd places, and paths that git cuts in two. Rules: GW1, GW2, GW3, GW4, W15, W17, W21. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { lackOf, loopImage } from "../reflink/loopImage.ts"
import { atEnd, failure, forkOf, git, imported, providerOn, repository, run, scratch, shell, using } from "./ground.ts"

const gitDirectory = "g=$(git rev-parse --absolute-git-dir)"

const inside = async (script: string) => {
  const found = await imported(repository({ a: "a\n" }))
  const branch = await forkOf(found.provider, found.receipt.layer)
  await using(found.provider, branch, async (workspace) => {
    await shell(workspace, script)
    await run(workspace.checkpoint({}))
  })
  return { ...found, branch }
}

it("W21 GW2 a reference that an attempt wrote names no file outside of its git directory when a fork is made", async () => {
  const victim = join(scratch(), "victim")
  const up = "../".repeat(20)
  const { provider, branch } = await inside(`${gitDirectory}
    printf 'ref: refs/heads/main\\n${up}${victim.slice(1)} taken\\n' > $g/refs/heads/value
    mkdir "$g/refs/heads/x
.." && echo 'ref: refs/heads/main' > "$g/refs/heads/x
../worktree.json"
    git rev-parse HEAD | sed 's,$, ../../packed,' >> $g/packed-refs
    git update-ref refs/heads/sound HEAD; git symbolic-ref refs/heads/also refs/heads/sound; echo b > b`)
  await using(provider, await forkOf(provider, branch), async (workspace) => {
    expect(await shell(workspace, "git for-each-ref --format='%(refname)' refs/heads")).toBe(
      "refs/heads/also\nrefs/heads/main\nrefs/heads/sound\n"
    )
  })
  expect(fs.existsSync(victim)).toBe(false)
}, 60_000)

it("W17 GW2 a configuration that an attempt broke stands in no fork's way", async () => {
  const { provider, branch } = await inside(`${gitDirectory}
    git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside; echo '[broken' >> $g/config; echo b > b`)
  await using(provider, await forkOf(provider, branch), async (workspace) => {
    expect(
      await shell(workspace, `ls; sed -i '/broken/d' $(sed 's/gitdir: //' .git)/config; git log --format=%s`)
    ).toBe("a\nb\ninside\nfirst\n")
  })
}, 60_000)

it("GW2 GW4 C6 an object that cannot be read keeps neither a checkpoint nor the removal, and the others are kept", async () => {
  const { provider, branch } = await inside(`${gitDirectory}
    mkdir -p $g/objects/aa $g/objects/ab
    : > $g/objects/aa/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    echo rubbish > $g/objects/ab/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
    mkdir -p $g/objects/pack; echo rubbish > $g/objects/pack/pack-1234.idx
    git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside; echo b > b`)
  expect(await run(provider.left)).toEqual([])
  await using(provider, await forkOf(provider, branch), async (workspace) => {
    expect(await shell(workspace, "ls; git log --format=%s")).toBe("a\nb\ninside\nfirst\n")
  })
}, 60_000)

it("GW4 C32 a repository of another object format that was made inside stands in no way, and is kept as it is", async () => {
  const as = "git -c user.name=a -c user.email=a@b"
  const { provider, branch, store, receipt } = await inside(
    // Several packs: whether git takes an index of one for its own kind depends on the bits of ids.
    `rm .git; git init -q --object-format=sha256; ${as} commit -q --allow-empty -m other;
     for n in $(seq 20); do git rev-parse HEAD > n; git hash-object -w n > id; echo $n >> n; git hash-object -w n >> id;
       git pack-objects -q .git/objects/pack/pack < id > name; done; rm n id name; git prune-packed -q; echo b > b`
  )
  expect(await run(provider.left)).toEqual([])
  const other = join(store, "git-worktree/projects", receipt.project, "other")
  const [kept = ""] = fs.readdirSync(other)
  expect(git(join(other, kept), "log", "--format=%s")).toBe("other\n")
  await using(provider, await forkOf(provider, branch), async (workspace) => {
    expect(await shell(workspace, "git log --format=%s; git status --short")).toBe("first\n?? b\n")
  })
}, 60_000)

it("W15 GW2 a full disk is told as one, and the same call goes through when there is room", async (context) => {
  const lack = lackOf("ext4")
  context.skip(lack !== null, lack ?? "")
  const { path, remove } = loopImage("ext4", { bytes: 40 << 20 })
  atEnd(remove)
  const { provider, receipt } = await imported(repository({ a: "a\n" }), join(path, "store"))
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    await shell(workspace, "head -c 12000000 /dev/urandom > big")
    fs.writeFileSync(join(path, "filler"), Buffer.alloc(12 << 20))
    expect(await failure(workspace.checkpoint({}))).toMatchObject({ _tag: "FileSystemFailure", syscallCode: "ENOSPC" })
    fs.rmSync(join(path, "filler"))
    expect(await run(workspace.checkpoint({}))).toMatchObject({ outcome: "committed" })
  })
}, 60_000)

it("GW3 a power cut in the middle of a record does not close the store", async () => {
  const { receipt, store } = await imported(repository({ a: "a\n" }))
  const record = join(store, "git-worktree/worktrees/wsp_cut")
  fs.mkdirSync(record)
  fs.writeFileSync(join(record, "worktree.json"), "")
  const provider = await providerOn(store)
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    expect(await shell(workspace, "git status --short; cat a")).toBe("a\n")
  })
}, 60_000)

it("K2 GW2 a store whose path has a colon merges", async () => {
  const store = join(scratch(), "2026-11-30T12:00:00")
  const { provider, receipt } = await imported(repository({ a: "a\n" }), store)
  const [one, two] = [await forkOf(provider, receipt.layer), await forkOf(provider, receipt.layer)]
  await run(provider.applyTo(one, [{ op: "write", path: "b", bytes: "b" }]))
  await run(provider.applyTo(two, [{ op: "write", path: "c", bytes: "c" }]))
  expect(await run(provider.merge(two, one))).toMatchObject({ outcome: "merged", changedPaths: 1 })
  expect(await run(Effect.map(provider.listAt(one, ""), (files) => files.map(({ path }) => path)))).toEqual([
    "a",
    "b",
    "c"
  ])
}, 60_000)

it("W15 what a refused checkpoint had written does not count against the next one", async () => {
  const source = repository({ a: "a\n" })
  const provider = await providerOn(join(scratch(), "store"), { storeQuota: 2_000_000 })
  const receipt = await run(provider.importDirectory({ source }))
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    await shell(workspace, "head -c 4000000 /dev/urandom > big")
    expect(await failure(workspace.checkpoint({}))).toMatchObject({ _tag: "StoreQuotaExceeded" })
    await shell(workspace, "rm big; echo x > small")
    expect(await run(workspace.checkpoint({}))).toMatchObject({ outcome: "committed", changedPaths: 1 })
  })
}, 60_000)

it("GW1 a source with a line feed in its path is refused", async () => {
  const source = repository({ a: "a\n" }, {}, "two\nlines")
  const provider = await providerOn(join(scratch(), "store"))
  expect(await failure(provider.importDirectory({ source }))).toMatchObject({
    _tag: "ImportRefused",
    reason: "unsupportedRepository"
  })
}, 60_000)

it("K2 GW2 an empty directory against a file, and one that was changed here and removed there, are conflicts", async () => {
  const { provider, receipt } = await imported(repository({ a: "a\n" }, { d: null }))
  const [one, two] = [await forkOf(provider, receipt.layer), await forkOf(provider, receipt.layer)]
  await run(
    provider.applyTo(one, [
      { op: "mkdir", path: "x" },
      { op: "write", path: "y", bytes: "y" },
      { op: "remove", path: "d" }
    ])
  )
  await run(
    provider.applyTo(two, [
      { op: "write", path: "x", bytes: "x" },
      { op: "mkdir", path: "y" },
      { op: "chmod", path: "d", mode: 0o700 }
    ])
  )
  for (const [from, into] of [
    [two, one],
    [one, two]
  ] as const) {
    const outcome = await run(provider.merge(from, into))
    expect(outcome.outcome === "conflict" && outcome.conflicts.map(({ path, kind }) => `${path} ${kind}`)).toEqual([
      "d editDelete",
      "x type",
      "y type"
    ])
  }
}, 60_000)
