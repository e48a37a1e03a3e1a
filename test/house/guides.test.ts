/**
 * The guides' snippets, run as they stand.
 * Promise: the first snippet of a guide is a whole program, and those behind it go on from it, in order. Rules: V3, L3, L7, L9, L13.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll, expect, test } from "vitest"

const root = join(import.meta.dirname, "../..")
const place = mkdtempSync(join(tmpdir(), "coppice-guides-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))

const snippetsOf = (guide: string): readonly string[] => {
  const text = readFileSync(join(root, "docs/guides", guide), "utf8")
  return [...text.matchAll(/^```ts\n([^]*?)^```$/gm)].map(([, code = ""]) => code)
}

/** What a program prints; the package is taken from its sources instead of from what is built. */
const run = (name: string, program: string): string => {
  const file = join(place, `${name}.ts`)
  const entry = pathToFileURL(join(root, "src/promise.ts")).href
  writeFileSync(file, program.replaceAll('"coppice/promise"', JSON.stringify(entry)))
  return execFileSync(process.execPath, [file], { encoding: "utf8", env: { ...process.env, TMPDIR: place } })
}

test("V3 L3 the first snippet of the history guide is a program of its own, and prints what the guide says", () => {
  const [first = ""] = snippetsOf("history.md")
  const said = /^It prints `(.*?)`/m.exec(readFileSync(join(root, "docs/guides/history.md"), "utf8"))?.[1]
  expect(run("first", first)).toBe(`${said}\n`)
}, 120_000)

test("V3 L7 L9 L13 all of its snippets are one program", () => {
  const snippets = snippetsOf("history.md")
  const printed = run("all", snippets.join("\n")).trim().split("\n")
  expect(snippets.length).toBe(5)
  expect(printed.map((line) => line.replace(/cmt_\S+/, "cmt").replaceAll(/\d{3,}/g, "n"))).toEqual([
    "call-12 export const isOver = (sum, limit) => sum > limit",
    "cmt Tidy up comparisons",
    "cmt Import source",
    "[ 'call-12' ] unknown",
    "true",
    "true n n"
  ])
}, 120_000)

test("V3 W4 W8 W12 W16 the workspaces guide is one program, and prints what it says", () => {
  const snippets = snippetsOf("workspaces.md")
  const printed = run("workspaces", snippets.join("\n")).trim().split("\n")
  expect(snippets.length).toBe(5)
  const said = /^It prints `(.*?)`/m.exec(readFileSync(join(root, "docs/guides/workspaces.md"), "utf8"))?.[1]
  expect(printed).toEqual([
    said,
    "[ 'added build', 'added build/limit.js', 'modified src/limit.js' ]",
    "committed 0",
    "0 unchanged 3",
    "[ '?? .gitignore', '?? notes.txt', '?? src/' ] 1",
    "kept 8"
  ])
}, 120_000)
