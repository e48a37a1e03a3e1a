/** A cached layer that somebody edits deep inside, where no sample looks. Rules: L10, W7, W12, W23, P4. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { expect, it } from "vitest"
import { LookThread } from "../../providers/layerfs/LookThread.ts"
import { type LayerStoreOptions, openLayerFs } from "../../providers/layerfs/index.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { committed, failure, forkOf, run, scratch, shell, treeAt, using, write } from "./projFixture.ts"

/** Opens a store as a process does that has seen nothing of it, and closes it. */
const withStore = async <A>(
  store: string,
  use: (provider: WorkspaceProvider) => Promise<A>,
  options: Omit<LayerStoreOptions, "store"> = {}
): Promise<A> => {
  const scope = await run(Scope.make())
  try {
    return await use(await run(Scope.provide(openLayerFs({ store, ...options }), scope)))
  } finally {
    await run(Scope.close(scope, Exit.void))
  }
}

/** Below a thousand entries, and above. */
const few = 30
const many = 1500

const overlay = { projection: "overlay" } as const

/** A store in which a tree with files in `z/0` to `z/19` is cached. */
const ground = async (count: number): Promise<{ store: string; commit: string; layer: string }> => {
  const source = scratch()
  write(source, Object.fromEntries(Array.from({ length: count }, (_, n) => [`z/${n % 20}/${n}`, `content ${n}`])))
  const store = join(scratch(), "s")
  const commit = await withStore(store, async (provider) => {
    const imported = await run(provider.importDirectory({ source }))
    await using(provider, await forkOf(provider, imported.commit), overlay, (workspace) => shell(workspace, "true"))
    return imported.commit
  })
  return { store, commit, layer: baseOf(store) }
}

const baseOf = (store: string): string => {
  const at = join(store, "layerfs/cache/base")
  return join(at, fs.readdirSync(at).find((name) => !/\.(?:ok|size)$/.test(name))!)
}

const edits: Readonly<Record<string, (layer: string) => void>> = {
  "an edit of the same length whose time was set back": (layer) => {
    const at = join(layer, "z/19/19")
    const { atime, mtime } = fs.statSync(at)
    fs.writeFileSync(at, "evil 4 19!")
    fs.utimesSync(at, atime, mtime)
  },
  "a new file": (layer) => fs.writeFileSync(join(layer, "z/19/evil"), "evil"),
  "a removed file": (layer) => fs.unlinkSync(join(layer, "z/19/19")),
  "a mode": (layer) => fs.chmodSync(join(layer, "z/19/19"), 0o777)
}

const look = async (provider: WorkspaceProvider, commit: string): Promise<string> =>
  using(provider, await forkOf(provider, commit), overlay, (workspace) =>
    shell(workspace, "ls z/19; cat z/19/19; stat -c %a z/19/19")
  )
const shown = (count: number): string => {
  const names = Array.from({ length: count }, (_, n) => n).filter((n) => n % 20 === 19)
  return `${names.map(String).toSorted().join("\n")}\ncontent 19644\n`
}

it.each(Object.entries(edits))(
  "L10 W12 W23 %s deep in a large cached base: a new process commits nothing on it, what its workspace holds is recovered, and the next one sees the true tree",
  async (_, edit) => {
    const { store, commit, layer } = await ground(many)
    edit(layer)
    await withStore(store, async (provider) => {
      const branch = await forkOf(provider, commit)
      const id = await using(provider, branch, overlay, async (workspace) => {
        await shell(workspace, "echo mine > z/19/mine")
        expect(await failure(workspace.checkpoint())).toMatchObject({
          _tag: "ObjectDamaged",
          remedy: expect.stringContaining("recover")
        })
        return workspace.id
      })
      expect((await run(provider.branch(branch))).head).toBe(commit)
      expect((await run(provider.left)).map((left) => left.id)).toEqual([id])
      const original = await treeAt(provider, commit)
      const recovered = await run(provider.recover(id))
      expect(await treeAt(provider, recovered.branch)).toEqual({ ...original, "z/19/mine": "mine\n" })
      expect(await look(provider, commit)).toBe(shown(many))
      expect((await run(provider.verify())).changedLayers).toEqual([])
    })
  }
)

it("L10 W12 W23 while a workspace of another opening stands on the changed base, what this one keeps is not recovered; after its end it is", async () => {
  const { store, commit, layer } = await ground(many)
  await withStore(store, async (other) => {
    const id = await using(other, await forkOf(other, commit), overlay, async () => {
      edits["a removed file"]!(layer)
      return withStore(store, async (provider) => {
        const kept = await using(provider, await forkOf(provider, commit), overlay, async (workspace) => {
          await shell(workspace, "echo mine > z/19/mine")
          expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "ObjectDamaged" })
          return workspace.id
        })
        expect(await failure(provider.recover(kept))).toMatchObject({ _tag: "WorkspaceUnreadable" })
        const report = await run(provider.verify())
        expect(report).toMatchObject({ ok: true, changedLayers: [{ removed: false }] })
        expect(layer.endsWith(report.changedLayers![0]!.layer)).toBe(true)
        expect((await run(provider.left)).map((left) => left.id)).toEqual([kept])
        return kept
      })
    })
    const original = await treeAt(other, commit)
    const { branch } = await run(other.recover(id))
    expect(await treeAt(other, branch)).toEqual({ ...original, "z/19/mine": "mine\n" })
  })
})

