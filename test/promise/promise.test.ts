/**
 * The promise entry on a real store: what a host without Effect gets.
 * Promise: results, failures, cancelling and closing are what its declarations say. Rules: V2, V3, W9, W12, W14, P4, J6.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, afterEach, expect, test } from "vitest"
import { type Coppice, type Failure, open, type Progress, type Workspace } from "../../src/promise.ts"
import { startTask } from "../../src/promise/Task.ts"

const place = mkdtempSync(join(tmpdir(), "coppice-promise-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))
const opened: Coppice[] = []
afterEach(async () => {
  for (const coppice of opened.splice(0)) await coppice.close()
})

let number = 0
const store = () => join(place, `store-${number++}`)
const started = async (options: Parameters<typeof open>[0] = {}) => {
  const coppice = await open({ store: store(), ...options })
  opened.push(coppice)
  return coppice
}
const source = () => {
  const directory = mkdtempSync(join(place, "source-"))
  mkdirSync(join(directory, "src"))
  writeFileSync(join(directory, "src", "a.txt"), "hello\n")
  return directory
}
const failure = async (work: Promise<unknown>): Promise<Failure> => {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown
  )
  expect(error).toBeInstanceOf(Error)
  return error as Failure
}
/** A command that goes on, in a workspace: resolves to its promise once it has printed. */
const endless = async (workspace: Workspace, signal?: AbortSignal): Promise<{ readonly ended: Promise<Failure> }> => {
  let ended: Promise<Failure> | undefined
  await new Promise<void>((resolve) => {
    const options = { onOutput: () => resolve(), ...(signal === undefined ? {} : { signal }) }
    ended = failure(workspace.exec("echo on; exec sleep 1000", options))
  })
  return { ended: ended! }
}
const workspaceOf = async (coppice: Coppice): Promise<Workspace> =>
  coppice.workspaces.open(await coppice.workspaces.fork(await coppice.workspaces.importDirectory(source())))

test("W14 W9 L2 a directory is imported, forked, worked in and saved, with its progress told twice and its origin untouched", async () => {
  const coppice = await started()
  const directory = source()
  const heard: Progress[] = []
  const importing = coppice.workspaces.importDirectory(directory, { onProgress: (step) => heard.push(step) })
  const read: Progress[] = []
  for await (const step of importing.progress) read.push(step)
  const base = await importing
  expect(await importing.result).toEqual(base)
  expect(read).toEqual(heard)
  expect(read.at(-1)).toMatchObject({ phase: "commit", files: 1 })

  const branch = await coppice.workspaces.fork(base, "try")
  expect(branch).toMatchObject({ name: "try", head: base.commit })
  const written: Progress[] = []
  const workspace = await coppice.workspaces.open(branch, {
    onProgress: (step) => {
      written.push(step)
      throw new Error("a listener's own, of no effect")
    }
  })
  expect(written.at(-1)).toMatchObject({ phase: "materialise", files: 1, totalFiles: 1 })
  expect(workspace.projection).toBe("overlay")
  expect(await workspace.readText("src/a.txt")).toBe("hello\n")
  await workspace.write("bytes", new Uint8Array([0xff, 0xfe]))
  await expect(workspace.readText("bytes")).rejects.toMatchObject({ code: "NOT_TEXT", path: "bytes" })
  await workspace.remove("bytes")
  const ran = await workspace.exec("echo more >> src/a.txt; echo err >&2; exit 3", { timeLimit: "2 minutes" })
  expect({ code: ran.exitCode, err: ran.stderr.text, timedOut: ran.timedOut }).toEqual({
    code: 3,
    err: "err\n",
    timedOut: false
  })
  const changes = await workspace.changes()
  expect(changes.map(({ path, kind }) => [path, kind])).toEqual([["src/a.txt", "modified"]])
  const saved = await workspace.checkpoint("ran")
  expect(saved.outcome).toBe("committed")
  expect(await workspace.checkpoint()).toMatchObject({ outcome: "unchanged", commit: saved.commit })
  expect((await workspace.exec("sleep 100", { timeLimit: "50 millis" })).timedOut).toBe(true)
  await workspace.close()
  await workspace.close()

  expect(Buffer.from(await coppice.workspaces.readAt(saved, "src/a.txt")).toString()).toBe("hello\nmore\n")
  expect((await coppice.workspaces.log(branch)).commits.map((commit) => commit.message)).toContain("ran")
  expect(await coppice.workspaces.left()).toEqual([])
  expect(readFileSync(join(directory, "src", "a.txt"), "utf8")).toBe("hello\n")
})

