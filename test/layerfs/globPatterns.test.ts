/** What a glob pattern matches, and what it costs; and what a line is to a search. Rules: W4, L3. */
import * as fc from "fast-check"
import { expect, it } from "vitest"
import { compileGlob } from "../../src/workspace/kit/Glob.ts"
import { grepLines } from "../../src/workspace/kit/Grep.ts"
import { seededRandom } from "../seededRandom.ts"

/** The same as a regular expression, for patterns of these parts; `/` stands in no class, and backtracking is short. */
const parts: Readonly<Record<string, string>> = {
  a: "a",
  b: "b",
  "/": "/",
  ".": "\\.",
  "*": "[^/]*",
  "?": "[^/]",
  "[ab]": "[ab]",
  "[!a]": "[^a/]",
  "{a,b*}": "(?:a|b[^/]*)",
  "{,a}": "(?:|a)",
  "{a{b,?},/}": "(?:a(?:b|[^/])|/)",
  "/**/": "/(?:[^]*/)?"
}

it("W4 a glob matches what the regular expression of its parts does", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...Object.keys(parts)), { minLength: 1, maxLength: 6 }),
      fc.array(fc.constantFrom("a", "b", "/", ".", "ab"), { maxLength: 7 }),
      (pattern, path) => {
        const text = pattern.join("")
        // Two stars side by side are another part.
        fc.pre(
          !text.includes("**") ||
            (text.match(/\*\*/g)!.length === pattern.filter((one) => one === "/**/").length && !/\*\*\/\*\*/.test(text))
        )
        const model = new RegExp(`^${pattern.map((one) => parts[one]).join("")}$`)
        expect([text, path.join(""), compileGlob(text)(path.join(""))]).toEqual([
          text,
          path.join(""),
          model.test(path.join(""))
        ])
      }
    ),
    { numRuns: 20_000 }
  )
})

it("W4 classes, braces and stars mean what a shell means, and none but ** reaches over a slash", () => {
  const cases: readonly (readonly [pattern: string, yes: readonly string[], no: readonly string[]])[] = [
    ["a[!b]c", ["axc"], ["abc", "a/c"]],
    ["a[^b]c", ["axc"], ["abc", "a/c"]],
    ["[]a]", ["]", "a"], ["[", "]a]", "b"]],
    ["[!]x]*", ["abc"], ["]bc", "xbc", "/bc"]],
    ["[a-]", ["a", "-"], ["b"]],
    ["[.-0]", [".", "0"], ["/"]],
    ["[x", ["[x"], ["x"]],
    ["{a,b", ["a", "b"], ["{a,b"]],
    ["a}", ["a}"], ["a"]],
    ["**", ["a", "a/b", ".c"], []],
    ["**/x", ["x", "a/x", "a/b/x"], ["ax", "a/xx"]],
    ["src/**", ["src/a", "src/a/b"], ["src", "srcs/a"]],
    ["a\n?", ["a\nb", "a\n\n"], ["a\n"]],
    ["*.ts", ["a.ts", ".ts"], ["a/b.ts"]]
  ]
  for (const [pattern, yes, no] of cases) {
    const matches = compileGlob(pattern)
    expect([pattern, yes.filter(matches), no.filter(matches)]).toEqual([pattern, [...yes], []])
  }
  expect(() => compileGlob("[z-a]")).toThrow()
})

it("W4 a pattern of many stars is answered at once: it holds up the host's thread", () => {
  const path = "a".repeat(4000)
  expect(compileGlob(`${"*a".repeat(30)}*b`)(path)).toBe(false)
  expect(compileGlob(`${"{*,a*}".repeat(30)}`)(path)).toBe(true)
  // More places than are kept: which of the last twelve bytes were an a.
  const tail = compileGlob(`*a${"?".repeat(12)}`)
  const mixed = Array.from({ length: 4000 }, (_, i) => (i % 3 === 0 || i % 7 === 0 ? "a" : "b")).join("")
  for (let cut = 3900; cut < 4000; cut += 1) expect(tail(mixed.slice(0, cut))).toBe(mixed[cut - 13] === "a")
})

it("W4 L3 a line feed at the end of a file begins no line, and an empty file has none", () => {
  const found = (text: string): number[] => {
    const lines: number[] = []
    grepLines(/^$/, Buffer.from(text), 0, (line) => lines.push(line) > 0)
    return lines
  }
  expect([found(""), found("a\n"), found("a"), found("\n"), found("a\n\n"), found("\n\nb")]).toEqual([
    [],
    [],
    [],
    [1],
    [2],
    [1, 2]
  ])
})

it("W4 L3 a long text is searched piece by piece: the same lines, numbers and pages as at once", () => {
  const random = seededRandom(7)
  const lengths = [0, 1, 60, 70_000, 1024 * 1024 - 1, 1024 * 1024, 1_500_000]
  for (const end of ["", "\n"]) {
    const lines = Array.from({ length: 400 }, (_, n) => `${"ä".repeat(lengths[random(n % 50 === 0 ? 7 : 3)]! / 2)}${n}`)
    const bytes = Buffer.from(lines.join("\n") + end)
    for (const skip of [0, 1, 50, 399, 400, 500]) {
      const found: string[] = []
      grepLines(/[05]$/, bytes, skip, (line, text) => found.push(`${line} ${text.length}`) > 0)
      const model = lines.flatMap((text, n) => (n >= skip && /[05]$/.test(text) ? [`${n + 1} ${text.length}`] : []))
      expect(found).toEqual(model)
    }
  }
})
