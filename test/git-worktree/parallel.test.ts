/** Many at one repository: agents, adds, pollers, committers. Rules: GW1, GW3, W7, W11; C6, C30, C31, C34. */
import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { forkOf, git, imported, picture, providerOn, repository, run, scratch, shell, using } from "./ground.ts"

const identity = "-c user.name=a -c user.email=a@example.org"

it("GW3 W11 C30 32 agents in parallel: no lock failure, no lost work, and the user's repository is as it was", async () => {
  const source = repository({ a: "a\n", "b/c": "c\n" }, { untracked: "u\n" })
  const before = picture(source)
  const { provider, receipt } = await imported(source)
  const heads = await Promise.all(
    Array.from({ length: 32 }, async (_, agent) => {
      const branch = await forkOf(provider, receipt.layer)
      await using(provider, branch, async (workspace) => {
        await shell(
          workspace,
          `echo ${agent} > mine && git add mine && git ${identity} commit -qm ${agent} && echo more >> mine`
        )
        const outcome = await run(workspace.checkpoint({}))
        expect(outcome.outcome).toBe("committed")
      })
      return branch
    })
  )
  for (const [agent, branch] of heads.entries()) {
    expect(Buffer.from(await run(provider.readAt(branch, "mine"))).toString()).toBe(`${agent}\nmore\n`)
  }
  expect(picture(source)).toEqual(before)
  expect(await run(provider.verify())).toMatchObject({ ok: true })
}, 300_000)

it("GW3 C31 16 adds at once from four processes, two of them killed in the middle: serialised, and no orphan entry or half worktree stays", async () => {
  const source = repository({ a: "a\n" })
  const before = picture(source)
  const store = join(scratch(), "store")
  const { provider, receipt } = await imported(source, store)
  const life = await oneFile(join(import.meta.dirname, "programs/life.ts"))
  const branches = await Promise.all(Array.from({ length: 16 }, () => forkOf(provider, receipt.layer)))
  const killedAt: Readonly<Record<number, string>> = { 3: "gitWorktree.make.added", 11: "gitWorktree.make.filled" }
  const ends = await Promise.all(
    [0, 1, 2, 3].map(async (lane) => {
      const of: (readonly [number, number | null])[] = []
      for (let at = lane; at < branches.length; at += 4) {
        const crash = killedAt[at] === undefined ? {} : { COPPICE_CRASH_AT: killedAt[at] }
        const child = spawn(process.execPath, [life, store, source, branches[at]!, `op-${at}`], {
          env: { ...oneFileEnvironment(), ...crash },
          stdio: ["ignore", "ignore", "inherit"]
        })
        const [code] = (await once(child, "close")) as [number | null]
        of.push([at, code])
      }
      return of
    })
  )
  const codes = new Map(ends.flat())
  expect(codes).toEqual(new Map([...codes.keys()].map((at) => [at, killedAt[at] === undefined ? 0 : null])))
  await providerOn(store)
  for (const name of ["worktrees", "building", "work"])
    expect(fs.readdirSync(join(store, "git-worktree", name))).toEqual([])
  expect(git(source, "worktree", "list").trim().split("\n")).toHaveLength(1)
  expect(picture(source)).toEqual(before)
}, 300_000)

it("GW2 C34 a status that is polled 10 times a second never takes an index lock, while 500 commits are made", async () => {
  const source = repository({ a: "a\n" })
  const { provider, receipt, store } = await imported(source)
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    const directory = join(store, "git-worktree/worktrees", workspace.id, "git")
    const polls = { made: 0, failed: 0, over: false }
    const poller = (async () => {
      while (!polls.over) {
        const { exitCode } = await run(workspace.exec(["git", "status", "--porcelain"]))
        polls.made += 1
        if (exitCode !== 0) polls.failed += 1
        await promisify(setTimeout)(100)
      }
    })()
    // Whoever takes the lock beside the committer makes one of its commits fail.
    const committed = await promisify(execFile)(
      "sh",
      [
        "-c",
        `for i in $(seq 500); do echo $i > a; git ${identity} commit -qam $i || exit 1; done; git rev-list --count HEAD`
      ],
      { cwd: workspace.path, env: { PATH: process.env["PATH"], HOME: "/nonexistent" } }
    )
    polls.over = true
    await poller
    expect(committed.stdout).toBe("501\n")
    expect(polls.failed).toBe(0)
    expect(polls.made).toBeGreaterThan(1)
    expect(fs.existsSync(join(directory, "index.lock"))).toBe(false)
    await run(workspace.discard("looked"))
  })
  expect(git(source, "status", "--porcelain")).toBe("")
}, 300_000)

it("GW4 C6 eight processes commit in one workspace, one is killed: fsck is clean, the store verifies, and every commit that was told is kept", async () => {
  const source = repository({ a: "a\n" })
  const { provider, receipt, store } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  let told: readonly string[] = []
  await using(provider, branch, async (workspace) => {
    const one = (name: number): string =>
      `(for i in 1 2 3 4 5 6 7 8; do until git ${identity} commit -q --allow-empty -m ${name}.$i 2>/dev/null; do sleep 0.01; done; git rev-parse HEAD >> told.${name}; done)`
    const said = await shell(
      workspace,
      `${[1, 2, 3, 4, 5, 6, 7].map((name) => `${one(name)} &`).join("\n")}
       (while :; do git ${identity} commit -q --allow-empty -m victim; done) & victim=$!
       sleep 0.3; kill -9 $victim; pkill -9 -P $victim; rm -f "$(git rev-parse --git-dir)/index.lock" "$(git rev-parse --git-dir)/HEAD.lock"
       wait; git fsck --no-dangling 2>&1; cat told.*`
    )
    told = said.trim().split("\n")
    expect(told).toHaveLength(56)
    await run(workspace.checkpoint({}))
  })
  const inside = join(store, "git-worktree/projects", receipt.project, "inside.git")
  expect(git(inside, "fsck", "--no-dangling")).toBe("")
  for (const id of told) expect(git(inside, "cat-file", "-t", id)).toBe("commit\n")
  expect(await run(provider.verify())).toMatchObject({ ok: true })
}, 300_000)
