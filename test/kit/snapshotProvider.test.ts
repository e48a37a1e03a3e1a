/**
 * The provider over a backend that keeps whole states, where the suite does not reach: what a backend that fails, lies or is slow leaves behind.
 */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { afterEach, describe, expect, it } from "vitest"
import { fromInput, toBytes } from "../../src/base/PathBytes.ts"
import { FileSystemFailure } from "../../src/workspace/WorkspaceError.ts"
import { makeSnapshotProvider } from "../../src/workspace/kit/SnapshotProvider.ts"
import type { SnapshotBackend } from "../../src/workspace/kit/SnapshotBackend.ts"
import { SnapshotQuota } from "../../src/workspace/kit/SnapshotQuota.ts"
import { SnapshotStore } from "../../src/workspace/kit/SnapshotStore.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { copyBackend } from "./copyBackend.ts"

const cleanups: (() => void | Promise<void>)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

const scratch = (): string => {
  const directory = fs.mkdtempSync("/var/tmp/coppice-kit-")
  cleanups.push(() => fs.rmSync(directory, { recursive: true, force: true }))
  return directory
}

const run = Effect.runPromise
const failure = <E>(effect: Effect.Effect<unknown, E>): Promise<E> => run(Effect.flip(effect))

/** As a backend whose states are no directories. */
const withoutDirectory = (backend: SnapshotBackend): SnapshotBackend => {
  const rest = { ...backend } as { directoryOf?: unknown }
  delete rest.directoryOf
  return rest as SnapshotBackend
}

interface Opened {
  readonly provider: WorkspaceProvider
  readonly close: () => Promise<void>
}

/** Opens a store over plain copies, with what `change` makes of the backend. */
const open = async (
  store: string,
  change: (backend: SnapshotBackend) => SnapshotBackend = (b) => b
): Promise<Opened> => {
  const scope = Effect.runSync(Scope.make())
  const opened = makeSnapshotProvider("copies", (place) => change(copyBackend(place)), { store })
  const provider = await run(Effect.provideService(opened, Scope.Scope, scope))
  const close = (): Promise<void> => run(Scope.close(scope, Exit.void))
  cleanups.push(close)
  return { provider, close }
}

const write = (root: string, files: Readonly<Record<string, string>>): string => {
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(join(root, name, ".."), { recursive: true })
    fs.writeFileSync(join(root, name), text)
  }
  return root
}

/** Everything below the store that is not SQLite's. */
const lying = (store: string): string[] =>
  ["states", "trees", "work"].flatMap((name) =>
    fs.readdirSync(join(store, "copies", name)).map((entry) => `${name}/${entry}`)
  )

const ground = async (change?: (backend: SnapshotBackend) => SnapshotBackend) => {
  const place = scratch()
  const source = write(join(place, "source"), { a: "a\n", "d/b": "b\n" })
  const store = join(place, "store")
  const { provider, close } = await open(store, change)
  const receipt = await run(provider.importDirectory({ source }))
  const branch = await run(provider.fork(receipt.layer, { name: "b" }))
  return { place, source, store, provider, close, receipt, branch: branch.id }
}

const full = () =>
  new FileSystemFailure({ message: "No room.", remedy: "Free space, then repeat.", syscallCode: "ENOSPC" })

