/**
 * What the documents promise a reader who follows them.
 * Promise: every npm command they name exists, and no tracked file knows the machine it was written on.
 */
import { execFileSync } from "node:child_process"
import { readFileSync, lstatSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"

const root = join(import.meta.dirname, "../..")
const files = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
  cwd: root,
  encoding: "utf8",
  maxBuffer: 64 * 1024 * 1024
})
  .split("\0")
  .filter((file) => file !== "" && (lstatSync(join(root, file), { throwIfNoEntry: false })?.isFile() ?? false))

/** Text of a file; undefined for a binary one, in which a path could not be told from chance. */
const textOf = (file: string): string | undefined => {
  const bytes = readFileSync(join(root, file))
  return bytes.includes(0) ? undefined : bytes.toString("utf8")
}

const machinePaths: readonly (readonly [what: string, pattern: RegExp])[] = [
  // A store has a directory of that name too; a path of this machine starts at the root.
  ["a path below the builder's directory", /(?<![\w.~})>*$\]-])\/work\/(?=\w)/],
  ["a path below root's home", /(?<![\w.~})>*$\]-])\/root\/(?=[\w.])/],
  ["the host of a registry", /\bregistry\.[a-z0-9-]+\.[a-z]{2,}/],
  ["a download address in a lockfile", /"resolved": "https?:/]
]

const machineTraces = (text: string): readonly string[] =>
  machinePaths.filter(([, pattern]) => pattern.test(text)).map(([what]) => what)

test("no tracked file holds a path of the machine or the host of a registry", () => {
  expect(files.length).toBeGreaterThan(30)
  const found = files.flatMap((file) => machineTraces(textOf(file) ?? "").map((what) => `${file}: ${what}`))
  expect(found).toEqual([])
})

test("traces of a machine are noticed, and directories of a store are not mistaken for them", () => {
  const slash = "/"
  expect(machineTraces(`cd ${slash}work${slash}main`)).toHaveLength(1)
  expect(machineTraces(`"${slash}root${slash}.npmrc"`)).toHaveLength(1)
  expect(machineTraces(`https:${slash}${slash}registry${"."}example.org${slash}x`)).toHaveLength(1)
  expect(machineTraces(`"${"resolved"}": "https:${slash}${slash}example.org"`)).toHaveLength(1)
  expect(
    machineTraces(
      ["STORE", "layerfs", "work", "ws1 `${store}", "work", "upper` work", "work ~", "root", "x registry. Then"].join(
        slash
      )
    )
  ).toEqual([])
})

test("every npm command that a document names is a script of the package", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> }
  const unknown: string[] = []
  for (const file of files.filter((name) => name.endsWith(".md") && !name.includes("fixture"))) {
    for (const [, name = ""] of (textOf(file) ?? "").matchAll(/\bnpm run (?:-s |--silent )?([a-z][\w:-]*)/g)) {
      if (!(name in manifest.scripts)) unknown.push(`${file}: npm run ${name}`)
    }
  }
  expect(unknown).toEqual([])
})
