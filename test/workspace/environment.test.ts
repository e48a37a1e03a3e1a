/** The environment of a candidate: what its digest covers, and opening one in another environment. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { environmentDigest, readEnvironment } from "../../src/workspace/EnvironmentManifest.ts"
import { identity } from "../../src/workspace/Candidate.ts"
import { scratch } from "../layerfs/storeFixture.ts"
import { failure, provider, run } from "../layerfs/storeProvider.ts"

const image = (letter: string) => `sha256:${letter.repeat(64)}` as const

it("W5 the environment digest changes with a tool, a lockfile, the image and the declared writes outside, and with nothing else", async () => {
  const directory = scratch()
  writeFileSync(join(directory, "lock"), "1")
  const declared = {
    tools: ["sh"],
    lockfiles: ["lock", "none"],
    runtimeImage: image("a"),
    writesOutside: ["/opt/cache", "/var/x"]
  }
  const digest = async (more: object = {}): Promise<string> =>
    environmentDigest(await run(readEnvironment(directory, { ...declared, ...more })))
  const first = await digest()
  expect(await digest({ writesOutside: ["/var/x", "/opt/cache", "/var/x"] })).toBe(first)
  const manifest = await run(readEnvironment(directory, declared))
  expect(manifest).toMatchObject({ runtimeImage: image("a"), writesOutside: ["/opt/cache", "/var/x"] })
  expect(manifest.lockfiles["none"]).toBe(null)
  expect(await run(readEnvironment(directory))).toMatchObject({ runtimeImage: null, writesOutside: [] })
  const others = [
    await digest({ tools: ["sh", "no-such-tool"] }),
    await digest({ runtimeImage: image("b") }),
    await digest({ runtimeImage: undefined }),
    await digest({ writesOutside: ["/opt/cache"] })
  ]
  writeFileSync(join(directory, "lock"), "2")
  others.push(await digest())
  expect(new Set([first, ...others]).size).toBe(6)
})

it("W20 a candidate of another environment is refused unless the caller names it; one that nobody read is not the same", async () => {
  const source = join(scratch(), "source")
  mkdirSync(source)
  writeFileSync(join(source, "f"), "f")
  const workspaces = await provider(join(scratch(), "s"))
  const { commit } = await run(workspaces.importDirectory({ source }))
  const branch = await run(workspaces.fork(commit))
  const candidate = await run(workspaces.candidate(commit, { environment: image("a"), parent: null }))
  const open = (as: object, on = branch.id) =>
    Effect.scoped(
      Effect.map(workspaces.open(on, { projection: "copy", as: { candidate, ...as } }), (workspace) => workspace.branch)
    )
  expect(await run(open({ environment: image("a") }))).toBe(branch.id)
  for (const [as, actual] of [
    [{ environment: image("b") }, image("b")],
    [{}, null],
    [{ environment: image("b"), allowEnvironment: image("b") }, image("b")]
  ] as const) {
    expect(await failure(open(as))).toMatchObject({
      _tag: "EnvironmentMismatch",
      candidate: identity(candidate),
      expected: image("a"),
      actual
    })
  }
  expect(await run(open({ environment: image("b"), allowEnvironment: image("a") }))).toBe(branch.id)
  expect(await run(open({ allowEnvironment: image("a") }))).toBe(branch.id)
  // A branch name proves nothing: what stands on the branch is compared, and nothing was opened for a refusal.
  await run(workspaces.applyTo(branch.id, [{ op: "write", path: "f", bytes: "other" }]))
  expect(await failure(open({ environment: image("a") }))).toMatchObject({
    _tag: "CandidateRefused",
    reason: "otherTree"
  })
  expect(await failure(workspaces.execOn(branch.id, "true", { as: { candidate } }))).toMatchObject({
    _tag: "CandidateRefused"
  })
  expect(await run(workspaces.left)).toEqual([])
})