describe("a backend that fails", () => {
  it("W15 L8 W10 a state that cannot be kept leaves no commit, no state and no row, and the same call succeeds later", async () => {
    let fails = false
    const { provider, branch, store } = await ground((backend) => ({
      ...backend,
      keep: async (input) => {
        await backend.keep(input)
        if (fails) throw full()
        return { method: "copy", copiedBytes: 1 }
      }
    }))
    const before = { head: await run(provider.branch(branch)), lying: lying(store) }
    fails = true
    const operation = { operationId: "op_one" }
    const edit = provider.applyTo(branch, [{ op: "write", path: "a", bytes: "more\n" }], operation)
    expect(await failure(edit)).toMatchObject({ _tag: "FileSystemFailure", syscallCode: "ENOSPC" })
    expect({ head: await run(provider.branch(branch)), lying: lying(store) }).toEqual(before)
    expect(await run(provider.findOperation("op_one"))).toEqual({ state: "absent" })
    expect(await run(provider.verify())).toMatchObject({ ok: true })
    fails = false
    expect(await run(edit)).toMatchObject({ outcome: "committed" })
    expect(await run(provider.findOperation("op_one"))).toMatchObject({ state: "recorded" })
  })

  it("L10 W8 a backend that keeps other bytes than lay there is found out before anything is committed", async () => {
    const { provider, branch, store } = await ground((backend) => ({
      ...backend,
      keep: async (input) => {
        const moved = await backend.keep(input)
        const kept = toBytes(backend.directoryOf!(input.snapshot)).toString()
        // What git does under autocrlf, for example.
        if (!input.isImport) fs.writeFileSync(join(kept, "a"), "another\r\n")
        return moved
      }
    }))
    const before = lying(store)
    const edit = provider.applyTo(branch, [{ op: "write", path: "a", bytes: "another\n" }])
    expect(await failure(edit)).toMatchObject({ _tag: "ObjectDamaged" })
    expect(lying(store)).toEqual(before)
  })

  it("W12 L8 a tree that cannot be made leaves no workspace, no directory and no row that waits", async () => {
    let fails = false
    const { provider, branch, store } = await ground((backend) => ({
      ...backend,
      make: async (input) => {
        if (fails) {
          fs.mkdirSync(toBytes(input.target))
          throw full()
        }
        return backend.make(input)
      }
    }))
    fails = true
    expect(await failure(Effect.scoped(provider.open(branch)))).toMatchObject({ syscallCode: "ENOSPC" })
    expect(fs.readdirSync(join(store, "copies", "work"))).toEqual([])
    expect(await run(provider.left)).toEqual([])
  })

  it("W2 a machine that the backend cannot work on is Unavailable by the names of what it lacks, before anything is made", async () => {
    const missing = [{ what: "a file system with clones", remedy: "Put the store on btrfs." }]
    const { provider, branch } = await ground((backend) => ({ ...backend, probe: async () => missing }))
    expect(await run(provider.probe)).toMatchObject({ ready: false })
    expect(await failure(Effect.scoped(provider.open(branch)))).toMatchObject({
      _tag: "Unavailable",
      missing: ["a file system with clones"],
      remedy: "Put the store on btrfs."
    })
  })
})

describe("what a commit stands for", () => {
  it("L8 W10 is never dropped, also where the write that made it was answered with an error", async () => {
    const { close, receipt, store } = await ground()
    await close()
    const root = join(store, "copies")
    const directories = { root, index: join(root, "index.db"), trees: join(root, "trees"), work: join(root, "work") }
    const backend = copyBackend({ directory: root, durability: "full" })
    const quota = SnapshotQuota.of({})
    const opened = await SnapshotStore.open({ backend, directories, durability: "full", quota })
    cleanups.push(() => opened.close())
    const before = lying(store)
    await opened.giveUp({ project: receipt.project, commit: receipt.commit })
    expect(lying(store)).toEqual(before)
  })
})

describe("what is told is what was kept", () => {
  it("W19 W8 a directory that changes while it is kept is kept again; one that never rests is refused with nothing committed", async () => {
    let disturb = 0
    const { provider, branch, store } = await ground((backend) => ({
      ...backend,
      keep: async (input) => {
        const moved = await backend.keep(input)
        if (!input.isImport && disturb > 0) {
          disturb -= 1
          fs.writeFileSync(join(toBytes(input.tree).toString(), "d", "b"), `disturbed ${disturb}\n`)
        }
        return moved
      }
    }))
    const edit = (text: string) => provider.applyTo(branch, [{ op: "write", path: "a", bytes: text }])
    disturb = 2
    const done = await run(edit("one\n"))
    expect(done).toMatchObject({ outcome: "committed", changedPaths: 2 })
    expect(Buffer.from(await run(provider.readAt(branch, "d/b"))).toString()).toBe("disturbed 0\n")
    const before = lying(store)
    disturb = 1000
    expect(await failure(edit("two\n"))).toMatchObject({ _tag: "Unavailable", what: "a state at rest" })
    expect(lying(store)).toEqual(before)
    disturb = 0
    expect(await run(provider.verify())).toMatchObject({ ok: true })
  })

  it("L10 L3 a damaged list of files is named by verify, and no question about its commit is answered from it", async () => {
    const { provider, close, receipt, branch, store } = await ground()
    await close()
    const file = join(store, "copies", "trees", receipt.commit)
    const bytes = fs.readFileSync(file)
    bytes[bytes.length - 6]! ^= 0xff
    fs.writeFileSync(file, bytes)
    const again = (await open(store)).provider
    expect(await run(again.verify())).toMatchObject({ ok: false, damaged: [{ object: receipt.commit }] })
    const calls: readonly Effect.Effect<unknown, unknown>[] = [
      again.readAt(branch, "a"),
      again.listAt(branch, ""),
      again.globAt(branch, "**"),
      Effect.scoped(again.open(branch)),
      again.applyTo(branch, [{ op: "write", path: "a", bytes: "x" }])
    ]
    for (const call of calls) expect(await failure(call)).toMatchObject({ _tag: "ObjectDamaged" })
    expect(provider).toBeDefined()
  })

  it("W10 W12 G75 a changed row of the index is named, and a store of another provider or program is refused untouched", async () => {
    const { close, store } = await ground()
    await close()
    const index = join(store, "copies", "index.db")
    const { DatabaseSync } = await import("node:sqlite")
    const db = new DatabaseSync(index)
    db.exec("UPDATE commits SET message = 'another'")
    db.close()
    const { provider, close: closeAgain } = await open(store)
    const report = await run(provider.verify())
    expect(report).toMatchObject({ ok: false, damaged: [] })
    expect(report.index.join()).toContain("commits")
    await closeAgain()
    fs.renameSync(join(store, "copies"), join(store, "others"))
    const other = makeSnapshotProvider("others", (place) => ({ ...copyBackend(place), provider: "others" }), { store })
    expect(await failure(Effect.scoped(other))).toMatchObject({ _tag: "StoreMoved" })
  })
})

