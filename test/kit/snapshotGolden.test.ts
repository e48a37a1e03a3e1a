/** A store of the kit's first format stays readable, byte for byte. Rules: 01 "On disk"; W6, L3, L7, L10. */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, expect, it } from "vitest"
import { makeSnapshotProvider } from "../../src/workspace/kit/SnapshotProvider.ts"
import { copyBackend } from "./copyBackend.ts"

let directory = ""
afterEach(() => rmSync(directory, { recursive: true, force: true }))

it("L10 W6 L3 L7 W10 a store of format 1 opens, verifies, has its history and its operations, and takes further commits", async () => {
  const golden = join(import.meta.dirname, "../golden/snapshots-format-1")
  const expected = JSON.parse(readFileSync(join(golden, "expected.json"), "utf8")) as Record<string, string>
  directory = mkdtempSync("/var/tmp/coppice-golden-")
  const store = join(directory, "store")
  mkdirSync(store, { mode: 0o700 })
  // As root, tar would give the files to whoever owned them.
  execFileSync("tar", ["-xzpf", join(golden, "copies.tar.gz"), "--no-same-owner", `--directory=${store}`])
  const [branch, layer] = [expected["branch"]!, expected["layer"]!]
  const program = Effect.gen(function* () {
    const provider = yield* makeSnapshotProvider("copies", copyBackend, { store })
    const { commits } = yield* provider.log(branch)
    const edit = [{ op: "write", path: "d/c", bytes: "c\n" }] as const
    return {
      verified: yield* provider.verify(),
      head: (yield* provider.branch(branch)).head,
      root: (yield* provider.commit(branch)).root,
      commits: commits.map(({ message, actor }) => [message, actor]),
      moves: (yield* provider.undoLog(branch)).moves.map(({ kind, reason }) => [kind, reason]),
      entries: (yield* provider.globAt(layer, "**")).paths,
      link: (yield* provider.statAt(layer, "l")).target,
      text: Buffer.from(yield* provider.readAt(branch, "d/c")).toString(),
      changes: (yield* provider.diff(layer, branch)).changes.map(({ kind, path }) => `${kind} ${path}`),
      repeated: yield* provider.applyTo(branch, edit, { operationId: "op_one" }),
      next: yield* provider.applyTo(branch, [{ op: "write", path: "new", bytes: "n" }])
    }
  })
  const found = await Effect.runPromise(Effect.scoped(program))
  expect(found).toMatchObject({
    verified: { ok: true, damaged: [], index: [] },
    head: expected["head"],
    root: expected["root"],
    commits: [
      ["one", { call: "call-1", agent: "ada", goal: "g" }],
      ["Import golden", {}]
    ],
    moves: [["reset", "back"]],
    link: { path: "d/b" },
    text: "c\n",
    changes: ["added d/c", "removed empty"],
    repeated: { outcome: "committed", commit: expected["head"] },
    next: { outcome: "committed", changedPaths: 1 }
  })
  expect(found.entries).toEqual([
    { path: "a" },
    { path: "d" },
    { path: "d/again" },
    { path: "d/b" },
    { path: "empty" },
    { path: "l" },
    { path: expect.any(String), pathBytes: Buffer.from([0xff, 0x0a]).toString("base64") }
  ])
})
