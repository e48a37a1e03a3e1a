/** A state that came without its past: where its history begins is told, and nothing acts as if there were more. Rules: L13, L3, L7, L10. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { readHistoryGraph } from "../../src/workspace/HistoryGraph.ts"
import { graphSvg } from "../../src/workspace/HistoryGraphSvg.ts"
import { graphText } from "../../src/workspace/HistoryGraphText.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

vi.setConfig({ testTimeout: 120_000 })

const write = async (fs: WorkspaceProvider, branch: string, text: string): Promise<string> =>
  (await run(fs.applyTo(branch, [{ op: "write", path: "f", bytes: text }], { message: text, actor: { goal: "g" } })))
    .commit

/** A history of four commits in one store; the third, without its past, in another, where a branch went on from it by one commit. */
const shallow = async () => {
  const source = scratch()
  writeFileSync(join(source, "f"), "zero\n")
  const whole = await provider(join(scratch(), "s"))
  const receipt = await run(whole.importDirectory({ source, name: "p" }))
  const from = (await run(whole.fork(receipt.layer, { name: "work" }))).id
  const commits = [receipt.commit]
  for (const text of ["zero\none\n", "zero\none\ntwo\n", "zero\none\ntwo\nthree\n"])
    commits.push(await write(whole, from, text))
  const target = join(scratch(), "one")
  const edge = commits[2]!
  const exported = await run(whole.exportBundle({ ref: edge, target, history: false }))
  const directory = join(scratch(), "s")
  const fs = await provider(directory)
  const imported = await run(fs.importBundle({ source: target }))
  const branch = (await run(fs.fork(edge, { name: "on" }))).id
  const head = await write(fs, branch, "zero\none\ntwo\nmore\n")
  return { whole, from, commits, edge, exported, imported, fs, directory, branch, head, target }
}

it("L13 L3 log, blame and graph of a state that came without its past end there and say so", async () => {
  const { fs, edge, exported, imported, branch, head, commits, whole, from } = await shallow()
  expect([exported.beginsHere, imported.beginsHere]).toEqual([[edge], [edge]])
  const log = await run(fs.log(branch))
  expect([log.commits.map(({ id }) => id), log.beginsHere, log.next]).toEqual([[head, edge], [edge], null])
  expect(log.commits[1]!.parent).toBe(commits[1])
  // Page by page it is the page that comes to it which says so.
  const first = await run(fs.log(branch, { limit: 1 }))
  expect(first.beginsHere).toEqual([])
  expect((await run(fs.log(branch, { limit: 1, after: first.next! }))).beginsHere).toEqual([edge])
  const ofPath = await run(fs.log(branch, { path: "none" }))
  expect([ofPath.commits, ofPath.beginsHere]).toEqual([[], [edge]])
  const blamed = await run(fs.blame(branch, "f"))
  expect(blamed.lines.map(({ commit }) => commit)).toEqual([edge, edge, edge, head])
  expect(blamed.beginsHere).toEqual([edge])
  const own = await run(fs.blame(branch, "f", { limit: 3 }))
  expect(own.beginsHere).toEqual([edge])
  expect((await run(fs.blame(branch, "f", { limit: 3, after: own.next! }))).beginsHere).toEqual([])
  const graph = await run(readHistoryGraph(fs, branch))
  expect(graph.rows.map(({ beginsHere, edges }) => [beginsHere, edges.length])).toEqual([
    [false, 1],
    [true, 0]
  ])
  expect(graphText(graph).split("\n").at(-1)).toMatch(/^◇ {2}cmt_.* … the history of this store begins here$/)
  expect(graphSvg(graph)).toContain("the history of this store begins here")
  // Where nothing is missing, nothing is said.
  expect((await run(whole.log(from))).beginsHere).toEqual([])
  expect((await run(whole.blame(from, "f"))).beginsHere).toEqual([])
  expect(graphText(await run(readHistoryGraph(whole, from)))).not.toContain("begins here")
})

it("L13 L7 reset and rewind to before the state that came without its past are refused by name, and move nothing", async () => {
  const { fs, edge, branch, head, commits } = await shallow()
  const refusal = { _tag: "MoveRefused", reason: "beginsHere", branch, beginsAt: edge }
  for (const to of [commits[1]!, commits[0]!]) {
    const error = await failure(fs.reset(branch, { to, expectedHead: head }))
    expect(error).toMatchObject(refusal)
    expect(error.message).toContain(edge)
    expect(await failure(fs.rewind(branch, { to }))).toMatchObject(refusal)
  }
  expect(await failure(fs.reset(branch, { to: "brn_none", expectedHead: head }))).toMatchObject({ _tag: "RefNotFound" })
  expect((await run(fs.branch(branch))).head).toBe(head)
  expect((await run(fs.undoLog(branch))).moves).toEqual([])
  expect((await run(fs.rewind(branch, { to: edge }))).head).toBe(edge)
  const moved = await run(fs.reset(branch, { to: edge, expectedHead: head }))
  expect(moved.undone).toMatchObject({ commits: 1, complete: true, goals: ["g"] })
})

