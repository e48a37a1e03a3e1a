/** The log: pages from an immutable anchor, the path filter, both parents, clocks that go back. Rules: W3, L3. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { openIndex } from "../../providers/layerfs/IndexSchema.ts"
import { readLog } from "../../src/workspace/kit/Log.ts"
import { LayerRefs } from "../../providers/layerfs/LayerRefs.ts"
import { newId } from "../../src/base/Id.ts"
import type { LogOptions, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const seeded = async () => {
  const source = scratch()
  mkdirSync(join(source, "src"))
  writeFileSync(join(source, "src/a"), "a")
  writeFileSync(join(source, "b"), "b")
  const directory = join(scratch(), "s")
  const fs = await provider(directory)
  const receipt = await run(fs.importDirectory({ source, name: "first" }))
  const branch = await run(fs.fork(receipt.layer, { name: "work" }))
  return { fs, directory, receipt, branch: branch.id }
}

const commit = async (fs: WorkspaceProvider, branch: string, path: string, bytes: string): Promise<string> => {
  const options = { message: `${path}=${bytes}`, actor: { call: `call-${bytes}`, agent: "a1", goal: "g1" } }
  return (await run(fs.applyTo(branch, [{ op: "write", path, bytes }], options))).commit
}

/** The messages of every page, and how many pages there were. */
const pages = async (fs: WorkspaceProvider, ref: string | readonly string[], options: LogOptions = {}) => {
  const messages: string[] = []
  let count = 0
  for (let after: string | null | undefined; after !== null; count += 1) {
    const page = await run(fs.log(ref, { ...options, ...(after === undefined ? {} : { after }) }))
    messages.push(...page.commits.map(({ message }) => message))
    after = page.next
  }
  return { messages, count }
}

