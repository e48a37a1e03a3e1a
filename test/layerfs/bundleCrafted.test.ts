/** Bundles with a right checksum that say what cannot be: each is refused by name, and the store is as it was. Rules: L13, L10, V3. */
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import { newId } from "../../src/base/Id.ts"
import { seed as seedOf } from "../governance/authority.ts"
import { seededRandom } from "../seededRandom.ts"
import { ground, state } from "./bundleFixture.ts"
import { type Commit, hexOf, type Loose, type Manifest, readBundle, writeBundle } from "./bundleTool.ts"
import { latin, put } from "./storeChange.ts"
import { commitInto, open, scratch } from "./storeFixture.ts"

vi.setConfig({ testTimeout: 120_000 })

interface Refusal {
  readonly _tag?: string
  readonly reason?: string
  readonly commit?: string
  readonly message?: string
  readonly remedy?: string
}

/** The refusal of an edited bundle; the store must be as before. */
const refusalOf = async (store: LayerStore, manifest: unknown, objects: readonly Loose[], what: string) => {
  const file = join(scratch(), "crafted")
  writeBundle(file, manifest, objects)
  const before = await state(store)
  const error: Refusal = await store.call("importBundle", { source: latin(file) }).then(
    () => ({}),
    (thrown: object) => thrown
  )
  expect(error._tag, `${what}: ${error.message}`).toBe("BundleRefused")
  expect(error.remedy, what).toMatch(/Nothing of it was stored\.$/)
  expect(await state(store), what).toEqual(before)
  return error
}

/** A bundle of six commits, the newest first, taken apart; and an empty store. */
const crafted = async () => {
  const { store, branch, file, target, commits } = await ground(seededRandom(seedOf()))
  await store.call("exportBundle", { ref: branch, target, history: true })
  const { manifest, objects } = readBundle(file)
  const other = await open(join(scratch(), "s"))
  /** The same bundle with one thing changed. */
  const edited = (edit: (manifest: Manifest, objects: Loose[]) => void) => {
    const copy = structuredClone(manifest)
    const loose = objects.map(({ kind, bytes }) => ({ kind, bytes }))
    edit(copy, loose)
    return [copy, loose] as const
  }
  return { store, branch, file, target, commits, manifest, objects, other, edited }
}

const at = (manifest: Manifest, id: string): Commit => manifest.commits.find((one) => one.id === id)!

it("L13 L10 a bundle that was taken apart and put together again is a bundle", async () => {
  const { manifest, objects, other, target, file, commits } = await crafted()
  // The first bundles did not say where their history begins.
  writeBundle(file, { ...manifest, edges: undefined }, objects)
  expect(await other.call("importBundle", { source: target })).toMatchObject({ commit: commits.at(-1), commits: 6 })
  expect(await other.call("verify", {})).toMatchObject({ ok: true })
  const commit = at(manifest, commits.at(-1)!)
  writeBundle(file, { ...manifest, history: false, commits: [commit], edges: undefined }, objects)
  const shallow = await open(join(scratch(), "s"))
  expect(await shallow.call("importBundle", { source: target })).toMatchObject({ beginsHere: [commit.id] })
})

it("L13 L10 commits that are their own ancestors, twice there, loose or without their parents are refused, and named", async () => {
  const { other, edited, commits, manifest } = await crafted()
  const imported = manifest.commits.find(({ parent }) => parent === null)!.id
  const [first, second, , fourth, head] = commits as [string, string, string, string, string]
  const stranger = newId("commit")
  type Case = readonly [what: string, reason: string, commit: string, edit: (manifest: Manifest) => void]
  const cases: readonly Case[] = [
    ["its own parent", "invalid", second, (m) => (at(m, second).parent = second)],
    ["a ring of commits", "invalid", second, (m) => (at(m, second).parent = fourth)],
    ["a ring by a second parent", "invalid", second, (m) => (at(m, second)["second_parent"] = head)],
    [
      "a ring with all in order but one",
      "invalid",
      first,
      (m) => {
        at(m, first).parent = head
        for (const [n, one] of m.commits.entries()) one["dated"] = 1000 - n
        at(m, first)["dated"] = 1
      }
    ],
    ["twice the same", "invalid", second, (m) => m.commits.push(at(m, second))],
    ["twice with another message", "invalid", second, (m) => m.commits.push({ ...at(m, second), message: "x" })],
    ["nothing grew from it", "invalid", stranger, (m) => m.commits.push({ ...at(m, second), id: stranger })],
    [
      "a parent that nobody has",
      "incomplete",
      second,
      (m) => {
        at(m, second).parent = stranger
        m.commits = m.commits.filter(
          ({ id, dated }) => Number(dated) >= Number(at(m, second)["dated"]) || id === second
        )
      }
    ],
    [
      "a second parent alone",
      "invalid",
      second,
      (m) => {
        at(m, second)["second_parent"] = at(m, second).parent
        at(m, second).parent = null
      }
    ],
    ["the head is not in it", "invalid", stranger, (m) => (m.head = stranger)],
    ["no history, and several commits", "invalid", head, (m) => (m.history = false)],
    ["a beginning that has no parents", "invalid", imported, (m) => (m.edges = [imported])],
    ["a beginning that is told twice", "invalid", second, (m) => (m.edges = [second, second])]
  ]
  for (const [what, reason, commit, edit] of cases) {
    const error = await refusalOf(other, ...edited(edit), what)
    expect([error.reason, error.commit], what).toEqual([reason, commit])
    expect(error.message, what).toContain(commit)
  }
  expect((await other.call("verify", {})).ok).toBe(true)
})

