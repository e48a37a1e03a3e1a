/** Cursors that a call did not give: cut, changed, of another question, call or store, of things that are no text. Rules: W3, L3, V3. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type * as Effect from "effect/Effect"
import { expect, it, vi } from "vitest"
import { digestJson, type Json } from "../../src/base/Digest.ts"
import { newId } from "../../src/base/Id.ts"
import type { Page, PageOptions, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

vi.setConfig({ testTimeout: 120_000 })

type Call = (options: PageOptions) => Effect.Effect<Page, unknown>

/** A store with a branch whose every question has several pages. */
const seeded = async () => {
  const source = scratch()
  mkdirSync(join(source, "d"))
  for (let n = 0; n < 4; n += 1) writeFileSync(join(source, `d/${n}`), "line\nline\nline\n")
  const fs = await provider(join(scratch(), "s"))
  const receipt = await run(fs.importDirectory({ source }))
  const branch = (await run(fs.fork(receipt.layer))).id
  for (let n = 0; n < 3; n += 1) {
    const { commit } = await run(fs.applyTo(branch, [{ op: "write", path: `n${n}`, bytes: `line ${n}\nline\n` }]))
    await run(fs.reset(branch, { to: receipt.commit, expectedHead: commit }))
    await run(fs.reset(branch, { to: commit, expectedHead: receipt.commit }))
  }
  await run(fs.fork(branch, { name: "other" }))
  return { fs, branch, base: receipt.commit, calls: callsOf(fs, branch, receipt.commit) }
}

const callsOf = (fs: WorkspaceProvider, branch: string, base: string): Readonly<Record<string, Call>> => ({
  branches: (options) => fs.branches(branch, options),
  log: (options) => fs.log(branch, options),
  "log of a path": (options) => fs.log(branch, { path: "", ...options }),
  "log of two": (options) => fs.log([branch, base], options),
  diff: (options) => fs.diff(base, branch, options),
  blame: (options) => fs.blame(branch, "d/1", options),
  globAt: (options) => fs.globAt(branch, "**", options),
  grepAt: (options) => fs.grepAt(branch, /line/, options),
  undoLog: (options) => fs.undoLog(branch, options)
})

const other = (text: string): string => (text === "A" ? "B" : "A")

it("W3 L3 V3 whatever a call did not give as `next` of the same question is QueryInvalid and says how to go on, in every call that has pages", async () => {
  const { calls } = await seeded()
  const stranger = await seeded()
  const refused = async (what: string, call: Call, after: unknown): Promise<void> => {
    const error = await failure(call({ limit: 1, after } as PageOptions))
    expect(error, `${what}: ${String(after)}`).toMatchObject({ _tag: "QueryInvalid", field: "after" })
    expect((error as { remedy: string }).remedy, what).toContain("next")
  }
  const cursors = new Map<string, string>()
  for (const [name, call] of Object.entries(calls)) cursors.set(name, (await run(call({ limit: 1 }))).next!)
  for (const [name, call] of Object.entries(calls)) {
    const cursor = cursors.get(name)!
    for (const [from, foreign] of cursors)
      if (from !== name) await refused(`${name} with that of ${from}`, call, foreign)
    await refused(`${name} with that of another store`, call, (await run(stranger.calls[name]!({ limit: 1 }))).next)
    for (let at = 0; at < cursor.length; at += 7)
      await refused(`${name}, changed at ${at}`, call, cursor.slice(0, at) + other(cursor[at]!) + cursor.slice(at + 1))
    for (const cut of [0, 1, cursor.length / 2, cursor.length - 1])
      await refused(`${name}, cut`, call, cursor.slice(0, cut))
    for (const text of [`${cursor}A`, `${cursor}=`, ` ${cursor}`, `${cursor}\n`, "x", "bnVsbA", newId("commit")])
      await refused(`${name}, a text`, call, text)
    for (const value of [7, null, true, {}, [], [cursor], new Date(0)]) await refused(`${name}, no text`, call, value)
    // And as it was given it is good.
    await run(call({ limit: 1, after: cursor }))
  }
})

it("W3 L3 a cursor that was made up, right in every digest, and names commits that the store does not have, is QueryInvalid too", async () => {
  const { fs, branch, base } = await seeded()
  const { store } = await run(fs.candidate(branch, { environment: digestJson({}), parent: null }))
  const made = (question: Json, at: Json): PageOptions => {
    const of = digestJson({ store, question, at }).slice(7, 23)
    return { after: Buffer.from(JSON.stringify({ of, at })).toString("base64url") }
  }
  const none = newId("commit")
  const log = { log: [branch], path: null }
  const cases: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
    log: fs.log(branch, made(log, { from: [base], open: [none] })),
    "log, from": fs.log(branch, made(log, { from: [none], open: [base] })),
    "log, of a branch": fs.log(branch, made(log, { from: [base], open: [branch] })),
    diff: fs.diff(base, branch, made({ diff: base, to: branch, path: null }, { from: base, to: none, path: "d" })),
    "diff, from": fs.diff(
      base,
      branch,
      made({ diff: base, to: branch, path: null }, { from: none, to: base, path: "" })
    ),
    blame: fs.blame(branch, "d/1", made({ blame: branch, path: "d/1" }, { commit: none, line: 1 })),
    glob: fs.globAt(branch, "**", made({ glob: branch, pattern: "**" }, { commit: none, path: "d", line: 0 })),
    grep: fs.grepAt(
      branch,
      /x/,
      made({ grep: branch, pattern: "/x/", path: "", glob: null }, { commit: none, path: "d", line: 0 })
    )
  }
  for (const [what, call] of Object.entries(cases))
    expect(await failure(call), what).toMatchObject({ _tag: "QueryInvalid", field: "after" })
  // Made up for what there is, it is read: the digest is as the test makes it.
  expect(await run(fs.log(branch, made(log, { from: [base], open: [base] })))).toMatchObject({ next: null })
})
