/** Every workspace call of the promise entry with arguments of other kinds: a rejection that can be acted on, and no change. Rules: V3, W4. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { open, type Coppice } from "../../src/promise.ts"
import {
  at,
  inCommit,
  inExec,
  inMove,
  inOpening,
  inPage,
  operations,
  type Place,
  type Row,
  untyped,
  wrongCalls
} from "../layerfs/wrongArguments.ts"

// Not below /tmp, which is private inside workspaces.
const place = mkdtempSync("/var/tmp/coppice-promise-arguments-")
afterAll(() => rmSync(place, { recursive: true, force: true }))

const seeded = async (coppice: Coppice, name: string) => {
  const source = join(place, `${name}-source`)
  const out = join(place, `${name}-out`)
  mkdirSync(source)
  mkdirSync(out)
  writeFileSync(join(source, "f"), "one\n")
  const { workspaces } = coppice
  const base = await workspaces.importDirectory(source)
  const branch = (await workspaces.fork(base, "b")).id
  const { commit } = await workspaces.applyTo(branch, [{ op: "write", path: "f", bytes: "two\n" }])
  /** All that a call may change. */
  const state = async () => {
    const { indexBytes: _, cache: __, ...stats } = await workspaces.stats()
    const { branches } = await workspaces.branches(branch)
    return { stats, branches, log: await workspaces.log(branch), left: await workspaces.left(), out: readdirSync(out) }
  }
  return { workspaces, source, out, base: base.commit, branch, commit, state }
}

const signalled = (n: number): readonly Place[] => [at(`${n}.signal`, "undefined")]
const page = (n: number): readonly Place[] => [...inPage(n), ...signalled(n)]
const watched = (n: number): readonly Place[] => [
  at(`${n}`, "undefined object"),
  at(`${n}.onProgress`, "undefined function"),
  ...signalled(n)
]
const ref = at("0", "")

/** How a call ended, when it did not reject as it must: at once, well, or with something that nobody can act on. */
const complaint = async (call: () => unknown): Promise<string | undefined> => {
  let answer: unknown
  try {
    answer = call()
  } catch (error) {
    return `thrown at once: ${String(error)}`
  }
  return (answer as Promise<unknown>).then(
    () => "it went well",
    (error: unknown) => (error instanceof Error ? untyped(error) : `no Error: ${String(error)}`)
  )
}

const complaints = async (calls: object, table: Readonly<Record<string, Row>>): Promise<string[]> => {
  const found: string[] = []
  for (const [name, row] of Object.entries(table)) {
    for (const [what, args] of wrongCalls(row, "hostile")) {
      const call = (calls as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>)[name]!
      const said = await complaint(() => call(...args))
      if (said !== undefined) found.push(`${name}(${what}): ${said}`)
    }
  }
  return found
}

test("V3 W3 every workspace call refuses what is of another kind by a rejection with a remedy, and nothing has changed", async () => {
  await using coppice = await open({ preset: "standard", store: join(place, "calls") })
  const { workspaces, source, out, base, branch, commit, state } = await seeded(coppice, "calls")
  const before = await state()
  const target = join(out, "target")
  const table: Readonly<Record<string, Row>> = {
    createEmpty: { args: [{}], places: [at("0", "undefined object"), at("0.name", "undefined text"), ...signalled(0)] },
    importDirectory: {
      args: [source, {}],
      places: [
        at("0", "text bytes"),
        ...watched(1),
        at("1.name", "undefined text"),
        at("1.operationId", "undefined text")
      ]
    },
    fork: {
      args: [base, {}],
      places: [
        ref,
        at("1", "undefined object text"),
        at("1.name", "undefined text"),
        at("1.operationId", "undefined text")
      ]
    },
    open: { args: [branch, {}], places: [ref, ...inOpening(1), ...signalled(1)] },
    branch: { args: [branch], places: [ref] },
    commit: { args: [branch], places: [ref] },
    branches: { args: [branch, {}], places: [ref, ...page(1)] },
    log: { args: [branch, {}], places: [ref, ...page(1), at("1.path", "undefined text bytes")] },
    graph: {
      args: [branch, {}],
      places: [ref, at("1", "undefined object"), at("1.as", "undefined"), at("1.limit", "undefined number")]
    },
    diff: { args: [base, commit, {}], places: [ref, at("1", ""), ...page(2), at("2.path", "undefined text bytes")] },
    blame: { args: [branch, "f", {}], places: [ref, at("1", ""), ...page(2)] },
    globAt: { args: [branch, "*", {}], places: [ref, at("1", "text"), ...page(2)] },
    grepAt: { args: [branch, /x/, {}], places: [ref, at("1", "pattern"), ...page(2)] },
    rewind: {
      args: [branch, { to: base }],
      places: [ref, at("1", ""), at("1.to", ""), at("1.name", "undefined text")]
    },
    reset: { args: [branch, { to: base, expectedHead: commit }], places: [ref, ...inMove(1), at("1.to", "")] },
    undo: { args: [branch, { expectedHead: commit }], places: [ref, ...inMove(1), at("1.number", "")] },
    undoLog: { args: [branch, {}], places: [ref, ...page(1)] },
    readAt: {
      args: [branch, "f", {}],
      places: [
        ref,
        at("1", ""),
        at("2", "undefined object"),
        at("2.offset", "undefined number"),
        at("2.length", "undefined number")
      ]
    },
    listAt: { args: [branch, ""], places: [ref, at("1", "undefined")] },
    statAt: { args: [branch, "f"], places: [ref, at("1", "")] },
    applyTo: {
      args: [branch, [{ op: "write", path: "f", bytes: "x" }], {}],
      places: [ref, operations, ...inCommit(2)]
    },
    execOn: {
      args: [branch, ["true"], {}],
      places: [ref, at("1", "text"), ...inExec(2), ...inCommit(2), at("2.timeLimit", "undefined number", "soon", -1)]
    },
    pin: { args: ["key", branch], places: [at("0", "text"), at("1", "")] },
    unpin: { args: ["key"], places: [at("0", "text")] },
    findOperation: { args: ["op_x"], places: [at("0", "text")] },
    exportTar: { args: [branch, target, {}], places: [ref, at("1", "text bytes"), ...watched(2)] },
    exportDirectory: { args: [branch, target, {}], places: [ref, at("1", "text bytes"), ...watched(2)] },
    exportPatch: {
      args: [{ from: base, to: commit }],
      places: [at("0", ""), at("0.from", ""), at("0.to", ""), at("0.paths", "undefined empty")]
    },
    merge: { args: [base, branch, {}], places: [ref, at("1", ""), ...inCommit(2)] },
    recover: { args: ["wsp_x", {}], places: [ref, ...inCommit(1)] },
    discardLeft: { args: ["wsp_x", "why"], places: [ref, at("1", "")] },
    exportBundle: {
      args: [branch, target, {}],
      places: [ref, at("1", "text bytes"), ...watched(2), at("2.history", "undefined flag")]
    },
    importBundle: { args: [target, {}], places: [at("0", ""), ...watched(1)] },
    compact: {
      args: [{}],
      places: [...watched(0), at("0.maxMs", "undefined number"), at("0.maxBytes", "undefined number")]
    },
    verify: { args: [{}], places: watched(0) }
  }
  const nothing = ["manifest", "probe", "left", "stats"]
  expect([...Object.keys(table), ...nothing].toSorted()).toEqual(Object.keys(workspaces).toSorted())
  expect(await complaints(workspaces, table)).toEqual([])
  expect(await state()).toEqual(before)
}, 240_000)

