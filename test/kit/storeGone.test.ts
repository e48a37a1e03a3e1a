/** A store whose files somebody takes away, moves or replaces while it is open: no write is acknowledged that nobody can read again. Rules: L8, L12, G3. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { afterEach, expect, it } from "vitest"
import { openGitWorktree } from "../../providers/git-worktree/index.ts"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"
import { openReflink } from "../../providers/reflink/index.ts"
import { Database } from "../../src/sqlite/Database.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { lackOf, loopImage } from "../reflink/loopImage.ts"

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).toReversed()) await clean()
})

const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> => Effect.runPromise(effect)
const failure = <A, E>(effect: Effect.Effect<A, E>): Promise<E> => run(Effect.flip(effect))

const scratch = (): string => {
  const directory = fs.mkdtempSync("/var/tmp/coppice-gone-")
  cleanups.push(() => fs.rmSync(directory, { recursive: true, force: true }))
  return directory
}

const opened = async <E>(make: Effect.Effect<WorkspaceProvider, E, Scope.Scope>): Promise<WorkspaceProvider> => {
  const scope = Scope.makeUnsafe()
  cleanups.push(() => run(Scope.close(scope, Exit.void)))
  return run(Effect.provideService(make, Scope.Scope, scope))
}

const gone = { _tag: "StorageFailure", errcode: 1032, remedy: expect.stringMatching(/files are gone: restore/) }

const takeAway: Readonly<Record<string, (store: string) => void>> = {
  deleted: (store) => fs.rmSync(store, { recursive: true }),
  moved: (store) => fs.renameSync(store, `${store}-elsewhere`),
  "replaced by a copy": (store) => {
    fs.cpSync(store, `${store}-copy`, { recursive: true, filter: (at) => !fs.lstatSync(at).isFIFO() })
    fs.rmSync(store, { recursive: true })
    fs.renameSync(`${store}-copy`, store)
  }
}

const providers = {
  layerfs: (store: string) => makeLayerFs({ store }),
  "git-worktree": (store: string) => openGitWorktree({ store, plainDirectories: true }),
  reflink: (store: string) => openReflink({ store })
} as const

for (const [name, make] of Object.entries(providers)) {
  it(`L8 L12 W3 a store that is deleted, moved or replaced while it is open takes no fork, no pin, no import and no change any more, and says so (${name})`, async (context) => {
    const lack = name === "reflink" ? lackOf("btrfs") : null
    context.skip(lack !== null, lack ?? "")
    let place = scratch()
    if (name === "reflink") {
      const { path, remove } = loopImage("btrfs")
      cleanups.push(remove)
      place = path
    }
    const source = join(place, "source")
    fs.mkdirSync(source)
    fs.writeFileSync(join(source, "a"), "a\n")
    for (const [how, take] of Object.entries(takeAway)) {
      const store = join(place, `store-${how.split(" ")[0]}`)
      const provider = await opened(make(store))
      const { layer } = await run(provider.importDirectory({ source }))
      const branch = await run(provider.fork(layer))
      take(store)
      for (const call of [
        provider.fork(layer),
        provider.fork(branch.id, { operationId: "op_gone" }),
        provider.pin("key", layer),
        provider.unpin("key"),
        provider.importDirectory({ source })
      ]) {
        expect(await failure(call as Effect.Effect<unknown, unknown>), how).toMatchObject(gone)
      }
      // These may find it out by what they would work in.
      for (const call of [
        provider.createEmpty(),
        provider.applyTo(branch.id, [{ op: "write", path: "b", bytes: "b" }])
      ]) {
        const { _tag } = (await failure(call as Effect.Effect<unknown, unknown>)) as { readonly _tag: string }
        expect(["StorageFailure", "FileSystemFailure", "ObjectDamaged"], how).toContain(_tag)
      }
    }
  })
}

it("L8 G3 a write whose file or log is taken away in the middle of its transaction is not acknowledged; one beside another connection is", () => {
  const place = scratch()
  for (const name of ["a.db", "a.db-wal"]) {
    const path = join(place, name === "a.db" ? "first" : "second", "a.db")
    fs.mkdirSync(join(path, ".."))
    const db = Database.open(path)
    const beside = Database.open(path)
    cleanups.push(() => {
      db.close()
      beside.close()
    })
    db.transact(() => db.raw.exec("CREATE TABLE t (n)"))
    beside.transact(() => beside.run("INSERT INTO t VALUES (1)"))
    const write = () =>
      db.transact(() => {
        db.run("INSERT INTO t VALUES (2)")
        fs.rmSync(join(path, "..", name))
      })
    expect(write).toThrow(expect.objectContaining(gone))
    expect(() => beside.transact(() => 1)).toThrow(expect.objectContaining(gone))
  }
})
