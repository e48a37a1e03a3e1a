/** Random change lists against a plain model in memory. Rules: W8, W22, L14; C12, C15. */
import * as fc from "fast-check"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { put } from "./storeChange.ts"
import { commitInto, open, scratch } from "./storeFixture.ts"

type Step =
  | { readonly op: "file"; readonly path: string; readonly text: string; readonly mode: number }
  | { readonly op: "pair"; readonly path: string; readonly other: string; readonly text: string }
  | { readonly op: "link"; readonly path: string; readonly target: string }
  | { readonly op: "directory"; readonly path: string; readonly mode: number; readonly replace: boolean }
  | { readonly op: "remove"; readonly path: string }

/** What the model keeps of one entry. `group` is shared by the names of one file. */
type Entry =
  | { readonly type: "file"; readonly text: string; readonly mode: number; readonly group: object | null }
  | { readonly type: "symlink"; readonly target: string }
  | { readonly type: "directory"; readonly mode: number }

class Model {
  readonly entries: Map<string, Entry>
  constructor(entries: ReadonlyMap<string, Entry> = new Map()) {
    this.entries = new Map(entries)
  }

  #parentIsDirectory(path: string): boolean {
    const slash = path.lastIndexOf("/")
    return slash < 0 || this.entries.get(path.slice(0, slash))?.type === "directory"
  }

  #drop(path: string): void {
    for (const key of this.entries.keys()) if (key === path || key.startsWith(`${path}/`)) this.entries.delete(key)
  }

  #file(path: string, text: string, mode: number, group: object | null): void {
    const before = this.entries.get(path)
    const same = before?.type === "file" && before.text === text && before.mode === mode
    this.#drop(path)
    this.entries.set(path, { type: "file", text, mode, group: group ?? (same ? before.group : null) })
  }

  /** Applies a step, or says that it does not fit. The changes for the store are returned. */
  apply(step: Step, key: string): TreeChange[] {
    if (!this.#parentIsDirectory(step.path)) return []
    switch (step.op) {
      case "file":
        this.#file(step.path, step.text, step.mode, null)
        return [put(step.path, step.text, step.mode)]
      case "pair": {
        const { path, other, text } = step
        if (path === other || other.startsWith(`${path}/`) || path.startsWith(`${other}/`)) return []
        if (!this.#parentIsDirectory(other)) return []
        const group = {}
        this.#file(path, text, 0o644, group)
        this.#file(other, text, 0o644, group)
        return [path, other].map((name) => ({ ...put(name, text), inode: key }) as TreeChange)
      }
      case "link":
        this.#drop(step.path)
        this.entries.set(step.path, { type: "symlink", target: step.target })
        return [{ op: "putSymlink", path: step.path, target: step.target, mtimeNs: 1n }]
      case "directory": {
        const before = this.entries.get(step.path)
        if (before?.type !== "directory" || step.replace) this.#drop(step.path)
        this.entries.set(step.path, { type: "directory", mode: step.mode })
        return [{ op: "putDirectory", path: step.path, mode: step.mode, mtimeNs: 2n, replace: step.replace }]
      }
      case "remove":
        this.#drop(step.path)
        return [{ op: "remove", path: step.path }]
    }
  }

  /** One line per path: everything that the root digest must depend on, and nothing else. */
  lines(): string[] {
    const names = new Map<object, string[]>()
    for (const [path, entry] of this.entries) {
      if (entry.type !== "file" || entry.group === null) continue
      names.set(entry.group, [...(names.get(entry.group) ?? []), path])
    }
    return [...this.entries]
      .map(([path, entry]) => {
        if (entry.type === "symlink") return `${path} symlink ${entry.target}`
        if (entry.type === "directory") return `${path} directory ${entry.mode}`
        const group = (entry.group === null ? [] : (names.get(entry.group) ?? [])).sort()
        return `${path} file ${entry.mode} ${sha256(entry.text)} ${group.length > 1 ? group[0] : "-"}`
      })
      .sort()
  }

  /** The whole state as one change list for an empty tree. */
  asChanges(): TreeChange[] {
    const groups = new Map<object, string>()
    return [...this.entries]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([path, entry]): TreeChange => {
        if (entry.type === "symlink") return { op: "putSymlink", path, target: entry.target, mtimeNs: 9n }
        if (entry.type === "directory")
          return { op: "putDirectory", path, mode: entry.mode, mtimeNs: 9n, replace: false }
        const file = put(path, entry.text, entry.mode)
        if (entry.group === null) return file
        if (!groups.has(entry.group)) groups.set(entry.group, `g${groups.size}`)
        return { ...file, inode: groups.get(entry.group)! } as TreeChange
      })
  }
}