test("W12 a workspace that is closed with changes keeps them, and leaving its block closes it", async () => {
  const coppice = await started()
  const base = await coppice.workspaces.importDirectory(source())
  {
    await using workspace = await coppice.workspaces.open(await coppice.workspaces.fork(base))
    await workspace.write("new.txt", "kept")
    const tree = await workspace.start(["cat"])
    tree.stdin.end("spoken")
    expect(await tree.wait()).toEqual({ code: 0, signal: null })
  }
  const [left] = await coppice.workspaces.left()
  expect(left).toMatchObject({ state: "kept", base: base.commit })
  const { branch } = await coppice.workspaces.recover(left!.id)
  expect(Buffer.from(await coppice.workspaces.readAt(branch, "new.txt")).toString()).toBe("kept")
})

test("K2 W1 V3 two branches are merged, a conflict names both sides, and a provider that cannot merge says so", async () => {
  const directory = source()
  const git = ["-C", directory, "-c", "user.name=a", "-c", "user.email=a@localhost"]
  for (const args of [
    ["init", "-q"],
    ["add", "-A"],
    ["commit", "-qm", "first"]
  ])
    execFileSync("git", [...git, ...args])
  const { workspaces } = await started({ workspaces: "git-worktree" })
  const base = await workspaces.importDirectory(directory)
  const [ours, theirs] = [await workspaces.fork(base, "ours"), await workspaces.fork(base, "theirs")]
  const write = (branch: { readonly id: string }, path: string, bytes: string) =>
    workspaces.applyTo(branch, [{ op: "write", path, bytes }])
  await write(ours, "ours.txt", "ours\n")
  await write(theirs, "theirs.txt", "theirs\n")
  expect(await workspaces.merge(theirs, ours, { dryRun: true })).toMatchObject({ outcome: "merged", commit: null })
  expect(await workspaces.merge(theirs, ours)).toMatchObject({ outcome: "merged" })
  expect((await workspaces.listAt(ours)).map(({ path }) => path)).toContain("theirs.txt")
  await write(ours, "src/a.txt", "ours\n")
  await write(theirs, "src/a.txt", "theirs\n")
  const conflict = await workspaces.merge(theirs, ours)
  expect(conflict).toMatchObject({ outcome: "conflict", conflicts: [{ path: "src/a.txt" }] })
  const other = await started()
  const empty = await other.workspaces.createEmpty()
  const [a, b] = [await other.workspaces.fork(empty.layer, "a"), await other.workspaces.fork(empty.layer, "b")]
  expect(await failure(other.workspaces.merge(a, b))).toMatchObject({ code: "UNSUPPORTED" })
})

test("V3 G2 G7 governance answers as its services do, and takes times as people write them", async () => {
  const coppice = await started({ preset: "minimal" })
  const goal = await coppice.goals.open({ commandId: "open", title: "a goal", budget: { usd: 1, slots: 2 } })
  const again = await coppice.goals.open({ commandId: "open", title: "a goal", budget: { usd: 1, slots: 2 } })
  expect(again).toEqual({ ...goal, replayed: true })
  await coppice.agents.register({ goal: goal.id, agentId: "a" })
  const todo = await coppice.todos.add({ goal: goal.id, title: "work" })
  const work = await coppice.todos.nextWork({ goal: goal.id, agent: "a", ttl: "10 minutes" })
  if (work._tag !== "claimed") throw new Error("nothing was claimed")
  expect(work.todo.id).toBe(todo.id)
  expect(work.lease.expiresAt - work.lease.acquiredAt).toBe(600_000)
  const renewed = await coppice.leases.renew({ fence: work.lease.fence, ttl: 60_000 })
  expect(renewed.version).toBe(work.lease.version + 1)
  await coppice.todos.complete({
    todo: todo.id,
    fence: renewed.fence,
    continuation: { kind: "noFollowUp" },
    agent: "a"
  })
  expect(await coppice.todos.get({ todo: todo.id })).toMatchObject({ state: "done" })
  expect(await coppice.quota.status({ goal: goal.id })).toMatchObject({ spent: { usd: 0, slots: 0 } })
  const journal = await coppice.journal.read()
  expect(journal.map((entry) => entry.type)).toContain("goal.opened")
  expect(await coppice.journal.verify()).toEqual({ ok: true, entries: journal.length, brokenAt: null })
})

