/**
 * The import boundaries of the rooms.
 * Promise: a forbidden arrow anywhere in src/ or providers/ fails here, and each kind of breach is shown to be noticed.
 * Rules: 01-architecture.md, "Arrows"; P4, P9.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterEach, expect, test } from "vitest"
import { checkImports, importsOf } from "./imports.ts"

const repository = join(import.meta.dirname, "../..")
const made: string[] = []
afterEach(() => {
  for (const directory of made.splice(0)) rmSync(directory, { recursive: true, force: true })
})

const tree = (files: Readonly<Record<string, string>>): string => {
  const root = mkdtempSync(join(tmpdir(), "coppice-imports-"))
  made.push(root)
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  return root
}

test("the arrows between the rooms hold in every source file", () => {
  const { breaches, imports } = checkImports(repository)
  expect(breaches).toEqual([])
  expect(imports).toBeGreaterThan(50)
})

test("each forbidden import is noticed", () => {
  const cases: readonly (readonly [file: string, text: string, complaint: string])[] = [
    ["src/governance/Goal.ts", `import { a } from "../session/Queue.ts"`, "governance may not import session"],
    ["src/governance/Goal.ts", `import type { A } from "../workspace/index.ts"`, "governance may not import workspace"],
    ["src/governance/Goal.ts", `export type A = import("../session/A.ts").A`, "governance may not import session"],
    ["src/workspace/A.ts", `export * from "../governance/index.ts"`, "workspace may not import governance"],
    ["src/host/A.ts", `import "../session/index.ts"`, "host may not import session"],
    ["src/host/A.ts", `import { spawn } from "node:child_process"`, "never through child_process"],
    ["providers/host-process/index.ts", `import { spawn } from "child_process"`, "never through child_process"],
    ["src/session/A.ts", `import { a } from "../workspace/index.ts"`, "session may not import workspace"],
    ["src/explore/A.ts", `import { a } from "../evaluator/index.ts"`, "explore may not import evaluator"],
    ["src/session/A.ts", `import { a } from "../journey/index.ts"`, "session may not import journey"],
    ["src/base/A.ts", `import { a } from "../sqlite/Database.ts"`, "base may not import sqlite"],
    ["src/base/A.ts", `import { Effect } from "effect"`, "import its submodule"],
    ["src/standard.ts", `import { a } from "../providers/layerfs/index.ts"`, "entry may not import providers/layerfs"],
    ["src/standard.ts", `import { a } from "coppice/providers/layerfs"`, "entry may not import providers/layerfs"],
    [
      "src/standard.ts",
      `const a = () => import("../providers/layerfs/index.ts")`,
      "import() belongs to assembly alone"
    ],
    ["src/host/A.ts", `const a = () => import("./B.ts")`, "import() belongs to assembly alone"],
    ["providers/layerfs/A.ts", `const a = () => import("../../src/workspace/index.ts")`, "belongs to assembly alone"],
    ["providers/layerfs/A.ts", `const a = () => import("zod")`, "import() belongs to assembly alone"],
    ["providers/layerfs/A.ts", `const a = (n: string) => import(n)`, "needs a literal specifier"],
    ["src/assembly/A.ts", `import { a } from "../../providers/layerfs/index.ts"`, "assembly may not import providers"],
    ["src/assembly/A.ts", `const a = (name: string) => import(name)`, "needs a literal specifier"],
    [
      "src/assembly/A.ts",
      "const a = (n: string) => import(`../../providers/${n}/index.ts`)",
      "needs a literal specifier"
    ],
    ["providers/layerfs/A.ts", `import { a } from "../host-process/index.ts"`, "may not import providers/host-process"],
    ["providers/layerfs/A.ts", `import { a } from "../../src/governance/index.ts"`, "may not import governance"],
    ["providers/layerfs/A.ts", `import { a } from "../../test/host/x.ts"`, "reaches out of src/ and providers/"],
    ["providers/novelty/A.ts", `export const a = 1`, "not in the table of arrows"],
    ["src/novelty/A.ts", `export const a = 1`, "not in the table of arrows"]
  ]
  for (const [file, text, complaint] of cases) {
    const { breaches } = checkImports(tree({ [file]: text }))
    expect(breaches.join("\n"), `${file}: ${text}`).toContain(complaint)
  }
})

test("allowed imports pass, and what only looks like an import is not one", () => {
  const root = tree({
    "src/assembly/Registry.ts": `
      import * as Effect from "effect/Effect"
      import { Goals } from "../governance/index.ts"
      const table = { layerfs: () => import("../../providers/layerfs/index.ts") }`,
    "providers/layerfs/index.ts": `
      import type { WorkspaceProvider } from "../../src/workspace/index.ts"
      import { digest } from "../../src/base/Digest.ts"
      const url = new URL(import.meta.url)`,
    "src/governance/Goal.ts": `
      // import { a } from "../session/Queue.ts"
      /* export * from "../session/Queue.ts" */
      const text = 'import { a } from "../session/Queue.ts"'
      const other = \`import("../session/\${text}.ts")\`
      const pattern = /import "..\\/session\\/Queue.ts"/
      export const important = { from: "../session/Queue.ts" }`
  })
  expect(checkImports(root)).toEqual({ breaches: [], imports: 5 })
})

test("imports are read in every form, with the line they stand on", () => {
  const text = `import a from "a"
import type { B } from 'b'
import {
  c,
  type D
} from "c"
export { e } from "e"
export * as f from "f"
export const g = 1 / 2
const s = "x".split("/")
import "h"
const i = await import("i")
type T = import("t").T
const j = \`\${await import("j")} import "k"\`
`
  expect(importsOf(text).map((i) => `${i.line} ${i.specifier}${i.dynamic ? " dynamic" : ""}`)).toEqual([
    "1 a",
    "2 b",
    "3 c",
    "7 e",
    "8 f",
    "11 h",
    "12 i dynamic",
    "13 t",
    "14 j dynamic"
  ])
})