it("W13 C8 W8 what an import leaves out is in no state: a checkpoint does not tell of it as removed", async () => {
  const { place } = await ground()
  const inStore = ["packs", "cache", "work"].map((name) => [join("s", "layerfs", name, "x"), ""])
  const files = { f: "f\n", "s/layerfs/index.db": "", ...Object.fromEntries(inStore) }
  const source = write(join(place, "with a store"), files)
  // One that cannot be looked at as a directory afterwards, as git or an archive.
  const { provider } = await open(join(place, "other"), (backend) => ({
    ...withoutDirectory(backend),
    keep: async (input) => {
      if (input.isImport) expect(input.leaveOut).toContain("s/layerfs")
      return backend.keep(input)
    }
  }))
  const receipt = await run(provider.importDirectory({ source }))
  expect(receipt).toMatchObject({ files: 1, directories: 1, noteCounts: { skippedStore: 1 } })
  const branch = await run(provider.fork(receipt.layer))
  await run(provider.applyTo(branch.id, [{ op: "write", path: "note", bytes: "n" }]))
  const { changes } = await run(provider.diff(receipt.layer, branch.id))
  expect(changes.map(({ kind, path }) => `${kind} ${path}`)).toEqual(["added note"])
})

describe("several at once", () => {
  it("W11 L12 two handles of one store, as of two processes, commit to one branch without a lost call", async () => {
    const { provider, branch, store } = await ground()
    const second = (await open(store)).provider
    const writes = Array.from({ length: 12 }, (_, n) =>
      (n % 2 === 0 ? provider : second).applyTo(branch, [{ op: "write", path: `n${n}`, bytes: `${n}` }])
    )
    for (const outcome of await run(Effect.all(writes, { concurrency: "unbounded" })))
      expect(outcome).toMatchObject({ outcome: "committed" })
    expect((await run(provider.listAt(branch, ""))).length).toBe(14)
    expect((await run(second.log(branch))).commits.length).toBe(13)
    expect(await run(second.verify())).toMatchObject({ ok: true })
  })

  it("W6 W22 L15 the root is the provider-neutral tree digest, whatever way a tree came about", async () => {
    const { provider, branch, place } = await ground()
    const operations = [
      { op: "write", path: "x/y", bytes: "y\n", mode: 0o755 },
      { op: "symlink", path: "l", target: "x/y" },
      { op: "move", from: "d", to: "e" }
    ] as const
    const { root } = (await run(provider.applyTo(branch, operations))) as { readonly root: string }
    const target = join(place, "out")
    await run(provider.exportDirectory(branch, target))
    const again = await run(provider.importDirectory({ source: fromInput(target) }))
    expect(again.root).toBe(root)
    expect(await run(provider.diff(again.commit, branch))).toMatchObject({ changes: [], next: null })
  })
})

it("W3 W17 what lies outside of the tree is no directory of its own, and a relative path hides nothing: refused by its name", async () => {
  const { provider, branch } = await ground()
  for (const options of [{ ownDirs: ["/d"] }, { ownDirs: ["d/.."] }, { hide: ["d"] }, { readOnlyPaths: ["d"] }]) {
    expect(await failure(Effect.scoped(provider.open(branch, options)))).toMatchObject({
      _tag: "ArgumentInvalid",
      call: "open",
      argument: Object.keys(options)[0]
    })
  }
})