describe("the log", () => {
  it("W3 L3 names message, call, agent and goal of each commit, newest first", async () => {
    const { fs, branch, receipt } = await seeded()
    await commit(fs, branch, "b", "1")
    const { commits, next } = await run(fs.log(branch))
    expect(next).toBe(null)
    expect(commits.map(({ message, actor }) => [message, actor])).toEqual([
      ["b=1", { call: "call-1", agent: "a1", goal: "g1" }],
      ["Import first", {}]
    ])
    expect(commits[0]).toMatchObject({ parent: receipt.commit, secondParent: null })
    expect(commits[1]).toMatchObject({ id: receipt.commit, parent: null, secondParent: null })
  })

  it("L3 pages go on from where the first one began, while the branch moves and is forked", async () => {
    const { fs, branch } = await seeded()
    for (let i = 1; i <= 6; i += 1) await commit(fs, branch, "b", String(i))
    const first = await run(fs.log(branch, { limit: 3 }))
    expect(first.commits.map(({ message }) => message)).toEqual(["b=6", "b=5", "b=4"])
    for (let i = 7; i <= 9; i += 1) await commit(fs, branch, "b", String(i))
    const second = await run(fs.log(branch, { limit: 3, after: first.next! }))
    expect(second.commits.map(({ message }) => message)).toEqual(["b=3", "b=2", "b=1"])
    // The same cursor gives the same page again.
    await commit(fs, branch, "b", "10")
    expect(await run(fs.log(branch, { limit: 3, after: first.next! }))).toEqual(second)
    const last = await run(fs.log(branch, { limit: 3, after: second.next! }))
    expect(last.commits.map(({ message }) => message)).toEqual(["Import first"])
    expect(last.next).toBe(null)
  })

  it("L3 a path keeps the commits in which it, or what lies below it, changed: made, written, given a mode, moved away, made again", async () => {
    const { fs, branch } = await seeded()
    await commit(fs, branch, "b", "1")
    await commit(fs, branch, "src/a", "2")
    const apply = (message: string, op: Parameters<typeof fs.applyTo>[1][number]) =>
      run(fs.applyTo(branch, [op], { message }))
    await apply("mode", { op: "chmod", path: "src/a", mode: 0o755 })
    await apply("beside", { op: "write", path: "src/other", bytes: "o" })
    await apply("away", { op: "move", from: "src/a", to: "c" })
    await apply("again", { op: "write", path: "src/a", bytes: "new" })
    await apply("same", { op: "write", path: "src/a", bytes: "new" })
    const of = async (path: string) => (await pages(fs, branch, { path })).messages
    expect(await of("src/a")).toEqual(["again", "away", "mode", "src/a=2", "Import first"])
    expect(await of("src")).toEqual(["again", "away", "beside", "mode", "src/a=2", "Import first"])
    expect(await of("./src//")).toEqual(await of("src"))
    expect(await of("c")).toEqual(["away"])
    expect(await of("none")).toEqual([])
    expect(await of("src/a/below")).toEqual([])
    expect((await of("")).length).toBe(7)
    // Whatever the size of a page, the answer is the same.
    const byOne = await pages(fs, branch, { path: "src", limit: 1 })
    expect(byOne.messages).toEqual(await of("src"))
  })

  it("L3 several refs give one log of all of them, each commit once", async () => {
    const { fs, branch } = await seeded()
    await commit(fs, branch, "b", "1")
    const other = (await run(fs.fork(branch, { name: "other" }))).id
    await commit(fs, branch, "b", "2")
    await commit(fs, other, "b", "3")
    await commit(fs, branch, "b", "4")
    for (const limit of [1, 2, 1000]) {
      const { messages } = await pages(fs, [branch, other], { limit })
      expect(messages, `limit ${limit}`).toEqual(["b=4", "b=3", "b=2", "b=1", "Import first"])
    }
    const names = (await run(fs.branches(branch))).branches.map(({ name }) => name)
    expect(names).toEqual(["work", "other"])
    const one = await run(fs.branches(branch, { limit: 1 }))
    const rest = await run(fs.branches(other, { limit: 1000, after: one.next! }))
    expect([...one.branches, ...rest.branches].map(({ name }) => name)).toEqual(names)
    expect(rest.next).toBe(null)
  })

  it("W3 a question that cannot be meant is refused by the name of its part", async () => {
    const { fs, branch } = await seeded()
    for (let i = 0; i < 3; i += 1) await commit(fs, branch, "b", String(i))
    const cursor = (await run(fs.log(branch, { limit: 1 }))).next!
    const refused = async (options: LogOptions, ref: string | readonly string[] = branch) =>
      ((await failure(fs.log(ref, options))) as { field?: string; _tag: string }).field
    for (const limit of [0, -1, 1.5, Number.NaN, 10_001]) expect(await refused({ limit }), String(limit)).toBe("limit")
    expect(await refused({ after: "nonsense" })).toBe("after")
    expect(await refused({ after: cursor, path: "b" })).toBe("after")
    expect(await refused({ after: cursor.slice(0, -6) })).toBe("after")
    const emptied = Buffer.from(JSON.stringify({ ...JSON.parse(Buffer.from(cursor, "base64url").toString()), at: {} }))
    expect(await refused({ after: emptied.toString("base64url") })).toBe("after")
    for (const path of ["../b", "/etc", "a\0b"]) expect(await refused({ path }), path).toBe("path")
    expect(await refused({}, [])).toBe("ref")
    expect(await failure(fs.log("cmt_none"))).toMatchObject({ _tag: "RefNotFound", ref: "cmt_none" })
    expect(await failure(fs.log([branch, "cmt_none"]))).toMatchObject({ _tag: "RefNotFound" })
  })
})