it("L10 execOn in a new process commits nothing on a large base that was changed deep inside, and keeps its workspace", async () => {
  const { store, commit, layer } = await ground(many)
  edits["a removed file"]!(layer)
  await withStore(store, async (provider) => {
    const branch = await forkOf(provider, commit)
    expect(await failure(provider.execOn(branch, "echo mine > z/19/mine", overlay))).toMatchObject({
      _tag: "ObjectDamaged"
    })
    expect((await run(provider.branch(branch))).head).toBe(commit)
    expect((await run(provider.left)).length).toBe(1)
  })
})

it.each(Object.entries(edits))(
  "L10 W7 %s deep in a small cached base: a new process makes it anew before anybody sees it",
  async (_, edit) => {
    const { store, commit, layer } = await ground(few)
    edit(layer)
    await withStore(store, async (provider) => expect(await look(provider, commit)).toBe(shown(few)))
  }
)

it.each([few, many])(
  "L10 a base of %s files changed deep inside after its first look is found by verify, which takes it away: the next opening shows the true tree",
  async (count) => {
    const { store, commit, layer } = await ground(count)
    await withStore(store, async (provider) => {
      await using(provider, await forkOf(provider, commit), overlay, async (workspace) => {
        await shell(workspace, "echo mine > mine")
        await committed(workspace)
      })
      edits["an edit of the same length whose time was set back"]!(layer)
      expect(await look(provider, commit)).toContain("evil 4 19!")
      expect(await run(provider.verify())).toMatchObject({ ok: true, changedLayers: [{ removed: true }] })
      expect(await look(provider, commit)).toBe(shown(count))
    })
  }
)

it.each([few, many])(
  "L10 of a layer of %s files that an older version marked nothing is claimed at the first look, and a change after that is found",
  async (count) => {
    const { store, commit, layer } = await ground(count)
    const { all, ...older } = JSON.parse(fs.readFileSync(`${layer}.ok`, "utf8"))
    fs.writeFileSync(`${layer}.ok`, JSON.stringify(older))
    await withStore(store, async (provider) => {
      await using(provider, await forkOf(provider, commit), overlay, async (workspace) => {
        await shell(workspace, "echo mine > mine")
        await committed(workspace)
      })
      expect(JSON.parse(fs.readFileSync(`${layer}.ok`, "utf8")).all).toEqual(all)
      edits["a mode"]!(layer)
      expect((await run(provider.verify())).changedLayers).toMatchObject([{ removed: true }])
    })
  }
)

it("L10 W15 a layer that goes by the cache limit while it is looked at, and is made anew, is not taken for changed", async () => {
  const { store, commit } = await ground(many)
  await withStore(
    store,
    async (provider) => {
      for (let round = 0; round < 4; round += 1) {
        await look(provider, commit)
        await using(provider, await forkOf(provider, commit), overlay, async (workspace) => {
          await shell(workspace, "echo mine > mine")
          await committed(workspace)
        })
      }
      expect((await run(provider.verify())).changedLayers).toEqual([])
    },
    { cacheLimit: 0 }
  )
})

it("L10 W7 an adopted upper of more than a thousand entries to which somebody wrote is seen by the next process", async () => {
  const { store, commit } = await ground(few)
  const head = await withStore(store, async (provider) =>
    using(provider, await forkOf(provider, commit), overlay, async (workspace) => {
      await shell(workspace, `mkdir -p d/e; for n in $(seq ${many}); do echo $n > d/e/$n; done`)
      return committed(workspace)
    })
  )
  const deltas = join(store, "layerfs/cache/delta")
  const layer = join(deltas, fs.readdirSync(deltas).find((name) => !/\.(?:ok|size|at)$/.test(name))!)
  fs.writeFileSync(join(layer, "d/e/29"), "xx\n")
  await withStore(store, async (provider) => {
    await using(provider, await forkOf(provider, head), overlay, async (workspace) => {
      await shell(workspace, "echo mine > mine")
      expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "ObjectDamaged" })
      await run(workspace.discard("it stands on a changed layer"))
    })
    const again = await using(provider, await forkOf(provider, head), overlay, (workspace) =>
      shell(workspace, "cat d/e/29")
    )
    expect(again).toBe("29\n")
  })
})

it("P4 L10 a look that goes on ends with its store, and no thread is left", async () => {
  const threads = (): number => fs.readdirSync("/proc/self/task").length
  const large = scratch()
  write(large, Object.fromEntries(Array.from({ length: many }, (_, n) => [`${n}`, ""])))
  const thread = new LookThread()
  await thread.look(large)
  const before = threads()
  const looks = [thread.look(large), thread.look(large)]
  const ended = Promise.allSettled(looks)
  await thread.end()
  expect((await ended).map(({ status }) => status)).toEqual(["rejected", "rejected"])
  expect(threads()).toBe(before)
})