const stored = async (store: LayerStore, ref: string): Promise<string[]> => {
  const lines: string[] = []
  const walk = async (path: string): Promise<void> => {
    for (const entry of (await store.call("list", { ref, path }))!) {
      const child = path === "" ? entry.name : `${path}/${entry.name}`
      if (entry.type === "symlink") lines.push(`${child} symlink ${entry.target}`)
      else if (entry.type === "directory") lines.push(`${child} directory ${entry.mode}`)
      else lines.push(`${child} file ${entry.mode} ${entry.id} ${entry.linkGroup ?? "-"}`)
      if (entry.type === "directory") await walk(child)
    }
  }
  await walk("")
  return lines.sort()
}

const name = fc.constantFrom("a", "b", "a-b", "\u00fe")
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"))
const text = fc.constantFrom("", "one", "two", "three")
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ op: fc.constant("file" as const), path, text, mode: fc.constantFrom(0o644, 0o755) })
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("pair" as const), path, other: path, text }) },
  {
    weight: 1,
    arbitrary: fc.record({ op: fc.constant("link" as const), path, target: fc.constantFrom("a", "../b", "/x") })
  },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant("directory" as const),
      path,
      mode: fc.constantFrom(0o755, 0o700),
      replace: fc.boolean()
    })
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("remove" as const), path }) }
)

describe("model", () => {
  it("L14 W8 W22 any list of changes gives what a plain model gives, and the same root by the shortest route", async () => {
    const store = await open(join(scratch(), "s"))
    const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { maxLength: 8 }), { minLength: 1, maxLength: 4 }), async (commits) => {
        let model = new Model()
        const branch = await store.call("fork", { from: layer, name: "m" })
        for (const [n, steps] of commits.entries()) {
          const next = new Model(model.entries)
          const changes = steps.flatMap((one, i) => next.apply(one, `${n}-${i}`))
          const outcome = await commitInto(store, branch.id, changes)
          const same = next.lines().join("\n") === model.lines().join("\n")
          expect(outcome.outcome).toBe(same ? "unchanged" : "committed")
          expect(await stored(store, branch.id)).toEqual(next.lines())
          model = next
        }
        const direct = await store.call("fork", { from: layer, name: "direct" })
        await commitInto(store, direct.id, model.asChanges())
        const [a, b] = [
          await store.call("resolve", { ref: branch.id }),
          await store.call("resolve", { ref: direct.id })
        ]
        expect(a.root).toBe(b.root)
      }),
      { numRuns: 60, verbose: 1 }
    )
  })

  it("C12 C15 remove b, move a to b: only b is left, with the bytes of a; what was removed stays removed", async () => {
    const store = await open(join(scratch(), "s"))
    const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = await store.call("fork", { from: layer, name: "m" })
    await commitInto(store, branch.id, [put("a", "A"), put("b", "B")])
    await store.call("applyTo", {
      branch: branch.id,
      operations: [
        { op: "remove", path: "b" },
        { op: "move", from: "a", to: "b" }
      ],
      message: "",
      operationId: "op_1",
      actor: {},
      at: 1
    })
    expect(await stored(store, branch.id)).toEqual([`b file 420 ${sha256("A")} -`])
    await commitInto(store, branch.id, [put("b", "changed")])
    await commitInto(store, branch.id, [{ op: "remove", path: "b" }])
    const again = await store.call("fork", { from: branch.id, name: "again" })
    expect(await stored(store, again.id)).toEqual([])
  })

  it("W22 L15 a write through one name of a hard-linked file shows under all, and a group of one is none", async () => {
    const store = await open(join(scratch(), "s"))
    const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
    const branch = await store.call("fork", { from: layer, name: "m" })
    const model = new Model()
    await commitInto(store, branch.id, model.apply({ op: "pair", path: "x", other: "y", text: "one" }, "k"))
    await store.call("applyTo", {
      branch: branch.id,
      operations: [{ op: "write", path: "y", bytes: "two" }],
      message: "",
      operationId: "op_1",
      actor: {},
      at: 1
    })
    const two = sha256("two")
    expect(await stored(store, branch.id)).toEqual([`x file 420 ${two} x`, `y file 420 ${two} x`])
    await commitInto(store, branch.id, [{ op: "remove", path: "x" }])
    expect(await stored(store, branch.id)).toEqual([`y file 420 ${two} -`])
  })
})
