/** Glob and grep of a stored state, and reading beside a writer. Rules: L3, L12, W4. */
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { describe, expect, it } from "vitest"
import type { GrepMatch, GrepOptions, PageOptions, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { forkOf, ground, using } from "./projFixture.ts"
import { atEnd, scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const files: Readonly<Record<string, string | Buffer>> = {
  "src/a.ts": "import x\nconst one = 1\nend\n",
  "src/deep/b.ts": "const two = 2\nconst ONE = one\n",
  "src-old/c.ts": "const three = 3",
  "docs/read me.md": "one\n\none more\n",
  "bin/tool": Buffer.from("one\0one"),
  empty: ""
}

const seeded = async () => {
  const source = scratch()
  for (const [path, bytes] of Object.entries(files)) {
    mkdirSync(join(source, path, ".."), { recursive: true })
    writeFileSync(join(source, path), bytes)
  }
  symlinkSync("src", join(source, "link"))
  const directory = join(scratch(), "s")
  const fs = await provider(directory)
  const { layer } = await run(fs.importDirectory({ source }))
  return { fs, directory, branch: (await run(fs.fork(layer))).id }
}

const grepAll = async (fs: WorkspaceProvider, ref: string, pattern: RegExp, options: GrepOptions = {}) => {
  const matches: GrepMatch[] = []
  const skipped = { binary: 0, tooLarge: 0 }
  for (let after: string | null | undefined; after !== null; ) {
    const page = await run(fs.grepAt(ref, pattern, { ...options, ...(after === undefined ? {} : { after }) }))
    expect(page.matches.length).toBeLessThanOrEqual(options.limit ?? 1000)
    matches.push(...page.matches)
    skipped.binary += page.skipped.binary
    skipped.tooLarge += page.skipped.tooLarge
    after = page.next
  }
  return { lines: matches.map(({ path, line, text }) => `${path}:${line} ${text}`), skipped }
}

const globAll = async (fs: WorkspaceProvider, ref: string, pattern: string, options: PageOptions = {}) => {
  const found: string[] = []
  for (let after: string | null | undefined; after !== null; ) {
    const page = await run(fs.globAt(ref, pattern, { ...options, ...(after === undefined ? {} : { after }) }))
    expect(page.paths.length).toBeLessThanOrEqual(options.limit ?? 1000)
    found.push(...page.paths.map(({ path }) => path))
    after = page.next
  }
  return found
}

describe("glob and grep at a ref", () => {
  it("L3 W4 find what they find in an open workspace, whatever the size of a page", async () => {
    const { provider: fs, commit } = await ground({ ...files, link: { link: "src" } })
    const branch = await forkOf(fs, commit)
    await using(fs, branch, { projection: "copy" }, async (workspace) => {
      for (const pattern of ["**/*.ts", "src/**", "*", "**", "{src,docs}/*", "s?c-[a-z]*/**", "none/**"]) {
        const inside = (await run(workspace.glob(pattern))).map(({ path }) => path)
        for (const limit of [1, 3, 1000]) expect(await globAll(fs, branch, pattern, { limit }), pattern).toEqual(inside)
      }
      for (const [pattern, glob] of [
        [/one/, undefined],
        [/one/i, "**/*.ts"],
        [/^$/, undefined],
        [/^const (\w+) = \d$/g, "src/**"]
      ] as const) {
        const options = glob === undefined ? {} : { glob }
        const inside = (await run(workspace.grep(pattern, options))).map((m) => `${m.path}:${m.line} ${m.text}`)
        expect(inside.length).toBeGreaterThan(0)
        for (const limit of [1, 2, 1000]) {
          expect((await grepAll(fs, branch, pattern, { ...options, limit })).lines, String(pattern)).toEqual(inside)
        }
      }
    })
  })

  it("L3 a path narrows the search, links to it are followed, and what is no text is counted once", async () => {
    const { fs, branch } = await seeded()
    for (const limit of [1, 2, 1000]) {
      const all = await grepAll(fs, branch, /one/, { limit })
      expect(all.skipped).toEqual({ binary: 1, tooLarge: 0 })
      expect(all.lines).toEqual([
        "docs/read me.md:1 one",
        "docs/read me.md:3 one more",
        "src/a.ts:2 const one = 1",
        "src/deep/b.ts:2 const ONE = one"
      ])
    }
    expect((await grepAll(fs, branch, /one/, { path: "src/deep" })).lines).toEqual(["src/deep/b.ts:2 const ONE = one"])
    expect((await grepAll(fs, branch, /one/, { path: "link" })).lines.length).toBe(2)
    expect((await grepAll(fs, branch, /one/, { path: "src/a.ts" })).lines).toEqual(["src/a.ts:2 const one = 1"])
    expect(await failure(fs.grepAt(branch, /one/, { path: "none" }))).toMatchObject({ reason: "notFound" })
    expect(await failure(fs.grepAt(branch, /one/, { path: "../x" }))).toMatchObject({ _tag: "OutsideWorkspace" })
  })

  it("L3 pages stay those of the commit that the first one saw; a long line is cut and says so", async () => {
    const { fs, branch } = await seeded()
    await run(fs.applyTo(branch, [{ op: "write", path: "src/long", bytes: `one${"x".repeat(5000)}\n` }]))
    const first = await run(fs.grepAt(branch, /one/, { limit: 3 }))
    const globbed = await run(fs.globAt(branch, "src/**", { limit: 1 }))
    await run(fs.applyTo(branch, [{ op: "remove", path: "src" }]))
    const rest = await run(fs.grepAt(branch, /one/, { after: first.next! }))
    expect(rest.matches.map(({ path }) => path)).toEqual(["src/deep/b.ts", "src/long"])
    expect(rest.matches[1]).toMatchObject({ cut: true, text: `one${"x".repeat(1997)}` })
    expect((await run(fs.globAt(branch, "src/**", { after: globbed.next! }))).paths.length).toBe(3)
    expect(await failure(fs.grepAt(branch, /two/, { after: first.next! }))).toMatchObject({ field: "after" })
    expect(await failure(fs.globAt(branch, "**", { after: globbed.next! }))).toMatchObject({ field: "after" })
    expect(await failure(fs.globAt(branch, "[z-a]"))).toMatchObject({ _tag: "QueryInvalid", field: "pattern" })
    expect(await failure(fs.globAt(branch, 5 as never))).toMatchObject({ field: "pattern" })
    expect(await failure(fs.grepAt(branch, "one" as never))).toMatchObject({ field: "pattern" })
    expect(await failure(fs.grepAt(branch, /one/, { glob: "[z-a]" }))).toMatchObject({ field: "pattern" })
  })

  it("L3 L12 a pattern that backtracks for ever is stopped by name of the file, and the store goes on", async () => {
    const { fs, branch } = await seeded()
    await run(fs.applyTo(branch, [{ op: "write", path: "src/trap", bytes: `${"a".repeat(60)}b\n` }]))
    const slow = fs.grepAt(branch, /^(a+)+$/)
    expect(await failure(slow)).toMatchObject({ _tag: "PatternTooSlow", code: "PATTERN_TOO_SLOW", path: "src/trap" })
    expect((await grepAll(fs, branch, /^a+b$/)).lines.length).toBe(1)
    // A large file does not buy a pattern minutes of the store's thread.
    const large = `${"a".repeat(60)}b\n`.repeat(70_000)
    await run(fs.applyTo(branch, [{ op: "write", path: "large", bytes: large }]))
    expect(await failure(fs.grepAt(branch, /^(a+)+$/, { path: "large" }))).toMatchObject({ limitMs: 5000 })
    expect(await run(fs.applyTo(branch, [{ op: "remove", path: "src/trap" }]))).toMatchObject({ outcome: "committed" })
  })
})

it("L12 log, diff, blame, glob, grep and reading at a ref answer while another process holds the store for writing", async () => {
  const { fs, directory, branch } = await seeded()
  const { base } = await run(fs.branch(branch))
  await run(fs.applyTo(branch, [{ op: "write", path: "empty", bytes: "full\n" }]))
  const writer = new DatabaseSync(join(directory, "layerfs/index.db"))
  atEnd(() => writer.close())
  writer.exec("BEGIN IMMEDIATE")
  expect((await run(fs.log(branch))).commits.length).toBe(2)
  expect((await run(fs.diff(base, branch))).changes.length).toBe(1)
  expect((await run(fs.blame(branch, "empty"))).totalLines).toBe(1)
  expect((await run(fs.globAt(branch, "**"))).paths.length).toBeGreaterThan(5)
  expect((await run(fs.grepAt(branch, /full/))).matches.length).toBe(1)
  expect((await run(fs.undoLog(branch))).moves).toEqual([])
  expect(Buffer.from(await run(fs.readAt(branch, "empty"))).toString()).toBe("full\n")
  writer.exec("ROLLBACK")
})
