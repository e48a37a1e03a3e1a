/** Many workspaces at once: each serial, all of them parallel, and no byte of one in another. */
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { forkOf, run, sharedGround, treeAt } from "./projFixture.ts"

const base = { "d/a": "a", "d/b": "b", c: "c" }
const shared = sharedGround(base)
const agents = Array.from({ length: 32 }, (_, agent) => agent)

const withDirectories = (files: Readonly<Record<string, string>>): Record<string, string> => {
  const found: Record<string, string> = { ...files }
  for (const path of Object.keys(files)) if (path.includes("/")) found[`${path.slice(0, path.lastIndexOf("/"))}/`] = ""
  return found
}

it("W11 32 parallel loops of fork, edit and checkpoint: no lock failure, no lost byte, every commit holds its own tree", async () => {
  const { provider, commit } = await shared()
  const loop = (agent: number) =>
    Effect.gen(function* () {
      const made: { readonly commit: string; readonly files: Record<string, string> }[] = []
      let from = commit
      const files: Record<string, string> = { ...base }
      for (let round = 0; round < 2; round += 1) {
        const branch = (yield* provider.fork(from)).id
        from = yield* Effect.scoped(
          Effect.gen(function* () {
            const workspace = yield* provider.open(branch, { projection: "overlay" })
            files[`own/${agent}`] = `round ${round} of ${agent}`
            files["d/a"] = `${agent}.${round}`
            delete files[`made/${agent}.${round - 1}`]
            files[`made/${agent}.${round}`] = "x".repeat(agent * 500)
            const script = [
              `mkdir -p made && rm -f made/*`,
              `printf '${files["d/a"]}' > d/a`,
              `head -c ${agent * 500} /dev/zero | tr '\\0' x > made/${agent}.${round}`
            ]
            const edits = [
              workspace.write(`own/${agent}`, files[`own/${agent}`]!),
              workspace.exec(script.join(" && ")),
              workspace.read("c"),
              workspace.stat("d/b")
            ]
            // Asked for at once on one workspace, they run one after the other.
            yield* Effect.all(edits, { concurrency: "unbounded" })
            const outcome = yield* workspace.checkpoint()
            expect(outcome.outcome).toBe("committed")
            expect((yield* workspace.checkpoint()).outcome).toBe("unchanged")
            return outcome.commit
          })
        )
        expect((yield* provider.branch(branch)).head).toBe(from)
        made.push({ commit: from, files: { ...files } })
      }
      return made
    })
  const made = await run(Effect.all(agents.map(loop), { concurrency: "unbounded" }))
  expect(made.flat()).toHaveLength(64)
  for (const { commit: id, files } of made.flat()) expect(await treeAt(provider, id)).toEqual(withDirectories(files))
  expect(await run(provider.left)).toEqual([])
  expect(await run(provider.verify())).toMatchObject({ ok: true })
})

it("W11 L2 32 branches take direct calls at once, and calls at once on one branch are all in its head", async () => {
  const { provider, commit } = await shared()
  const branches = await Promise.all(agents.map(() => forkOf(provider, commit)))
  await run(
    Effect.all(
      branches.flatMap((branch, agent) =>
        [0, 1, 2].map((n) => provider.applyTo(branch, [{ op: "write", path: `n/${n}`, bytes: `${agent}.${n}` }]))
      ),
      { concurrency: "unbounded" }
    )
  )
  for (const [agent, branch] of branches.entries()) {
    const files = { ...base, "n/0": `${agent}.0`, "n/1": `${agent}.1`, "n/2": `${agent}.2` }
    expect(await treeAt(provider, branch)).toEqual(withDirectories(files))
    expect((await run(provider.log(branch))).commits.length).toBe(4)
  }
})

it("C3 W11 200 concurrent writes under five parents that do not exist yet all succeed, in a workspace and on a branch", async () => {
  const { provider, commit } = await shared()
  const paths = Array.from({ length: 200 }, (_, i) => `p${i % 5}/deep/er/f${i}`)
  const expected: Record<string, string> = { ...withDirectories(base) }
  for (const [i, path] of paths.entries()) {
    expected[path] = String(i)
    expected[`p${i % 5}/`] = expected[`p${i % 5}/deep/`] = expected[`p${i % 5}/deep/er/`] = ""
  }
  const branch = await forkOf(provider, commit)
  await run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch, { projection: "overlay" })
        yield* Effect.all(
          paths.map((path, i) => workspace.write(path, String(i))),
          { concurrency: "unbounded" }
        )
        yield* workspace.checkpoint()
      })
    )
  )
  expect(await treeAt(provider, branch)).toEqual(expected)
  const direct = await forkOf(provider, commit)
  await run(
    Effect.all(
      paths.map((path, i) => provider.applyTo(direct, [{ op: "write", path, bytes: String(i) }])),
      { concurrency: "unbounded" }
    )
  )
  expect(await treeAt(provider, direct)).toEqual(expected)
})