it("L13 V3 every field of a manifest that is of another kind, or not there, is refused", async () => {
  const { other, edited, commits } = await crafted()
  const id = commits[2]!
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    id: [7, null, "cmt_x", "brn_01a22aed-6c7b-700c-aeed-62dc67002c64", undefined],
    parent: [7, {}, "x", undefined],
    second_parent: [7, [], "x", undefined],
    root: ["sha256:0", "A".repeat(64), 7, null, undefined],
    times: ["", 7, null, undefined],
    // Half of a character comes back from the index as another one.
    message: [7, null, {}, "\ud800x", undefined],
    // What grew from the largest number would have one that cannot be read.
    at: ["1", 1.5, 2 ** 60, -Number.MAX_SAFE_INTEGER, null, undefined],
    dated: ["1", 0.5, 1e300, Number.MAX_SAFE_INTEGER, null, undefined],
    operation: [7, null, "x\udfff", undefined],
    actor: ["", "x", "7", "null", "[]", '{"call":7}', 7, {}, undefined],
    live: [7, -1, true, "0", null, undefined]
  }
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      const what = `${field}: ${JSON.stringify(value)}`
      const error = await refusalOf(other, ...edited((m) => Object.assign(at(m, id), { [field]: value })), what)
      expect(error.reason, what).toBe("invalid")
    }
  }
  const ofManifest: Readonly<Record<string, readonly unknown[]>> = {
    store: [7, undefined],
    project: [null, { id: "x", name: "n" }, { id: newId("project"), name: 7 }, undefined],
    head: [7, "x", undefined],
    history: ["true", 1, undefined],
    edges: [7, "x", [7], [newId("commit")], null],
    commits: [7, {}, [], [null], undefined],
    objects: ["1", -1, 1.5, undefined]
  }
  for (const [field, values] of Object.entries(ofManifest)) {
    for (const value of values) {
      const what = `${field}: ${JSON.stringify(value)}`
      const error = await refusalOf(other, ...edited((m) => Object.assign(m, { [field]: value })), what)
      expect(error.reason, what).toBe("invalid")
    }
  }
  for (const whole of [null, 7, "x", []]) expect((await refusalOf(other, whole, [], `${whole}`)).reason).toBe("invalid")
})

it("L13 L10 objects that are used as what they are not are refused: root and times swapped, kinds that are not so, files of another length", async () => {
  const { other, edited, commits, manifest, objects } = await crafted()
  const id = commits.at(-1)!
  const { root, times } = at(manifest, id) as unknown as { readonly root: string; readonly times: string }
  const indexOf = (hex: unknown): number => objects.findIndex(({ bytes }) => hexOf(bytes) === hex)
  const blob = hexOf(objects.find(({ kind }) => kind === 0)!.bytes)
  type Case = readonly [what: string, reason: string, edit: (manifest: Manifest, objects: Loose[]) => void]
  const cases: readonly Case[] = [
    ["swapped", "invalid", (m) => Object.assign(at(m, id), { root: times, times: root })],
    ["a root that is a blob", "invalid", (m) => (at(m, id)["root"] = blob)],
    ["times that are a blob", "invalid", (m) => (at(m, id)["times"] = blob)],
    ["times of a state with other entries", "invalid", (m) => (at(m, id)["times"] = at(m, commits[0]!)["times"])],
    ["a tree that says it is a blob", "invalid", (_, o) => (o[indexOf(root)]!.kind = 0)],
    ["times that say they are a tree", "invalid", (_, o) => (o[indexOf(times)]!.kind = 1)],
    ["a blob that says it is a tree", "invalid", (_, o) => (o[indexOf(blob)]!.kind = 1)],
    ["a kind that there is not", "damaged", (_, o) => (o[indexOf(blob)]!.kind = 9)],
    ["a root that is not there", "incomplete", (m) => (at(m, id)["root"] = "0".repeat(64))],
    [
      "a blob too few",
      "incomplete",
      (m, o) => {
        o.splice(indexOf(blob), 1)
        m["objects"] = o.length
      }
    ]
  ]
  for (const [what, reason, edit] of cases)
    expect((await refusalOf(other, ...edited(edit), what)).reason, what).toBe(reason)
  // The tree of the newest state with another length of its first file.
  const lengths = await refusalOf(
    other,
    ...edited((m, o) => {
      const tree = Buffer.from(o[indexOf(root)]!.bytes)
      // After magic, flags and count: type, mode, name of one byte, then the length.
      expect(tree.toString("latin1", 12, 13)).toBe("a")
      tree.writeUInt32LE(tree.readUInt32LE(13) + 1, 13)
      o[indexOf(root)]!.bytes = tree
      for (const one of m.commits) if (one["root"] === root) one["root"] = hexOf(tree)
    }),
    "a file that is longer than its content"
  )
  expect([lengths.reason, lengths.commit]).toEqual(["invalid", id])
})

