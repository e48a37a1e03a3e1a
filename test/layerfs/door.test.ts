/** Every call of the provider and of an open workspace with arguments of other kinds: always a typed error, never a change. Rules: V3, W3, W4. */
import { readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Exit from "effect/Exit"
import { expect, it, vi } from "vitest"
import type { OpenOptions, Workspace, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { scratch } from "./storeFixture.ts"
import { provider, run } from "./storeProvider.ts"
import {
  at,
  inCommit,
  inExec,
  inMove,
  inOpening,
  inPage,
  operations,
  type Row,
  untyped,
  wrongCalls
} from "./wrongArguments.ts"

vi.setConfig({ testTimeout: 240_000 })

const seeded = async () => {
  const source = scratch()
  writeFileSync(join(source, "f"), "one\n")
  const out = scratch()
  const fs = await provider(join(scratch(), "s"))
  const receipt = await run(fs.importDirectory({ source }))
  const branch = (await run(fs.fork(receipt.layer, { name: "b" }))).id
  const { commit } = await run(fs.applyTo(branch, [{ op: "write", path: "f", bytes: "two\n" }]))
  return { fs, source, out, layer: receipt.layer, base: receipt.commit, branch, commit }
}
type Ground = Awaited<ReturnType<typeof seeded>>

/** All that a call may change. */
const state = async ({ fs, branch, out }: Ground) => {
  const { indexBytes: _, cache: __, ...stats } = await run(fs.stats)
  const { branches } = await run(fs.branches(branch))
  return { stats, branches, log: await run(fs.log(branch)), left: await run(fs.left), out: readdirSync(out) }
}

const page = (n: number) => inPage(n)
const ref = at("0", "")

const rows = ({ source, out, layer, base, branch, commit }: Ground): Readonly<Record<string, Row>> => {
  const target = join(out, "target")
  return {
    createEmpty: { args: [{ name: "n" }], places: [at("0", "undefined object"), at("0.name", "undefined text")] },
    importDirectory: {
      args: [{ source }],
      places: [
        at("0", ""),
        at("0.source", "text bytes", "/a\0b", new Uint8Array([47, 0]), "", new Uint8Array()),
        at("0.name", "undefined text"),
        at("0.operationId", "undefined text"),
        at("0.onProgress", "undefined function")
      ]
    },
    fork: {
      args: [layer, { name: "n" }],
      places: [ref, at("1", "undefined object"), at("1.name", "undefined text"), at("1.operationId", "undefined text")]
    },
    open: { args: [branch, {}], places: [ref, ...inOpening(1), at("1.guard", "undefined"), at("1.as", "undefined")] },
    branch: { args: [branch], places: [ref] },
    commit: { args: [branch], places: [ref] },
    branches: { args: [branch, {}], places: [ref, ...page(1)] },
    log: { args: [branch, {}], places: [ref, ...page(1), at("1.path", "undefined text bytes")] },
    diff: { args: [base, commit, {}], places: [ref, at("1", ""), ...page(2), at("2.path", "undefined text bytes")] },
    blame: { args: [branch, "f", {}], places: [ref, at("1", ""), ...page(2)] },
    readAt: {
      args: [branch, "f", {}],
      places: [
        ref,
        at("1", ""),
        at("2", "undefined object"),
        at("2.offset", "undefined number", -1),
        at("2.length", "undefined number", -1)
      ]
    },
    listAt: { args: [branch, ""], places: [ref, at("1", "")] },
    statAt: { args: [branch, "f"], places: [ref, at("1", "")] },
    globAt: { args: [branch, "*", {}], places: [ref, at("1", "text", "[z-a]"), ...page(2)] },
    grepAt: {
      args: [branch, /x/, {}],
      places: [ref, at("1", "pattern"), ...page(2), at("2.path", "undefined"), at("2.glob", "undefined text", "[z-a]")]
    },
    rewind: {
      args: [branch, { to: base }],
      places: [ref, at("1", ""), at("1.to", ""), at("1.name", "undefined text"), at("1.operationId", "undefined text")]
    },
    reset: { args: [branch, { to: base, expectedHead: commit }], places: [ref, ...inMove(1), at("1.to", "")] },
    undo: { args: [branch, { expectedHead: commit }], places: [ref, ...inMove(1), at("1.number", "")] },
    undoLog: { args: [branch, {}], places: [ref, ...page(1)] },
    applyTo: {
      args: [branch, [{ op: "write", path: "f", bytes: "three\n" }], {}],
      places: [ref, operations, ...inCommit(2)]
    },
    execOn: {
      args: [branch, ["true"], {}],
      places: [
        ref,
        at("1", "text"),
        ...inExec(2),
        at("2.timeLimitMs", "undefined number"),
        ...inCommit(2),
        ...inOpening(2)
      ]
    },
    candidate: {
      args: [branch, { environment: "sha256:0", parent: null }],
      places: [ref, at("1", ""), at("1.environment", "text"), at("1.parent", "null text")]
    },
    pin: { args: ["key", branch], places: [at("0", "text", ""), at("1", "")] },
    unpin: { args: ["key"], places: [at("0", "text")] },
    findOperation: { args: ["op_x"], places: [at("0", "text")] },
    exportTar: {
      args: [branch, target, {}],
      places: [
        ref,
        at("1", "text bytes", "/a\0b"),
        at("2", "undefined object"),
        at("2.onProgress", "undefined function")
      ]
    },
    exportDirectory: {
      args: [branch, target, {}],
      places: [
        ref,
        at("1", "text bytes", "/a\0b"),
        at("2", "undefined object"),
        at("2.onProgress", "undefined function")
      ]
    },
    exportPatch: {
      args: [{ from: base, to: commit }],
      places: [at("0", ""), at("0.from", ""), at("0.to", ""), at("0.paths", "undefined empty", [7])]
    },
    recover: { args: ["wsp_x", {}], places: [ref, ...inCommit(1)] },
    discardLeft: { args: ["wsp_x", "why"], places: [ref, at("1", "")] },
    exportBundle: {
      args: [{ ref: branch, target }],
      places: [
        at("0", ""),
        at("0.ref", ""),
        at("0.target", "text bytes", "/a\0b"),
        at("0.history", "undefined flag"),
        at("0.onProgress", "undefined function")
      ]
    },
    importBundle: {
      args: [{ source: target }],
      places: [at("0", ""), at("0.source", "", "/a\0b"), at("0.onProgress", "undefined function")]
    },
    compact: {
      args: [{}],
      places: [
        at("0", "undefined object"),
        at("0.maxMs", "undefined number"),
        at("0.maxBytes", "undefined number"),
        at("0.onProgress", "undefined function")
      ]
    },
    verify: { args: [{}], places: [at("0", "undefined object"), at("0.onProgress", "undefined function")] }
  }
}

type Call = (...args: readonly unknown[]) => Effect.Effect<unknown, unknown>

/** What is wrong with how a call ended: it must have failed with a typed error. */
const complaint = async (effect: () => Effect.Effect<unknown, unknown>): Promise<string | undefined> => {
  const exit = await Effect.runPromiseExit(Effect.scoped(Effect.suspend(effect)))
  if (Exit.isSuccess(exit)) return "it went well"
  const failed = exit.cause.reasons.find(Cause.isFailReason)
  return failed === undefined ? `a defect: ${Cause.pretty(exit.cause)}` : untyped(failed.error)
}

it("V3 W3 whatever plain JavaScript passes in any place of any call of the provider, it is a typed error and nothing has changed", async () => {
  const ground = await seeded()
  const before = await state(ground)
  const table = rows(ground)
  // What answers with `Unsupported` whatever it is given, and what takes nothing.
  const elsewhere = ["importGit", "merge", "retire"]
  const calls = Object.entries(ground.fs).filter(([, call]) => typeof call === "function")
  expect(calls.map(([name]) => name).toSorted()).toEqual([...Object.keys(table), ...elsewhere].toSorted())
  let count = 0
  for (const [name, row] of Object.entries(table)) {
    const complaints: string[] = []
    for (const [what, args] of wrongCalls(row)) {
      const call = ground.fs[name as keyof WorkspaceProvider] as Call
      const said = await complaint(() => call(...args))
      if (said !== undefined) complaints.push(`${name}(${what}): ${said}`)
      count += 1
    }
    expect(complaints).toEqual([])
    expect(await state(ground), name).toEqual(before)
  }
  expect(count).toBeGreaterThan(1000)
})

it.each(["overlay", "copy"] as const)(
  "V3 W4 the same for every call of a workspace that is open as %s",
  async (projection) => {
    const ground = await seeded()
    const before = await state(ground)
    const input = at("0", "text bytes", "a\0b")
    const table: Partial<Record<keyof Workspace, Row>> = {
      read: { args: ["f"], places: [input] },
      write: {
        args: ["new", "x", {}],
        places: [input, at("1", "text bytes"), at("2", "undefined object"), at("2.mode", "undefined number", -1, 1e9)]
      },
      splice: {
        args: ["f", 0, 1, new Uint8Array(1)],
        places: [input, at("1", "number", -1, 1e9), at("2", "number", -1, 1e9), at("3", "bytes")]
      },
      edit: { args: ["f", "two", "x"], places: [input, at("1", "text"), at("2", "text")] },
      apply: { args: [[{ op: "write", path: "new", bytes: "x" }]], places: [{ ...operations, at: "0" }] },
      list: { args: [""], places: [input] },
      stat: { args: ["f"], places: [input] },
      glob: { args: ["*"], places: [at("0", "text", "[z-a]")] },
      grep: {
        args: [/x/, {}],
        places: [
          at("0", "pattern"),
          at("1", "undefined object"),
          at("1.glob", "undefined text", "[z-a]"),
          at("1.limit", "undefined number")
        ]
      },
      copy: { args: ["f", "g"], places: [input, at("1", "text bytes")] },
      move: { args: ["f", "g"], places: [input, at("1", "text bytes")] },
      remove: { args: ["f"], places: [input] },
      exec: {
        args: [["touch", "made"], {}],
        places: [at("0", "text", [""]), ...inExec(1), at("1.timeLimitMs", "undefined number", 0, -1)]
      },
      start: {
        args: [["touch", "made"], {}],
        places: [at("0", "", [""]), ...inExec(1).filter(({ at: place }) => /^1(\.cwd|\.env)?$/.test(place))]
      },
      enter: {
        args: [["true"], {}],
        places: [
          at("0", "", [""]),
          ...inExec(1).filter(({ at: place }) => /^1(\.cwd|\.env|\.passEnv|\.gitDefaults)?$/.test(place))
        ]
      },
      checkpoint: {
        args: [{}],
        places: [
          ...inCommit(0),
          at("0.quiesce", "undefined flag"),
          at("0.allowLive", "undefined flag"),
          at("0.keepTimes", "undefined flag")
        ]
      },
      discard: { args: ["why"], places: [at("0", "text")] }
    }
    await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const workspace = yield* ground.fs.open(ground.branch, { projection })
          const calls = Object.entries(workspace).filter(([, call]) => typeof call === "function")
          expect(calls.map(([name]) => name).toSorted()).toEqual(Object.keys(table).toSorted())
          for (const [name, row] of Object.entries(table)) {
            const complaints: string[] = []
            for (const [what, args] of wrongCalls(row)) {
              const call = workspace[name as keyof Workspace] as Call
              const said = yield* Effect.promise(() => complaint(() => call(...args)))
              if (said !== undefined) complaints.push(`${name}(${what}): ${said}`)
            }
            expect(complaints).toEqual([])
            expect(yield* workspace.changes, name).toEqual([])
          }
        })
      )
    )
    expect(await state(ground)).toEqual(before)
  }
)

