/** A workspace whose caller loses its authority: refused, kept aside, reported; the branch stands still. */
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { type AuthorityGuard, AuthorityLost, AuthorityUnknown } from "../../src/base/AuthorityGuard.ts"
import type { Projection, Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import { failure, forkOf, run, sharedGround, shell, treeAt, using } from "./projFixture.ts"

const shared = sharedGround({ f: "f", "d/g": "g" })

/** A guard that the test switches; it counts how often it was asked. */
const switched = () => {
  const state = { answer: "yes" as "yes" | "no" | "unknown", asked: 0 }
  const text = { message: "The lease was taken over.", remedy: "Stop.", authority: "lease on todo_1, epoch 1" }
  const guard: AuthorityGuard = Effect.suspend((): AuthorityGuard => {
    state.asked += 1
    if (state.answer === "yes") return Effect.void
    return state.answer === "no"
      ? Effect.fail(new AuthorityLost({ ...text, why: "epoch", workspace: null, quarantine: null }))
      : Effect.fail(new AuthorityUnknown({ ...text, because: "BUSY" }))
  })
  return { state, guard }
}

const mutations: Readonly<Record<string, (workspace: Workspace) => Effect.Effect<unknown, unknown>>> = {
  write: (w) => w.write("f", "x"),
  splice: (w) => w.splice("f", 0, 1, Buffer.from("x")),
  edit: (w) => w.edit("f", "f", "x"),
  apply: (w) => w.apply([{ op: "mkdir", path: "m" }]),
  copy: (w) => w.copy("f", "c"),
  move: (w) => w.move("f", "c"),
  remove: (w) => w.remove("f"),
  exec: (w) => w.exec("echo x > f"),
  start: (w) => Effect.scoped(w.start(["true"])),
  checkpoint: (w) => w.checkpoint(),
  discard: (w) => w.discard("no longer mine")
}

describe.each(["overlay", "copy"] as const)("%s", (projection: Projection) => {
  it("W18 W12 every changing call is refused once authority is lost; the files become a commit of their own, the branch does not move", async () => {
    const { provider, commit } = await shared()
    const few = ["write", "exec", "checkpoint"]
    for (const [name, mutate] of Object.entries(mutations)) {
      if (projection === "copy" && !few.includes(name)) continue
      const branch = await forkOf(provider, commit)
      const { state, guard } = switched()
      const lost = await using(provider, branch, { projection, guard }, async (workspace) => {
        await run(workspace.write("mine", "work"))
        const asked = state.asked
        state.answer = "no"
        const first = (await failure(mutate(workspace))) as AuthorityLost
        expect(state.asked, name).toBe(asked + 1)
        // It is over: asked again, the same answer, without a second branch; reading goes on.
        state.answer = "yes"
        expect(await failure(workspace.write("f", "later"))).toMatchObject({ quarantine: first.quarantine })
        expect(Buffer.from(await run(workspace.read("f"))).toString()).toBe("f")
        return first
      })
      expect(lost, name).toMatchObject({ _tag: "AuthorityLost", code: "AUTHORITY_LOST", why: "epoch" })
      expect(await run(provider.branch(branch)), name).toMatchObject({ head: commit })
      const kept = lost.quarantine!
      expect(await run(provider.branch(kept.branch)), name).toMatchObject({
        name: `quarantine/${lost.workspace}`,
        head: kept.commit
      })
      expect(await treeAt(provider, kept.commit), name).toEqual({ f: "f", mine: "work", "d/": "", "d/g": "g" })
      const left = (await run(provider.left)).filter((found) => found.branch === branch)
      expect(left, name).toMatchObject([{ id: lost.workspace, state: "quarantined", quarantine: kept }])
      if (name === "write") {
        // A command decides: the files go on, on a branch that begins at them, under the caller's operation id.
        const recovered = await run(provider.recover(lost.workspace!, { operationId: `op_${lost.workspace}` }))
        expect(recovered.checkpoint).toMatchObject({ outcome: "unchanged", commit: kept.commit })
        expect(await run(provider.branch(recovered.branch))).toMatchObject({ head: kept.commit })
        expect(await run(provider.findOperation(`op_${lost.workspace}`))).toMatchObject({ commit: kept.commit })
      } else await run(provider.discardLeft(lost.workspace!, "seen"))
      expect((await run(provider.left)).filter((found) => found.branch === branch)).toEqual([])
    }
  })

  it("W12 W18 a quarantined workspace that is open still keeps its files when it is dropped or recovered: they go with its end", async () => {
    const { provider, commit } = await shared()
    const decisions = [(id: string) => provider.discardLeft(id, "seen"), (id: string) => provider.recover(id)]
    for (const decide of decisions) {
      const branch = await forkOf(provider, commit)
      const waiting = async () => (await run(provider.left)).filter((found) => found.branch === branch)
      const { state, guard } = switched()
      const lost = await using(provider, branch, { projection, guard }, async (workspace) => {
        await run(workspace.write("mine", "work"))
        state.answer = "no"
        const first = (await failure(workspace.checkpoint())) as AuthorityLost
        await run<unknown, unknown>(decide(workspace.id))
        expect(Buffer.from(await run(workspace.read("mine"))).toString()).toBe("work")
        expect(await waiting()).toEqual([])
        return first
      })
      expect(await waiting()).toEqual([])
      expect(await treeAt(provider, lost.quarantine!.commit)).toMatchObject({ mine: "work" })
    }
  })

  it("W18 processes are ended before the files are kept, and what stood at the last checkpoint needs no quarantine", async () => {
    const { provider, commit } = await shared()
    const branch = await forkOf(provider, commit)
    const { state, guard } = switched()
    await using(provider, branch, { projection, guard }, (workspace) =>
      run(
        Effect.scoped(
          Effect.gen(function* () {
            const ticking = yield* workspace.start([
              "sh",
              "-c",
              "echo a > one; setsid sh -c 'while :; do echo tick > t; mv t two; done'"
            ])
            while ((yield* workspace.glob("two")).length === 0) yield* Effect.yieldNow
            state.answer = "no"
            const lost = yield* Effect.flip(workspace.checkpoint({ allowLive: true }))
            expect(yield* ticking.provenGone).toBe(true)
            expect(lost).toMatchObject({ _tag: "AuthorityLost" })
            const { quarantine } = lost as AuthorityLost
            expect(yield* provider.commit(quarantine!.commit)).toMatchObject({ live: false })
            expect(Buffer.from(yield* provider.readAt(quarantine!.commit, "one")).toString()).toBe("a\n")
          })
        )
      )
    )
    const other = await forkOf(provider, commit)
    const again = switched()
    await using(provider, other, { projection, guard: again.guard }, async (workspace) => {
      await shell(workspace, "echo saved > s")
      await run(workspace.checkpoint())
      again.state.answer = "no"
      expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "AuthorityLost", quarantine: null })
    })
    expect((await run(provider.left)).filter((found) => found.branch === other)).toEqual([])
  })
})