it("L13 L7 what lies before the state, brought by itself, was perhaps in the history: a reset says that its span is not told whole, a rewind that it cannot know", async () => {
  const { fs, whole, edge, branch, head, commits } = await shallow()
  const target = join(scratch(), "older")
  await run(whole.exportBundle({ ref: commits[0]!, target, history: false }))
  expect(await run(fs.importBundle({ source: target }))).toMatchObject({ commits: 1, beginsHere: [] })
  expect(await failure(fs.rewind(branch, { to: commits[0]! }))).toMatchObject({ reason: "beginsHere", beginsAt: edge })
  const moved = await run(fs.reset(branch, { to: commits[0]!, expectedHead: head }))
  expect(moved.undone).toMatchObject({ commits: 2, complete: false, since: null })
  const back = await run(fs.undo(branch, { expectedHead: commits[0]! }))
  expect(back).toMatchObject({ head, undone: { commits: 1, complete: false } })
})

it("L13 L10 exported again with its history it comes over as the same short history, and a bundle with all of it completes both stores", async () => {
  const { fs, whole, from, edge, branch, head, commits } = await shallow()
  const again = join(scratch(), "again")
  expect(await run(fs.exportBundle({ ref: branch, target: again }))).toMatchObject({ commits: 2, beginsHere: [edge] })
  const third = await provider(join(scratch(), "s"))
  expect(await run(third.importBundle({ source: again }))).toMatchObject({
    commit: head,
    commits: 2,
    beginsHere: [edge]
  })
  const log = await run(third.log(head))
  expect(log).toEqual(await run(fs.log(head)))
  const all = join(scratch(), "all")
  await run(whole.exportBundle({ ref: from, target: all }))
  for (const store of [fs, third]) {
    expect(await run(store.importBundle({ source: all }))).toMatchObject({ commits: 3, beginsHere: [] })
    const { commits: found, beginsHere } = await run(store.log(head))
    expect([found.map(({ id }) => id), beginsHere]).toEqual([[head, edge, commits[1], commits[0]], []])
    expect(await run(store.verify())).toMatchObject({ ok: true })
  }
  expect((await run(fs.rewind(branch, { to: commits[0]! }))).head).toBe(commits[0])
  // A store that has the whole history does not forget it for a bundle without.
  expect(await run(whole.importBundle({ source: again }))).toMatchObject({ commits: 1, beginsHere: [] })
  expect((await run(whole.log(head))).beginsHere).toEqual([])
})

it("L13 L10 a commit that is missing and that nobody said to be missing is no beginning of a history: log and export refuse", async () => {
  const { whole, from, commits, directory, fs, branch, edge } = await shallow()
  const target = join(scratch(), "all")
  await run(whole.exportBundle({ ref: from, target }))
  await run(fs.importBundle({ source: target }))
  const db = Database.open(join(directory, "layerfs/index.db"))
  db.raw.exec(`DELETE FROM commits WHERE id = '${commits[1]!}'`)
  db.close()
  expect(await failure(fs.log(branch))).toMatchObject({ _tag: "RefNotFound", ref: commits[1] })
  expect(await run(fs.verify())).toMatchObject({
    ok: false,
    index: [`commit ${commits[1]!} is lost: ${edge} grew from it`]
  })
  const refused = join(scratch(), "refused")
  expect(await failure(fs.exportBundle({ ref: branch, target: refused }))).toMatchObject({ _tag: "ExportRefused" })
  expect(await run(fs.exportBundle({ ref: edge, target: refused, history: false }))).toMatchObject({ commits: 1 })
})

it("L13 G5 a store in which an earlier version has imported a state without its past tells where its history begins", async () => {
  const { fs, directory, edge, branch } = await shallow()
  const db = Database.open(join(directory, "layerfs/index.db"))
  const summed = ["projects", "commits", "layers", "branches", "operations", "moves"]
  db.raw.exec(summed.map((table) => `ALTER TABLE ${table} DROP COLUMN sum;`).join(""))
  db.raw.exec("DROP TABLE edges; PRAGMA user_version = 6")
  db.close()
  const copy = await provider(directory)
  expect((await run(copy.log(branch))).beginsHere).toEqual([edge])
  expect((await run(fs.log(branch))).beginsHere).toEqual([edge])
})