test("V3 a failure is a plain error with tag, code, message, remedy and its fields, and nothing of Effect in it", async () => {
  const coppice = await started({ preset: "minimal" })
  const error = await failure(coppice.goals.get({ goal: "goal_none" }))
  expect(error).toMatchObject({ _tag: "NotFound", code: "NOT_FOUND", name: "NotFound", kind: "goal", id: "goal_none" })
  expect(Object.getPrototypeOf(error)).toBe(Error.prototype)
  expect(Object.keys(error).sort()).toEqual(["_tag", "code", "id", "kind", "remedy"])
  expect(JSON.parse(JSON.stringify(error))).toEqual({
    _tag: "NotFound",
    code: "NOT_FOUND",
    message: error.message,
    remedy: error.remedy,
    kind: "goal",
    id: "goal_none"
  })
  const todo = { todo: "t", agent: "a" }
  const refused: readonly (readonly [() => Promise<unknown>, object])[] = [
    [() => coppice.goals.open(undefined as never), { code: "BAD_ARGUMENT", argument: "input" }],
    [() => coppice.goals.open({ title: "", budget: { usd: 1 } }), { _tag: "InvalidInput" }],
    [() => coppice.leases.acquire({ ...todo, ttl: "a while" as never }), { code: "BAD_ARGUMENT", argument: "ttl" }],
    [() => open({ store: "" }), { _tag: "PresetOptionsError" }],
    [() => open({ preset: "research" as never }), { code: "BAD_ARGUMENT", argument: "preset" }],
    // Where nothing can be made: Node's own recursive mkdir would never return.
    [() => open({ store: "/proc/nowhere/store" }), { _tag: "AuthorityLocation", why: "notWritable" }]
  ]
  for (const [call, shape] of refused) {
    expect(await failure(call())).toMatchObject({ ...shape, remedy: expect.stringMatching(/\.$/) })
  }
})

test("V3 governance's calls without the object that they take are refused by name, timed ones and the journal's too", async () => {
  const { todos, leases, loop, journal } = await started()
  for (const call of [todos.nextWork, leases.acquire, leases.renew, leases.transfer]) {
    for (const input of [undefined, null, 5]) {
      expect(await failure((call as (input: unknown) => Promise<unknown>)(input))).toMatchObject({
        code: "BAD_ARGUMENT"
      })
    }
  }
  expect(() => loop.next(undefined as never)).toThrow("This call takes one object.")
  expect(await failure(journal.read(null as never))).toMatchObject({ code: "BAD_ARGUMENT" })
  expect(await failure(journal.read({ after: Number.NaN }))).toMatchObject({ code: "INVALID_INPUT" })
  expect(await journal.verify(null as never)).toMatchObject({ ok: true })
})

test("J6 P4 the minimal preset answers every workspace call with Unavailable and what to open instead", async () => {
  const coppice = await started({ preset: "minimal" })
  const calls = [
    coppice.workspaces.stats(),
    coppice.workspaces.importDirectory(place),
    coppice.workspaces.open("brn_1"),
    coppice.workspaces.fork("cmt_1")
  ]
  for (const call of calls) {
    expect(await failure(call)).toMatchObject({ code: "UNAVAILABLE", remedy: expect.stringContaining("standard") })
  }
  expect(coppice.assembly().parts.find((part) => part.name === "layerfs")).toMatchObject({ loaded: false })
})

test("W9 an aborted exec ends what it ran, throws Cancelled with the reason, and the workspace goes on", async () => {
  const coppice = await started()
  const workspace = await workspaceOf(coppice)
  const stop = new AbortController()
  const { ended } = await endless(workspace, stop.signal)
  stop.abort(new Error("changed my mind"))
  const error = await ended
  expect(error).toMatchObject({ _tag: "Cancelled", code: "CANCELLED", name: "AbortError" })
  expect((error.cause as Error).message).toBe("changed my mind")
  const left = await workspace.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
  expect(left.stdout.text).not.toContain("sleep 1000")
  const aborted = await failure(workspace.read("src/a.txt", { signal: AbortSignal.abort() }))
  expect(aborted.code).toBe("CANCELLED")
  expect(await workspace.readText("src/a.txt")).toBe("hello\n")
})

test("W12 closing ends calls that run and every workspace; later calls throw Closed, and closing twice is closing once", async () => {
  const directory = store()
  const coppice = await open({ store: directory })
  const workspace = await workspaceOf(coppice)
  const { ended } = await endless(workspace)
  await Promise.all([coppice.close(), coppice.close()])
  expect((await ended).code).toBe("CANCELLED")
  for (const call of [workspace.read("src/a.txt"), coppice.workspaces.stats(), coppice.goals.get({ goal: "g" })]) {
    expect((await failure(call)).code).toBe("CLOSED")
  }
  const again = await started({ store: directory })
  expect((await again.workspaces.verify()).ok).toBe(true)
})

test("W14 a task's failure reaches who watches and who waits, its steps are bounded, and a listener that throws ends nothing", async () => {
  const told: number[] = []
  const task = startTask<string, number>(
    async (tell) => {
      for (let step = 0; step < 1500; step++) tell(step)
      throw new Error("broken")
    },
    {
      onProgress: (step) => {
        told.push(step)
        throw new Error("a listener's own")
      }
    }
  )
  const read: number[] = []
  const watching = (async () => {
    for await (const step of task.progress) read.push(step)
  })()
  await expect(watching).rejects.toThrow("broken")
  await expect(task.result).rejects.toThrow("broken")
  expect(told).toHaveLength(1500)
  expect([read[0], read.at(-1), read.length]).toEqual([500, 1499, 1000])

  const endless = startTask<never, never>(
    (_, signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("stopped")))),
    {}
  )
  endless.cancel()
  await expect(endless).rejects.toThrow("stopped")
})