describe("the order of commits", () => {
  /** The tables of a real store; commits are rows with the root of the import. */
  const rows = async () => {
    const { directory, receipt, branch } = await seeded()
    const db = await openIndex(join(directory, "layerfs/index.db"), "disposable", () => "sto_none")
    atEnd(() => db.close())
    const refs = new LayerRefs(db, { storeBytes: null, projectBytes: null } as never)
    const base = refs.commit(receipt.commit)!
    const add = async (id: string, at: number, parent: string, secondParent: string | null = null) => {
      const commit = { ...base, id, at, parent, secondParent, message: id, operationId: newId("operation") }
      await refs.addCommit({ objects: [], packLengths: new Map(), commit, result: null })
    }
    const log = async (from: string[], limit = 1000) => {
      const history = { refs, touches: () => true, cancelled: () => false }
      const found: string[] = []
      for (let after: string | undefined; ; ) {
        const page = await readLog(history, { refs: from, path: null, limit, after })
        found.push(...page.commits.map(({ id }) => id))
        if (page.next === null) return found
        after = page.next
      }
    }
    return { refs, base, add, log, branch, db }
  }

  it("L3 both parents of a merge are followed, and no commit comes before one that was made from it, also where a clock went back", async () => {
    const { base, add, log } = await rows()
    await add("cmt_a1", base.at + 1000, base.id)
    await add("cmt_a2", base.at - 5000, "cmt_a1")
    await add("cmt_b1", base.at + 500, base.id)
    await add("cmt_b2", base.at + 600, "cmt_b1")
    await add("cmt_m", 0, "cmt_a2", "cmt_b2")
    await add("cmt_n", 0, "cmt_m")
    const whole = ["cmt_n", "cmt_m", "cmt_a2", "cmt_a1", "cmt_b2", "cmt_b1", base.id]
    for (const limit of [1, 2, 3, 1000]) expect(await log(["cmt_n"], limit), `limit ${limit}`).toEqual(whole)
  })

  it("L3 a log over 10,000 commits looks at no more rows for its last page than for its first", async () => {
    const { base, add, log, refs, db } = await rows()
    db.raw.exec("BEGIN")
    db.raw.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
      INSERT INTO commits (id, project, parent, root, times, message, at, operation, actor, live, second_parent, dated)
      SELECT printf('cmt_%05d', i), c.project, CASE i WHEN 1 THEN c.id ELSE printf('cmt_%05d', i - 1) END, c.root, c.times,
        printf('m%d', i), c.at + i, printf('op_%d', i), '{}', 0, NULL, c.dated + i FROM n, commits c WHERE c.id = '${base.id}'`)
    db.raw.exec("COMMIT")
    await add("cmt_head", base.at + 20_000, "cmt_10000")
    const found = await log(["cmt_head"], 1000)
    expect(found.length).toBe(10_002)
    expect(found[9000]).toBe("cmt_01001")
    let looked = 0
    const counting = Object.create(refs, {
      storeId: { value: () => refs.storeId() },
      commit: { value: (id: string) => ((looked += 1), refs.commit(id)) },
      resolve: { value: (id: string) => ((looked += 1), refs.resolve(id)) }
    }) as LayerRefs
    const cost: number[] = []
    const history = { refs: counting, touches: () => true, cancelled: () => false }
    for (let after: string | undefined; ; ) {
      looked = 0
      const page = await readLog(history, { refs: ["cmt_head"], path: null, limit: 100, after })
      cost.push(looked)
      if (page.next === null) break
      after = page.next
    }
    expect(cost.length).toBe(101)
    expect(Math.max(...cost)).toBeLessThanOrEqual(cost[0]! + 1)
  })

  it("L3 a call that was cancelled ends between two steps", async () => {
    const { refs, base, add } = await rows()
    await add("cmt_x", 1, base.id)
    const history = { refs, touches: () => true, cancelled: () => true }
    const slow = Object.create(refs, {
      commit: {
        value: (id: string) => {
          for (const until = performance.now() + 20; performance.now() < until; );
          return refs.commit(id)
        }
      }
    }) as LayerRefs
    await expect(readLog({ ...history, refs: slow }, { refs: ["cmt_x"], path: null })).rejects.toThrow("cancelled")
  })
})