it("V3 W4 W17 an option that no call knows, or that nothing could be done with, is refused by its name, above all where safety was asked for", async () => {
  const { fs, branch } = await seeded()
  const refused = async (effect: Effect.Effect<unknown, unknown, Scope.Scope>): Promise<unknown> =>
    Effect.runPromise(Effect.scoped(Effect.flip(effect)))
  const typo = (options: object): never => options as never
  const calls: (readonly [Effect.Effect<unknown, unknown, Scope.Scope>, string])[] = [
    [fs.open(branch, typo({ isolaton: { network: "none" } })), "isolaton"],
    [fs.open(branch, typo({ isolation: { netwrok: "none" } })), "isolation"],
    [fs.execOn(branch, ["true"], typo({ timelimitMs: 1 })), "timelimitMs"],
    [fs.applyTo(branch, [], typo({ operationid: "x" })), "operationid"],
    [Effect.flatMap(fs.open(branch), (workspace) => workspace.exec(["true"], typo({ timeLimit: 1 }))), "timeLimit"],
    [Effect.flatMap(fs.open(branch), (workspace) => workspace.checkpoint(typo({ quiese: true }))), "quiese"]
  ]
  for (const name of ["", "A=B", "A\0B"]) {
    for (const call of ["exec", "start", "enter"] as const) {
      const asked = Effect.flatMap(
        fs.open(branch),
        (workspace): Effect.Effect<unknown, unknown, Scope.Scope> =>
          workspace[call](["touch", "made"], { env: { [name]: "x" } })
      )
      calls.push([asked, "env"])
    }
  }
  const exec = (options: object) =>
    Effect.flatMap(fs.open(branch), (workspace) => workspace.exec(["touch", "made"], options))
  calls.push(
    [exec({ passEnv: ["A=B"] }), "passEnv"],
    [exec({ spillDirectory: "/nonexistent" }), "spillDirectory"],
    [exec({ spillDirectory: "/dev/null" }), "spillDirectory"],
    [fs.pin("", branch), "key"]
  )
  const openings: readonly OpenOptions[] = [
    { hide: ["relative"] },
    { readOnlyPaths: ["./relative"] },
    { ownDirs: ["/src"] },
    { ownDirs: ["src/../.."] }
  ]
  for (const projection of ["overlay", "copy", "lazy"] as const) {
    for (const options of openings) calls.push([fs.open(branch, { projection, ...options }), Object.keys(options)[0]!])
  }
  for (const [call, argument] of calls) expect(await refused(call)).toMatchObject({ _tag: "ArgumentInvalid", argument })
})

