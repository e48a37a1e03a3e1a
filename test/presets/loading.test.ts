import { spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, assert, test } from "vitest"
import {
  type Closure,
  closureOf,
  governed,
  imported,
  machineFiles,
  ownIdentity,
  together,
  tools,
  undeclared,
  workspaceUsed
} from "./closures.ts"

const root = join(import.meta.dirname, "..", "..")
const programs = join(import.meta.dirname, "programs")
const packageExports: Readonly<Record<string, { readonly types: string } | null>> = JSON.parse(
  readFileSync(join(root, "package.json"), "utf8")
).exports
const made: string[] = []
afterAll(() => {
  for (const place of made.splice(0)) rmSync(place, { recursive: true, force: true })
})

/** What was there after each step, by the step's name. The process must have ended by itself. */
const load = (
  entry: string,
  ...steps: readonly string[]
): { readonly store: string; readonly at: Record<string, any> } => {
  const place = mkdtempSync(join(tmpdir(), "coppice-preset-"))
  made.push(place)
  const store = join(place, "store")
  const argv = ["--import", join(programs, "trace.mjs"), join(programs, "load.ts"), entry, store, ...steps]
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, argv, { encoding: "utf8", timeout: 60_000 })
  assert.deepEqual([status, signal], [0, null], stderr)
  const lines = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
  return { store, at: Object.fromEntries(lines.map((line) => [line.step, line])) }
}

const below = (files: readonly string[], ...directories: readonly string[]): readonly string[] =>
  files.filter((file) => directories.some((directory) => file.startsWith(directory)))

/** Nothing runs, listens or waits. */
const assertIdle = (snapshot: any) => {
  assert.deepEqual([snapshot.threads, snapshot.processes, snapshot.sockets], [0, 0, 0], snapshot.step)
  assert.deepEqual(snapshot.signals, [])
  const waiting = snapshot.resources.filter((name: string) => !/^(TTYWrap|PipeWrap|FSReqPromise|Immediate)$/.test(name))
  assert.deepEqual(waiting, [], snapshot.step)
}

/** Loaded and touched are exactly what is declared; the program's own modules are no part of it. */
const assertDeclared = (snapshot: any, store: string, ...closures: readonly Closure[]) => {
  const closure = closureOf(below(snapshot.files, "src/", "providers/"), snapshot.modules)
  assert.deepEqual(closure, together(...closures), snapshot.step)
  const project = process.cwd()
  const opened = closures.includes(workspaceUsed)
  const declared = (path: string) =>
    path === project || machineFiles.includes(path) || (opened && (tools.test(path) || ownIdentity.test(path)))
  assert.deepEqual(undeclared(snapshot.paths, { root, store }, declared), [], snapshot.step)
}

const part = (snapshot: any, name: string) => snapshot.report.parts.find((p: any) => p.name === name)

/** Names that the package exports, with their sources. */
const entries = Object.entries(packageExports).flatMap(([name, target]) =>
  target === null ? [] : [[name, target.types.replace("./dist/types/", "").replace(/\.d\.ts$/, ".ts")] as const]
)

test("V1 every entry point of the package has its closure declared, and no other has", () => {
  assert.deepEqual(Object.keys(imported).toSorted(), entries.map(([name]) => name).toSorted())
})

for (const [name, source] of entries) {
  test(`V1 P4 P9 importing ${name} loads exactly what is declared, no provider but itself, starts nothing and touches no file`, () => {
    const { store, at } = load(source)
    const { files, modules, paths } = at["imported"]
    assert.deepEqual(closureOf(files, modules), imported[name])
    assert.deepEqual(undeclared(paths, { root, store }), [])
    assertIdle(at["imported"])
    assert.isFalse(existsSync(store))
  })
}

test("V1 P1 listing providers and an unknown name load no provider, start nothing and touch no file", () => {
  const { store, at } = load("assembly")
  assert.deepEqual(
    at["asked"].parts.map((p: any) => [p.name, p.loaded]),
    [
      ["authority-sqlite", false],
      ["layerfs", false],
      ["git-worktree", false],
      ["reflink", false],
      ["host-process", false]
    ]
  )
  assert.equal(at["asked"].unknown, "UNKNOWN_PROVIDER")
  assert.deepEqual(at["asked"].files, at["imported"].files)
  assert.deepEqual(below(at["asked"].files, "providers/"), [])
  assertIdle(at["asked"])
  assert.isFalse(existsSync(store))
})

