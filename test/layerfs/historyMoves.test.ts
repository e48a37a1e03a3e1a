/** Rewind, reset and undo: nothing is lost, nothing moves twice, and open workspaces keep their files. Rules: L7, L8, W4, W10. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it, vi } from "vitest"
import type { MovedHead, ResetOptions, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { forkOf, ground, using } from "./projFixture.ts"
import { put } from "./storeChange.ts"
import { commitInto, importInto, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child } from "./storeKills.ts"
import { failure, provider, run } from "./storeProvider.ts"

vi.setConfig({ testTimeout: 240_000 })

const write = async (fs: WorkspaceProvider, branch: string, bytes: string, actor = {}): Promise<string> =>
  (await run(fs.applyTo(branch, [{ op: "write", path: "f", bytes }], { actor, message: bytes }))).commit

const seeded = async () => {
  const source = scratch()
  writeFileSync(join(source, "f"), "0")
  const directory = join(scratch(), "s")
  const fs = await provider(directory)
  const receipt = await run(fs.importDirectory({ source }))
  const branch = (await run(fs.fork(receipt.layer, { name: "work" }))).id
  const reset = (to: string, expectedHead: string, options: Partial<ResetOptions> = {}): Promise<MovedHead> =>
    run(fs.reset(branch, { to, expectedHead, ...options }))
  const head = async () => (await run(fs.branch(branch))).head
  const text = async (ref = branch) => Buffer.from(await run(fs.readAt(ref, "f"))).toString()
  return { fs, directory, branch, base: receipt.commit, reset, head, text }
}

describe("reset and undo", () => {
  it("L7 a span with more names than are told says that it is not told whole", async () => {
    const { fs, branch, base, reset } = await seeded()
    let last = base
    for (let n = 0; n < 1000; n += 1) last = await write(fs, branch, `x${n}`, { goal: `g${n}`, call: "c" })
    const whole = await reset(base, last)
    expect([whole.undone.complete, whole.undone.goals.length, whole.undone.calls]).toEqual([true, 1000, ["c"]])
    await run(fs.undo(branch, { expectedHead: base }))
    last = await write(fs, branch, "one more", { goal: "another", call: "c" })
    const cut = await reset(base, last)
    expect([cut.undone.complete, cut.undone.goals.length, cut.undone.commits]).toEqual([false, 1000, 1001])
  })

  it("L7 moves the head, tells whose commits it leaves, keeps the old head in the undo log, and gives it back", async () => {
    const { fs, branch, base, reset, head, text } = await seeded()
    const first = await write(fs, branch, "1", { call: "c1", agent: "a1", goal: "g1" })
    const second = await write(fs, branch, "2", { call: "c2", agent: "a2", goal: "g1" })
    const third = await write(fs, branch, "3", { call: "c3" })
    const moved = await reset(first, third, { reason: "went wrong", actor: { agent: "mira" } })
    expect(moved).toMatchObject({
      branch,
      number: 1,
      head: first,
      previous: third,
      openWorkspaces: [],
      effects: { state: "unknown" },
      durability: "full",
      undone: { commits: 2, complete: true, calls: ["c3", "c2"], agents: ["a2"], goals: ["g1"], withoutGoal: 1 }
    })
    expect(moved.undone.since).toBe((await run(fs.commit(first))).at)
    expect([await head(), await text()]).toEqual([first, "1"])
    // The commits that were left stay readable, and further work goes on from the new head.
    expect([await text(third), await text(second)]).toEqual(["3", "2"])
    const other = await write(fs, branch, "other", { call: "c4" })
    const back = await run(fs.undo(branch, { expectedHead: other }))
    expect(back).toMatchObject({ number: 2, head: third, previous: other, undone: { commits: 1, calls: ["c4"] } })
    expect(await text()).toBe("3")
    const { moves } = await run(fs.undoLog(branch))
    expect(moves).toMatchObject([
      { number: 2, kind: "undo", from: other, to: third, undoes: 1, undoneBy: null },
      {
        number: 1,
        kind: "reset",
        from: third,
        to: first,
        undoes: null,
        undoneBy: 2,
        reason: "went wrong",
        actor: { agent: "mira" }
      }
    ])
    // A move that was taken back is not taken back again; the undo itself may be, by its number.
    expect(await failure(fs.undo(branch, { expectedHead: third }))).toMatchObject({ reason: "nothingToUndo" })
    expect(await failure(fs.undo(branch, { expectedHead: third, number: 1 }))).toMatchObject({
      reason: "nothingToUndo"
    })
    expect(await run(fs.undo(branch, { expectedHead: third, number: 2 }))).toMatchObject({ head: other })
    const one = await run(fs.undoLog(branch, { limit: 2 }))
    const rest = await run(fs.undoLog(branch, { after: one.next! }))
    expect([...one.moves, ...rest.moves].map(({ number }) => number)).toEqual([3, 2, 1])
    expect(base).not.toBe(first)
  })

  it("L7 several resets are taken back one after the other, the newest first", async () => {
    const { fs, branch, base, reset, text } = await seeded()
    const first = await write(fs, branch, "1")
    const second = await write(fs, branch, "2")
    await reset(first, second)
    await reset(base, first)
    expect(await run(fs.undo(branch, { expectedHead: base }))).toMatchObject({ head: first })
    expect(await run(fs.undo(branch, { expectedHead: first }))).toMatchObject({ head: second })
    expect(await text()).toBe("2")
    expect(await failure(fs.undo(branch, { expectedHead: second }))).toMatchObject({ reason: "nothingToUndo" })
  })

  it("L7 W10 another head is refused with nothing moved, an operation moves once, and what cannot be meant is typed", async () => {
    const { fs, branch, base, reset, head } = await seeded()
    const first = await write(fs, branch, "1")
    const stale = await failure(fs.reset(branch, { to: base, expectedHead: base }))
    expect(stale).toMatchObject({ _tag: "HeadMoved", expected: base, actual: first })
    const moved = await reset(base, first, { operationId: "op_r" })
    expect(await reset(base, first, { operationId: "op_r" })).toEqual(moved)
    expect(await run(fs.findOperation("op_r"))).toEqual({ state: "recorded", commit: base })
    const second = await write(fs, branch, "2")
    expect(await reset(base, first, { operationId: "op_r" })).toEqual(moved)
    expect(await head()).toBe(second)
    // The head stands there already: nothing to record.
    expect(await reset(second, second)).toMatchObject({
      number: null,
      undone: { commits: 0 },
      effects: { state: "none" }
    })
    expect((await run(fs.undoLog(branch))).moves.length).toBe(1)
    const operationId = (await run(fs.commit(second))).operationId
    const reused = await failure(fs.reset(branch, { to: base, expectedHead: second, operationId }))
    expect(reused).toMatchObject({ _tag: "MoveRefused", reason: "operationUsed" })
    const elsewhere = await run(fs.createEmpty())
    const foreign = await failure(fs.reset(branch, { to: elsewhere.commit, expectedHead: second }))
    expect(foreign).toMatchObject({ _tag: "MoveRefused", reason: "otherProject" })
    expect(await failure(fs.reset(branch, { to: "cmt_x", expectedHead: second }))).toMatchObject({
      _tag: "RefNotFound"
    })
    expect(await failure(fs.reset("brn_x", { to: base, expectedHead: base }))).toMatchObject({ _tag: "RefNotFound" })
    const other = (await run(fs.fork(base))).id
    expect(await failure(fs.undo(other, { expectedHead: base }))).toMatchObject({ reason: "nothingToUndo" })
    expect(await head()).toBe(second)
  })

  it("L7 a reset to a newer state, or to another branch's, leaves exactly the commits that are not below it", async () => {
    const { fs, branch, base, reset } = await seeded()
    const first = await write(fs, branch, "1", { call: "c1" })
    const second = await write(fs, branch, "2", { call: "c2" })
    const side = (await run(fs.fork(first))).id
    const sided = await write(fs, side, "side", { call: "s1" })
    await reset(base, second)
    expect(await reset(second, base)).toMatchObject({ undone: { commits: 0, since: null }, effects: { state: "none" } })
    expect(await reset(sided, second)).toMatchObject({ head: sided, undone: { commits: 1, calls: ["c2"] } })
  })
})

describe("operation ids", () => {
  it("W10 G75 an id that stands for another request is refused by name, whatever asks with it, and nothing is done", async () => {
    const { fs, branch, base, reset } = await seeded()
    const other = (await run(fs.fork(base, { name: "other", operationId: "op_fork" }))).id
    const apply = (to: string, operationId: string) =>
      fs.applyTo(to, [{ op: "write", path: "f", bytes: "x" }], { operationId })
    const first = await run(apply(branch, "op_commit"))
    expect(await run(apply(branch, "op_commit"))).toEqual(first)
    await reset(base, (first as { readonly commit: string }).commit, { operationId: "op_reset" })
    const source = scratch()
    const receipt = await run(fs.importDirectory({ source, operationId: "op_import" }))
    expect(await run(fs.importDirectory({ source, operationId: "op_import" }))).toEqual(receipt)
    expect((await run(fs.fork(base, { name: "other", operationId: "op_fork" }))).id).toBe(other)
    const used = { _tag: "OperationUsed", code: "OPERATION_USED" }
    const before = (await run(fs.stats)).commits
    for (const id of ["op_commit", "op_fork", "op_reset", "op_import"]) {
      expect(await failure(apply(other, id)), id).toMatchObject({ ...used, operationId: id })
    }
    for (const id of ["op_fork", "op_reset", "op_import"]) {
      expect(await failure(apply(branch, id)), id).toMatchObject({ ...used, operationId: id })
    }
    for (const id of ["op_commit", "op_reset", "op_import"]) {
      expect(await failure(fs.fork(base, { operationId: id })), id).toMatchObject(used)
    }
    expect(await failure(fs.fork(branch, { operationId: "op_fork" }))).toMatchObject(used)
    for (const id of ["op_commit", "op_reset", "op_fork"]) {
      expect(await failure(fs.importDirectory({ source, operationId: id })), id).toMatchObject(used)
    }
    expect((await run(fs.stats)).commits).toBe(before)
    for (const one of [branch, other]) expect((await run(fs.branch(one))).head).toBe(base)
  })
})

describe("rewind", () => {
  it("L7 is a fork of a state that the branch has had; the branch stays, and what it never had is refused", async () => {
    const { fs, branch, base, head, text } = await seeded()
    const first = await write(fs, branch, "1")
    const second = await write(fs, branch, "2")
    const again = await run(fs.rewind(branch, { to: first, name: "again", operationId: "op_w" }))
    expect(again).toMatchObject({ name: "again", base: first, head: first })
    expect(await run(fs.rewind(branch, { to: first, operationId: "op_w" }))).toEqual(again)
    expect([await head(), await text(again.id)]).toEqual([second, "1"])
    expect((await run(fs.rewind(branch, { to: base }))).head).toBe(base)
    expect((await run(fs.rewind(branch, { to: second }))).head).toBe(second)
    const later = await write(fs, again.id, "later")
    const refused = await failure(fs.rewind(branch, { to: later }))
    expect(refused).toMatchObject({ _tag: "MoveRefused", reason: "notInHistory", branch })
  })
})

describe("beside an open workspace", () => {
  it("L7 W4 a reset is done and names the workspace; what it holds stays, its checkpoint is HeadMoved until the reset is undone", async () => {
    const { provider: fs, commit } = await ground({ f: "0" })
    const branch = await forkOf(fs, commit)
    const first = await write(fs, branch, "1")
    await using(fs, branch, { projection: "copy" }, async (workspace) => {
      await run(workspace.write("mine", "kept"))
      const moved = await run(fs.reset(branch, { to: commit, expectedHead: first }))
      expect(moved.openWorkspaces).toEqual([workspace.id])
      expect(await failure(workspace.checkpoint())).toMatchObject({
        _tag: "HeadMoved",
        expected: first,
        actual: commit
      })
      expect(Buffer.from(await run(workspace.read("mine"))).toString()).toBe("kept")
      await run(fs.undo(branch, { expectedHead: commit }))
      expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "committed" })
      expect(Buffer.from(await run(fs.readAt(branch, "mine"))).toString()).toBe("kept")
    })
  })
})

describe("a process that is killed, or meets a full disk, while it moves a head", () => {
  const moving = async () => {
    const source = scratch()
    writeFileSync(join(source, "f"), "0")
    const directory = join(scratch(), "s")
    const store = await open(directory)
    const { layer, commit: base } = await importInto(store, source)
    const branch = (await store.call("fork", { from: layer, name: "work" })).id
    const { commit: head } = await commitInto(store, branch, [put("f", "1")])
    await store.close()
    return { directory, branch, base, head }
  }

  it.each([
    ["refs.move.inTransaction", false],
    ["refs.move.committed", true]
  ])("L7 L8 W10 killed at %s the head has moved with its log, or neither", async (point, done) => {
    const { directory, branch, base, head } = await moving()
    const { signal } = await child([directory, "reset", branch, base], { COPPICE_CRASH_AT: point })
    expect(signal).toBe("SIGKILL")
    const store = await open(directory)
    expect(await unsound(store)).toEqual([])
    expect((await store.call("branch", { id: branch })).head).toBe(done ? base : head)
    expect((await store.call("undoLog", { branch })).moves.length).toBe(done ? 1 : 0)
    const again = { branch, expectedHead: head, reason: "", actor: {}, operationId: "op_reset", at: 2, to: base }
    expect(await store.call("moveHead", again)).toMatchObject({ head: base, previous: head, number: 1 })
    expect((await store.call("undoLog", { branch })).moves.length).toBe(1)
  })

  it("L7 L8 a reset whose write fails has moved nothing, and is done when it is asked for again", async () => {
    const { directory, branch, base, head } = await moving()
    const { said } = await child([directory, "reset", branch, base], { COPPICE_FAULT_AT: "refs.index.commit:1" })
    expect(said.find((line) => line.error !== undefined)).toMatchObject({ error: "STORAGE_FAILURE" })
    const store = await open(directory)
    expect((await store.call("branch", { id: branch })).head).toBe(head)
    expect((await store.call("undoLog", { branch })).moves).toEqual([])
    await store.close()
    const again = await child([directory, "reset", branch, base], {})
    expect(again.said.at(1)).toEqual({ commit: base })
  })
})