test("V3 W4 and so does every call of an open workspace", async () => {
  await using coppice = await open({ preset: "standard", store: join(place, "workspace") })
  const { workspaces, branch, state } = await seeded(coppice, "workspace")
  const before = await state()
  {
    await using workspace = await workspaces.open(branch)
    const input = at("0", "text bytes")
    const table: Readonly<Record<string, Row>> = {
      read: { args: ["f"], places: [input] },
      readText: { args: ["f"], places: [input] },
      write: {
        args: ["new", "x", {}],
        places: [input, at("1", "text bytes"), at("2", "undefined object"), at("2.mode", "undefined number")]
      },
      splice: {
        args: ["f", 0, 1, new Uint8Array(1)],
        places: [input, at("1", "number"), at("2", "number"), at("3", "bytes")]
      },
      edit: { args: ["f", "two", "x"], places: [input, at("1", "text"), at("2", "text")] },
      apply: { args: [[{ op: "write", path: "new", bytes: "x" }]], places: [{ ...operations, at: "0" }] },
      list: { args: [""], places: [at("0", "undefined text bytes")] },
      stat: { args: ["f"], places: [input] },
      glob: { args: ["*"], places: [at("0", "text")] },
      grep: {
        args: [/x/, {}],
        places: [at("0", "pattern"), at("1", "undefined object"), at("1.glob", "undefined text")]
      },
      copy: { args: ["f", "g"], places: [input, at("1", "text bytes")] },
      move: { args: ["f", "g"], places: [input, at("1", "text bytes")] },
      remove: { args: ["f"], places: [input] },
      exec: {
        args: [["touch", "made"], {}],
        places: [at("0", "text"), ...inExec(1), at("1.timeLimit", "undefined number", "soon"), ...signalled(1)]
      },
      start: {
        args: [["touch", "made"], {}],
        places: [at("0", ""), at("1", "undefined object"), at("1.cwd", "undefined text")]
      },
      enter: {
        args: [["true"], {}],
        places: [at("0", ""), at("1", "undefined object"), at("1.cwd", "undefined text")]
      },
      checkpoint: {
        args: [{}],
        places: [
          ...inCommit(0).map((one) => (one.at === "0" ? at("0", "undefined object text") : one)),
          at("0.quiesce", "undefined flag")
        ]
      },
      discard: { args: ["why"], places: [at("0", "text")] }
    }
    const calls = Object.entries(workspace).filter(([, call]) => typeof call === "function")
    expect(calls.map(([name]) => name).toSorted()).toEqual(
      [...Object.keys(table), "head", "visiblePath", "changes", "close"].toSorted()
    )
    expect(await complaints(workspace, table)).toEqual([])
    expect(await workspace.changes()).toEqual([])
  }
  expect(await state()).toEqual(before)
}, 240_000)

test("W3 V3 a range of a file, and chosen paths of a patch, are what comes", async () => {
  await using coppice = await open({ preset: "standard", store: join(place, "ranges") })
  const { workspaces, base, branch } = await seeded(coppice, "ranges")
  const text = async (range: object) => Buffer.from(await workspaces.readAt(branch, "f", range)).toString()
  expect([await text({}), await text({ offset: 1 }), await text({ offset: 1, length: 1 })]).toEqual([
    "two\n",
    "wo\n",
    "w"
  ])
  await workspaces.applyTo(branch, [{ op: "write", path: "g", bytes: "g\n" }])
  const { files } = await workspaces.exportPatch({ from: base, to: branch, paths: ["g"] })
  expect(files.map(({ path }) => path)).toEqual(["g"])
})