test("P4 V1 [minimal] governed work loads the authority alone: no workspace, explore, evaluator or journey code, and no tables of them", () => {
  const { store, at } = load("minimal", "govern")
  assertDeclared(at["governed"], store, imported["./minimal"]!, governed)
  assertDeclared(at["closed"], store, imported["./minimal"]!, governed)
  const { files, tables, report } = at["governed"]
  assert.isNotEmpty(below(files, "providers/authority-sqlite/"))
  const unwanted = ["providers/layerfs/", "providers/host-process/", "src/explore/", "src/evaluator/", "src/journey/"]
  assert.deepEqual(below(files, ...unwanted), [])
  assert.deepEqual(
    tables.filter((name: string) => name.startsWith("explore")),
    []
  )
  assert.includeMembers(tables, ["journal", "goal", "session_binding"])
  assert.deepEqual(report.modules, ["work", "session"])
  assert.deepEqual(report.pools, [])
  assert.deepInclude(part(at["governed"], "authority-sqlite"), { enabled: true, loaded: true, ready: true })
  assert.deepInclude(part(at["governed"], "layerfs"), { enabled: false, loaded: false, why: "not asked for" })
  assertIdle(at["governed"])
  assertIdle(at["closed"])
})

test("P4 V1 [standard] until a workspace is used there is no layerfs module, thread, directory or timer, and the read-back says so", () => {
  const { store: place, at } = load("standard", "govern")
  assertDeclared(at["governed"], place, imported["./standard"]!, governed)
  const { files, tables, store, report } = at["governed"]
  assert.deepEqual(below(files, "providers/layerfs/", "providers/host-process/", "src/evaluator/", "src/journey/"), [])
  assert.deepEqual(
    store.filter((name: string) => !name.startsWith("authority.db")),
    []
  )
  assert.includeMembers(tables, ["explore_node", "explore_handoff"])
  assert.deepEqual(report.modules, ["work", "session", "explore"])
  assert.deepInclude(part(at["governed"], "layerfs"), {
    enabled: true,
    loaded: false,
    ready: null,
    why: "the preset's workspaces"
  })
  assertIdle(at["governed"])
  assertIdle(at["closed"])
})

test("P4 P9 [standard] the first use loads layerfs and opens its store once, the read-back says why, and closing leaves nothing running", () => {
  const { store, at } = load("standard", "govern", "use")
  assertDeclared(at["used"], store, imported["./standard"]!, governed, workspaceUsed)
  const used = at["used"]
  assert.isNotEmpty(below(used.files, "providers/layerfs/"))
  assert.include(used.store, "layerfs")
  // Two calls met at the first use: one store, one worker thread.
  assert.equal(used.threads, 1)
  assert.match(used.made, /^lyr_/)
  assert.deepInclude(part(used, "layerfs"), { loaded: true, ready: true, why: "first use of a workspace" })
  assert.equal(at["closed"].threads, 1)
  const waiting = at["closed"].resources.filter((name: string) => /Timeout|Worker|MessagePort|Process/.test(name))
  assert.deepEqual(waiting, [])
  assert.deepEqual(at["closed"].signals, [])
})

test("J6 [standard] with workspaces off every call answers Unavailable with what to switch on; governance is as before and nothing is loaded", () => {
  const { at } = load("standard", "govern", "off")
  const answers: Record<string, any> = at["refused"].answers
  assert.deepEqual(Object.keys(answers), ["manifest", "probe", "import", "fork", "left", "stats"])
  for (const [name, answer] of Object.entries(answers)) {
    assert.deepInclude(answer, { _tag: "Unavailable", code: "UNAVAILABLE", what: "workspaces" }, name)
    assert.include(answer.remedy, 'workspaces: "layerfs"')
  }
  assert.deepEqual(below(at["refused"].files, "providers/layerfs/"), [])
  assert.deepInclude(part(at["refused"], "layerfs"), { enabled: false, loaded: false, ready: null })
  assert.deepEqual(
    at["refused"].store.filter((name: string) => !name.startsWith("authority.db")),
    []
  )
  assert.includeMembers(at["governed"].tables, ["goal", "journal"])
  assertIdle(at["refused"])
})
