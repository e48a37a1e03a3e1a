/** Random direct calls on large and small files in a large directory, against plain buffers. Rules: W4, W8, L10, L14. */
import * as fc from "fast-check"
import { join } from "node:path"
import { expect, it } from "vitest"
import type { FileOperation } from "../../src/workspace/WorkspaceProvider.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { seeded } from "./contentMemory.ts"
import { put } from "./storeChange.ts"
import { apply, commitInto, open, scratch } from "./storeFixture.ts"

const path = fc.constantFrom("a", "b", "d/1", "d/200", "d/new", "d/entry")
const size = fc.oneof(fc.nat(3000), fc.constantFrom(512 * 1024, 512 * 1024 + 1), fc.nat(1_500_000))
const step = fc.oneof(
  fc.record({ op: fc.constant("write" as const), path, size, seed: fc.nat(5) }),
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("splice" as const),
      path,
      at: fc.double({ min: 0, max: 1, noNaN: true }),
      gone: size,
      size: fc.oneof(fc.constant(0), size),
      seed: fc.nat(5)
    })
  },
  fc.record({ op: fc.constantFrom("copy" as const, "move" as const), path, to: path }),
  fc.record({ op: fc.constant("remove" as const), path })
)
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never

/** The call that a step means for this state, and the state after it; undefined where it does not fit. */
const applied = (files: Map<string, Buffer>, one: Step): FileOperation | undefined => {
  const before = files.get(one.path)
  if (one.op === "write") {
    const bytes = seeded(one.seed, one.size)
    files.set(one.path, bytes)
    return { op: "write", path: one.path, bytes }
  }
  if (before === undefined) return undefined
  if (one.op === "splice") {
    const offset = Math.round(one.at * before.length)
    const deleteCount = Math.min(one.gone, before.length - offset)
    const bytes = seeded(one.seed, one.size)
    files.set(one.path, Buffer.concat([before.subarray(0, offset), bytes, before.subarray(offset + deleteCount)]))
    return { op: "splice", path: one.path, offset, deleteCount, bytes }
  }
  if (one.op === "remove") {
    files.delete(one.path)
    return { op: "remove", path: one.path }
  }
  if (one.to === one.path || (one.op === "copy" && files.has(one.to))) return undefined
  files.set(one.to, before)
  if (one.op === "move") files.delete(one.path)
  return { op: one.op, from: one.path, to: one.to }
}

it("W4 W8 L14 any batches of writes, splices, copies, moves and removals give what plain buffers give, and the root of the shortest route", async () => {
  const store = await open(join(scratch(), "s"))
  const { layer } = await store.call("createEmpty", { name: "e", operationId: "op_e", at: 1 })
  const base = (await store.call("fork", { from: layer, name: "base" })).id
  const first = new Map(Array.from({ length: 400 }, (_, n) => [`d/${n}`, Buffer.from(`${n}`)]))
  await commitInto(store, base, [
    { op: "putDirectory", path: "d", mode: 0o755, mtimeNs: 1n, replace: true },
    ...[...first].map(([name, bytes]) => put(name, bytes))
  ])
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(step, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 4 }),
      async (commits) => {
        const branch = (await store.call("fork", { from: base, name: "m" })).id
        const files = new Map(first)
        for (const steps of commits) {
          const before = new Map(files)
          const operations = steps.flatMap((one) => applied(files, one) ?? [])
          if (operations.length === 0) continue
          const names = new Set([...before.keys(), ...files.keys()])
          const same = [...names].every(
            (name) => before.get(name)?.equals(files.get(name) ?? Buffer.from("none")) ?? false
          )
          expect((await apply(store, branch, operations)).outcome).toBe(same ? "unchanged" : "committed")
        }
        for (const name of ["a", "b", "d/1", "d/200", "d/new", "d/entry"]) {
          const bytes = files.get(name)
          const read = await store.call("readAt", { ref: branch, path: name }).catch(() => undefined)
          expect(read && sha256(read)).toBe(bytes && sha256(bytes))
        }
        const direct = (await store.call("fork", { from: layer, name: "direct" })).id
        await commitInto(store, direct, [
          { op: "putDirectory", path: "d", mode: 0o755, mtimeNs: 1n, replace: true },
          ...[...files].map(([name, bytes]) => put(name, bytes))
        ])
        const [a, b] = [await store.call("resolve", { ref: branch }), await store.call("resolve", { ref: direct })]
        expect(a.root).toBe(b.root)
      }
    ),
    { numRuns: 40, verbose: 1, endOnFailure: true }
  )
  expect(await store.call("verify", {})).toMatchObject({ ok: true })
}, 240_000)
