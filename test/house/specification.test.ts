/**
 * The specification, the test titles and the gap files hold together.
 * Promise: an id is defined once, and nobody cites one that does not exist. Rules: docs/spec/00-overview.md.
 */
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { idsIn, readGaps, readSpecification } from "../../scripts/specification.ts"
import { testTitlesOf } from "../../scripts/test-titles.ts"

const root = join(import.meta.dirname, "../..")
const spec = readSpecification(join(root, "docs/spec"))
const defined = new Set(spec.ids)

const testFiles = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".test.ts"))
  .sort()
const titles = testFiles.flatMap((file) =>
  testTitlesOf(readFileSync(join(root, "test", file), "utf8")).map((title) => ({ file, ...title }))
)

test("every id is defined exactly once", () => {
  const places = new Map<string, string[]>()
  for (const { id, file, line } of spec.definitions) places.set(id, [...(places.get(id) ?? []), `${file}:${line}`])
  expect([...places].filter(([, where]) => where.length > 1)).toEqual([])
})

test("every family is there with all its ids", () => {
  const byFamily = new Map<string, number[]>()
  for (const id of spec.ids) {
    const family = id.replace(/\d+$/, "")
    byFamily.set(family, [...(byFamily.get(family) ?? []), Number(id.slice(family.length))])
  }
  const counts = Object.fromEntries([...byFamily].map(([family, numbers]) => [family, numbers.length]))
  expect(counts).toEqual({
    G: 53,
    S: 35,
    W: 23,
    K: 4,
    L: 15,
    GW: 4,
    RL: 2,
    E: 22,
    P: 9,
    C: 80,
    A: 6,
    V: 10,
    M: 10,
    F: 14,
    J: 9
  })
})

test("the specification cites only ids that it defines", () => {
  for (const file of readdirSync(join(root, "docs/spec"))) {
    // `C44` is the example of a conflict marker in the text of a rule.
    const text = readFileSync(join(root, "docs/spec", file), "utf8").replace("<<<<<<< head C44", "")
    expect({ file, unknown: idsIn(text).filter((id) => !defined.has(id)) }).toEqual({ file, unknown: [] })
  }
})

test("every id in a test title exists", () => {
  expect(titles.length).toBeGreaterThan(20)
  const unknown = titles.flatMap(({ file, line, title }) =>
    idsIn(title ?? "")
      .filter((id) => !defined.has(id))
      .map((id) => `${file}:${line} ${id}`)
  )
  expect(unknown).toEqual([])
})

// A title without an id claims nothing, which is right for a test of a part; a file without any would be outside the specification.
test("every test file outside the house shows at least one id, and no title is computed where it cannot be read", () => {
  const outside = titles.filter(({ file }) => !file.startsWith("house/"))
  expect(outside.filter(({ title }) => title === undefined)).toEqual([])
  const withId = new Set(outside.filter(({ title }) => idsIn(title ?? "").length > 0).map(({ file }) => file))
  const files = testFiles.filter((file) => !file.startsWith("house/"))
  expect(files.filter((file) => !withId.has(file))).toEqual([])
})

test("every gap file names the ids that it answers for, and each exists", () => {
  for (const gap of readGaps(join(root, "docs/gaps"))) {
    expect({ file: gap.file, named: gap.ids.length > 0 }).toEqual({ file: gap.file, named: true })
    expect({ file: gap.file, unknown: gap.ids.filter((id) => !defined.has(id)) }).toEqual({
      file: gap.file,
      unknown: []
    })
  }
})

test("the files that the specification links to exist", () => {
  for (const file of readdirSync(join(root, "docs/spec"))) {
    const text = readFileSync(join(root, "docs/spec", file), "utf8")
    for (const [, target = ""] of text.matchAll(/\]\(([^)#:]+)\)/g)) {
      expect({ file, target, exists: existsSync(join(root, "docs/spec", target)) }).toEqual({
        file,
        target,
        exists: true
      })
    }
  }
})

test("titles are read through each, effect, conditions and describe blocks; computed ones are not guessed", () => {
  const source = `
    describe("G1", () => {
      test("plain", () => { const s = /it("x")/.test("it('y')") })
      it.effect("effect", () => run)
      describe.skipIf(a)('inner', () => { test.each([["a", 1], [")", 2]])("each %s", () => {}) })
    })
    layer(Store.layer)("G2", (it) => { it.live(\`live \${1 + 1} times\`, () => {}) })
    test(name, () => {})
    // test("commented", () => {})
    await it.effect.prop("prop", [S], () => {})`
  expect(testTitlesOf(source)).toEqual([
    { title: "G1 plain", line: 3 },
    { title: "G1 effect", line: 4 },
    { title: "G1 inner each %s", line: 5 },
    { title: "G2 live … times", line: 7 },
    { title: undefined, line: 8 },
    { title: "prop", line: 10 }
  ])
})