it("L13 L10 a commit that the store has as another one is a conflict that names it, and nothing of the bundle is taken", async () => {
  const { store, edited, commits, manifest, branch } = await crafted()
  await commitInto(store, branch, [put("later", "later")])
  const id = commits[2]!
  const older = at(manifest, commits[0]!)
  const other: Readonly<Record<string, unknown>> = {
    message: "another",
    root: older["root"],
    times: older["times"],
    parent: commits[0],
    at: 7,
    operation: "op_another",
    actor: '{"agent":"another"}',
    live: 1
  }
  for (const [field, value] of Object.entries(other)) {
    const craft = edited((m) => {
      at(m, id)[field] = value
      // With its own times, a state of another root is whole.
      if (field === "root") at(m, id)["times"] = older["times"]
      if (field === "times") at(m, id)["root"] = older["root"]
      // What only the changed commit led to does not count as loose.
      if (field === "parent") m.commits = m.commits.filter((one) => one.id !== commits[1])
    })
    const error = await refusalOf(store, ...craft, field)
    expect([error.reason, error.commit], field).toEqual(["conflict", id])
    expect(error.message, field).toContain(id)
  }
  const moved = await refusalOf(
    store,
    ...edited((m) => Object.assign(m, { project: { id: newId("project"), name: "p" } })),
    "another project"
  )
  expect(moved.reason).toBe("conflict")
})

it("L13 L10 a commit that says it grew from one of the store that is later, or of another project, is refused", async () => {
  const { store, branch, commits, manifest, objects, target, file } = await crafted()
  const { commit: later } = await commitInto(store, branch, [put("later", "later")])
  const id = newId("commit")
  const only = { ...at(manifest, commits[0]!), id, parent: later, dated: 1 }
  const error = await refusalOf(
    store,
    { ...manifest, head: id, commits: [only], edges: [id], history: false },
    objects,
    "earlier"
  )
  expect([error.reason, error.commit]).toEqual(["invalid", id])
  const foreign = { ...manifest, head: id, commits: [{ ...only, dated: Number.MAX_SAFE_INTEGER }], history: false }
  const project = { id: newId("project"), name: "p" }
  expect((await refusalOf(store, { ...foreign, edges: [id], project }, objects, "foreign")).reason).toBe("invalid")
  // A parent that comes after its child is there must come before it.
  const shallow = await open(join(scratch(), "s"))
  const one = join(scratch(), "one")
  await store.call("exportBundle", { ref: commits[1]!, target: latin(one), history: false })
  await shallow.call("importBundle", { source: latin(one) })
  const parent = { ...at(manifest, commits[0]!), parent: null, dated: 2 ** 52 }
  const late = { ...manifest, head: parent.id, commits: [parent], edges: [], history: false }
  const { reason, commit } = await refusalOf(shallow, late, objects, "late")
  expect([reason, commit]).toEqual(["invalid", parent.id])
  // Nor may it close a ring with what is there.
  const ring = { ...at(manifest, commits[0]!), parent: commits[1]! }
  for (const dated of [1, 2 ** 52]) {
    const closing = { ...manifest, head: ring.id, commits: [{ ...ring, dated }], edges: [ring.id], history: false }
    expect((await refusalOf(shallow, closing, objects, `a ring, ${dated}`)).reason).toBe("invalid")
  }
  copyFileSync(file, one)
  expect(await shallow.call("importBundle", { source: target })).toMatchObject({ commits: 5, beginsHere: [] })
})