it("W18 a guard that cannot tell refuses the call and keeps everything; reads and `changes` never ask it", async () => {
  const { provider, commit } = await shared()
  const branch = await forkOf(provider, commit)
  const { state, guard } = switched()
  await using(provider, branch, { projection: "overlay", guard }, async (workspace) => {
    state.answer = "unknown"
    expect(await failure(workspace.write("f", "x"))).toMatchObject({ _tag: "AuthorityUnknown", because: "BUSY" })
    expect(state.asked).toBe(1)
    await run(workspace.read("f"))
    await run(workspace.list(""))
    await run(workspace.stat("f"))
    await run(workspace.glob("*"))
    await run(workspace.grep(/f/))
    expect(await run(workspace.changes)).toEqual([])
    expect(state.asked).toBe(1)
    state.answer = "yes"
    await run(workspace.write("f", "x"))
    expect((await run(workspace.checkpoint())).outcome).toBe("committed")
  })
})

it("W18 a workspace without a guard asks nobody, and a closed one says that it is closed before anyone is asked", async () => {
  const { provider, commit } = await shared()
  const branch = await forkOf(provider, commit)
  const { state, guard } = switched()
  const workspace = await using(provider, branch, { projection: "overlay", guard }, async (open) => open)
  expect(await failure(workspace.write("f", "x"))).toMatchObject({ _tag: "WorkspaceClosed" })
  expect(state.asked).toBe(0)
})
