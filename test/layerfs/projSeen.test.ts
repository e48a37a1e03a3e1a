import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { ground, run } from "./projFixture.ts"

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString()

it("C5 W8 a file that an earlier checkpoint has read is read again when anything but its name could have changed", async () => {
  const { provider, commit } = await ground({ "a.txt": "aaaa", "b.txt": "bbbb", "d/c.txt": "cccc" })
  const branch = await run(provider.fork(commit))
  await run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch.id, { projection: "overlay" })
        const shell = (script: string) => workspace.exec(["sh", "-ec", script])
        yield* shell("printf AAAA > a.txt; printf BBBB > b.txt; printf CCCC > d/c.txt")
        const first = yield* workspace.checkpoint()
        // Same size, and the old mtime put back: only the ctime tells. Each in turn, after a harvest that trusts the others.
        yield* shell("cp -p a.txt /tmp/stamp; printf XXXX > a.txt; touch -r /tmp/stamp a.txt")
        const second = yield* workspace.checkpoint()
        yield* shell("printf YYYY > /tmp/new; touch -r d/c.txt /tmp/new; mv /tmp/new d/c.txt; chmod 600 b.txt")
        const third = yield* workspace.checkpoint()
        yield* shell("rm a.txt; ln b.txt second.txt")
        const fourth = yield* workspace.checkpoint()
        const fifth = yield* workspace.checkpoint()
        expect([first, second, third, fourth, fifth].map((saved) => saved.outcome)).toEqual([
          "committed",
          "committed",
          "committed",
          "committed",
          "unchanged"
        ])
        expect(text(yield* provider.readAt(second.commit, "a.txt"))).toBe("XXXX")
        expect(text(yield* provider.readAt(second.commit, "b.txt"))).toBe("BBBB")
        expect(text(yield* provider.readAt(third.commit, "d/c.txt"))).toBe("YYYY")
        expect((yield* provider.statAt(third.commit, "b.txt")).mode).toBe(0o600)
        expect((yield* provider.listAt(fourth.commit, "")).map((entry) => entry.path)).toEqual([
          "b.txt",
          "d",
          "second.txt"
        ])
      })
    )
  )
})

it("W10 a repeated operation gives its commit again, and the checkpoint after it still sees every change", async () => {
  const { provider, commit } = await ground({ "a.txt": "aaaa" })
  const branch = await run(provider.fork(commit))
  await run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch.id, { projection: "overlay" })
        yield* workspace.exec(["sh", "-ec", "printf bbbb > a.txt; cp -p a.txt /tmp/stamp"])
        const first = yield* workspace.checkpoint({ operationId: "op-1" })
        yield* workspace.exec(["sh", "-ec", "printf cccc > a.txt; touch -r /tmp/stamp a.txt; sleep 0.05"])
        const again = yield* workspace.checkpoint({ operationId: "op-1" })
        expect(again.commit).toBe(first.commit)
        const later = yield* workspace.checkpoint()
        expect(text(yield* provider.readAt(later.commit, "a.txt"))).toBe("cccc")
      })
    )
  )
})

it("W10 an older operation that is repeated answers with its commit, and the workspace goes on where it stood", async () => {
  const { provider, commit } = await ground({ f: "0" })
  const branch = await run(provider.fork(commit))
  await run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch.id)
        yield* workspace.write("f", "1")
        const first = yield* workspace.checkpoint({ operationId: "op-1" })
        yield* workspace.write("f", "2")
        const second = yield* workspace.checkpoint({ operationId: "op-2" })
        yield* workspace.write("f", "3")
        expect((yield* workspace.checkpoint({ operationId: "op-1" })).commit).toBe(first.commit)
        expect(yield* workspace.head).toBe(second.commit)
        const third = yield* workspace.checkpoint({ operationId: "op-3" })
        expect(yield* provider.commit(third.commit)).toMatchObject({ parent: second.commit })
        expect(text(yield* provider.readAt(third.commit, "f"))).toBe("3")
      })
    )
  )
})