/** The typed error that a call ends with. */
const failed = (call: Effect.Effect<unknown, unknown>): Promise<unknown> => Effect.runPromise(Effect.flip(call))

it("V3 W4 a refused argument says whether it is missing, of another kind, of a useless value or unknown, and a misspelt one names the one that was meant", async () => {
  const { fs, branch } = await seeded()
  const any = (value: unknown): never => value as never
  const calls: (readonly [call: Effect.Effect<unknown, unknown, Scope.Scope>, problem: string, argument: string])[] = [
    [fs.open(any(undefined)), "missing", "branch"],
    [fs.importDirectory(any(undefined)), "missing", "options"],
    [fs.importDirectory(any({})), "missing", "source"],
    [fs.reset(branch, any({ to: branch })), "missing", "expectedHead"],
    [fs.pin("key", any(undefined)), "missing", "ref"],
    [fs.open(any(7)), "kind", "branch"],
    [fs.open(branch, any(7)), "kind", "options"],
    [fs.open(branch, any({ hide: "/a" })), "kind", "hide"],
    [fs.open(branch, any({ hide: ["/a", 7] })), "kind", "hide"],
    [fs.open(branch, any({ projection: 7 })), "kind", "projection"],
    [fs.open(branch, any({ actor: { call: 7 } })), "kind", "actor"],
    [fs.execOn(branch, ["true"], any({ env: { A: 7 } })), "kind", "env"],
    [fs.importDirectory(any({ source: null })), "kind", "source"],
    [fs.importDirectory({ source: "" }), "value", "source"],
    [fs.open(branch, { hide: ["/a", "b"] }), "value", "hide"],
    [fs.open(branch, any({ projection: "overlai" })), "value", "projection"],
    [fs.open(branch, any({ isolation: { network: "lan" } })), "value", "isolation"],
    [fs.execOn(branch, ["true"], { env: { "A=": "x" } }), "value", "env"],
    [fs.compact({ maxMs: Number.NaN }), "value", "maxMs"],
    [fs.pin("", branch), "value", "key"],
    [fs.open(branch, any({ color: true })), "unknown", "color"]
  ]
  for (const [call, problem, argument] of calls) {
    const error = await failed(Effect.scoped(call))
    expect(error, argument).toMatchObject({ _tag: "ArgumentInvalid", argument, problem })
    expect((error as Error).message).toContain(`\`${argument}\``)
  }
  const misspelt: (readonly [Effect.Effect<unknown, unknown, Scope.Scope>, string])[] = [
    [fs.open(branch, any({ isolaton: "default" })), "isolation"],
    [fs.open(branch, any({ readonlyPaths: [] })), "readOnlyPaths"],
    [fs.open(branch, any({ projektoin: "copy" })), "projection"],
    [fs.execOn(branch, ["true"], any({ timeLimit: 1 })), "timeLimitMs"],
    [fs.applyTo(branch, [], any({ messgae: "x" })), "message"]
  ]
  for (const [call, meant] of misspelt) {
    expect(await failed(Effect.scoped(call))).toMatchObject({
      problem: "unknown",
      remedy: `Did you mean \`${meant}\`? Nothing was done.`
    })
  }
  const far = (await failed(Effect.scoped(fs.fork(branch, any({ color: true }))))) as { readonly remedy: string }
  expect(far.remedy).toBe("Leave it out, or give one of name, operationId. Nothing was done.")
})
