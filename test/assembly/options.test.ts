import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { afterEach, assert, beforeEach, test } from "vitest"
import { Assembly } from "../../src/assembly/Assembly.ts"
import { makeRegistry, providerName } from "../../src/assembly/Registry.ts"
import { storeDirectory } from "../../src/assembly/StoreDefault.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { minimal } from "../../src/minimal.ts"
import { standard } from "../../src/standard.ts"
import { Workspaces } from "../../src/workspace/WorkspaceProvider.ts"

let place: string
const variables = { ...process.env }
beforeEach(() => {
  place = realpathSync(mkdtempSync(join(tmpdir(), "coppice-assembly-")))
  mkdirSync(join(place, "project"))
})
afterEach(() => {
  for (const name of ["HOME", "XDG_STATE_HOME"]) {
    if (variables[name] === undefined) delete process.env[name]
    else process.env[name] = variables[name]
  }
  rmSync(place, { recursive: true, force: true })
})

const withEnvironment = (env: { HOME?: string; XDG_STATE_HOME?: string }): void => {
  for (const name of ["HOME", "XDG_STATE_HOME"] as const) {
    if (env[name] === undefined) delete process.env[name]
    else process.env[name] = env[name]
  }
}
const directory = (options: { store?: string; project?: string }) => Effect.runPromise(storeDirectory(options))
const refusal = (options: { store?: string; project?: string }) =>
  Effect.runPromise(Effect.flip(storeDirectory(options)))

test("P1 an unknown provider is a typed error that names the known ones, and listing loads and marks nothing", async () => {
  const registry = makeRegistry(new Map([["layerfs", "asked for"]]))
  for (const name of ["nope", "toString", "__proto__", "../layerfs", ""]) {
    const error = await Effect.runPromise(Effect.flip(providerName(name)))
    assert.deepInclude(error, { _tag: "UnknownProvider", code: "UNKNOWN_PROVIDER", name })
    assert.deepEqual(error.known, ["authority-sqlite", "layerfs", "git-worktree", "reflink", "host-process"])
    assert.include(error.remedy, "layerfs")
  }
  assert.equal(await Effect.runPromise(providerName("layerfs")), "layerfs")
  assert.deepEqual(
    registry
      .parts()
      .map((part) => [part.name, part.kind, part.installed, part.enabled, part.loaded, part.ready, part.why]),
    [
      ["authority-sqlite", "authority", true, false, false, null, "not asked for"],
      ["layerfs", "workspace", true, true, false, null, "asked for"],
      ["git-worktree", "workspace", true, false, false, null, "not asked for"],
      ["reflink", "workspace", true, false, false, null, "not asked for"],
      ["host-process", "host", true, false, false, null, "not asked for"]
    ]
  )
})

test("P9 a provider is loaded by its literal name, and the read-back keeps the first reason; loaded is not ready", async () => {
  const registry = makeRegistry(new Map())
  const module = await Effect.runPromise(registry.load("host-process", "first turn"))
  assert.isFunction(module.processHost)
  await Effect.runPromise(registry.load("host-process", "second turn"))
  const part = () => registry.parts().find((p) => p.name === "host-process")!
  assert.deepInclude(part(), { enabled: false, loaded: true, ready: null, why: "first turn" })
  registry.markReady("host-process", false)
  assert.deepInclude(part(), { loaded: true, ready: false })
})

test("the default store lies below the user's state directory, under the hash of the project's real path, and is not made by asking", async () => {
  const project = join(place, "project")
  const name = sha256(project).slice(7, 39)
  symlinkSync(project, join(place, "link"))
  withEnvironment({ HOME: join(place, "home"), XDG_STATE_HOME: join(place, "state") })
  assert.equal(await directory({ project }), join(place, "state", "coppice", name))
  assert.equal(await directory({ project: join(place, "link") }), join(place, "state", "coppice", name))
  // As the XDG specification says, an empty or a relative path is no path.
  for (const state of [undefined, "", "state"]) {
    withEnvironment({ HOME: join(place, "home"), ...(state === undefined ? {} : { XDG_STATE_HOME: state }) })
    assert.equal(await directory({ project }), join(place, "home", ".local", "state", "coppice", name))
  }
  assert.equal(await directory({ project, store: join(place, "mine") }), join(place, "mine"))
  assert.deepEqual(readdirSync(place).toSorted(), ["link", "project"])
})

test("without a home the store must be given: StoreLocation says which variables or option would do", async () => {
  const project = join(place, "project")
  for (const home of [undefined, "", "relative"]) {
    withEnvironment(home === undefined ? {} : { HOME: home })
    const error = await refusal({ project })
    assert.deepInclude(error, { code: "STORE_LOCATION", path: "" })
    assert.match(error.remedy, /XDG_STATE_HOME or HOME, or pass `store`/)
    assert.equal(await directory({ project, store: join(place, "mine") }), join(place, "mine"))
  }
})

test("W13 a store inside the project is refused by every way of naming it, one beside it is not, and nothing is made", async () => {
  const project = join(place, "project")
  symlinkSync(project, join(place, "link"))
  const inside = [project, join(project, "a", "b"), join(place, "link", "store"), join(project, "..", "project", "x")]
  for (const store of inside) {
    const error = await refusal({ project, store })
    assert.deepInclude(error, { code: "STORE_LOCATION", path: store })
    assert.include(error.remedy, "outside the project")
    assert.equal((await refusal({ project: join(place, "link"), store })).code, "STORE_LOCATION")
  }
  assert.equal(await directory({ project, store: join(place, "project-store") }), join(place, "project-store"))
  assert.deepEqual(readdirSync(project), [])
  assert.equal((await refusal({ project: join(place, "nowhere"), store: place })).code, "STORE_LOCATION")
})

test("an option that a preset does not have, or a value that it does not know, is refused before anything is opened", async () => {
  const store = join(place, "store")
  const presets = { minimal, standard } as unknown as Record<string, (options: object) => ReturnType<typeof minimal>>
  const wrong: readonly (readonly [preset: string, options: object, option: string])[] = [
    ["minimal", { store, colour: "red" }, "colour"],
    ["minimal", { store, workspaces: "layerfs" }, "workspaces"],
    ["minimal", { store, preset: "standard" }, "preset"],
    ["minimal", { store, modules: [] }, "modules"],
    ["minimal", { store: 7 }, "store"],
    ["minimal", { store: "" }, "store"],
    ["standard", { store, workspaces: "btrfs" }, "workspaces"],
    ["standard", { store, workspaces: null }, "workspaces"],
    ["standard", { store, toString: "x" }, "toString"],
    // What the chosen provider would pass over.
    ["standard", { store, workspaces: "git-worktree", warmPool: 2 }, "warmPool"],
    ["standard", { store, workspaces: "git-worktree", cacheLimit: 2 ** 30 }, "cacheLimit"],
    ["standard", { store, workspaces: "reflink", projectQuota: 2 ** 30 }, "projectQuota"]
  ]
  for (const [preset, options, option] of wrong) {
    const layer = presets[preset]!(options)
    const error = await Effect.runPromise(Effect.flip(Effect.scoped(Layer.build(layer))))
    assert.deepInclude(error, { code: "PRESET_OPTIONS", option }, JSON.stringify(options))
    assert.isFalse(existsSync(store))
    if (option === "workspaces") assert.match(error.message, /cannot be ("btrfs"|"layerfs"|null)|has no option/)
  }
  await Effect.runPromise(Effect.scoped(Layer.build(presets["standard"]!({ store, workspaces: undefined }))))
  assert.isTrue(existsSync(join(store, "authority.db")))
})

test("an authority whose place is unusable is a typed error with the remedy, and nothing stays behind", async () => {
  const file = join(place, "file")
  writeFileSync(file, "")
  const error = await Effect.runPromise(
    Effect.flip(Effect.scoped(Layer.build(minimal({ store: join(file, "store") }))))
  )
  assert.deepInclude(error, { code: "AUTHORITY_LOCATION" })
  assert.deepEqual(readdirSync(place).toSorted(), ["file", "project"])
})

test("W15 C56 the standard preset takes the store's caps as sizes: a wrong one opens nothing, a right one reaches the store", async () => {
  const store = join(place, "store")
  for (const storeQuota of ["64MB", -1, 1.5, "", true, null]) {
    const live = standard({ store, storeQuota: storeQuota as string })
    const error = await Effect.runPromise(Effect.flip(Effect.provide(Effect.void, live)))
    assert.deepInclude(error, { _tag: "PresetOptionsError", option: "storeQuota" })
  }
  assert.equal(existsSync(store), false)
  const live = standard({ store, storeQuota: "64 MiB", projectQuota: 1000 })
  const stats = Effect.flatMap(Workspaces, (workspaces) => workspaces.stats)
  const { quota } = await Effect.runPromise(Effect.provide(stats, live))
  assert.deepEqual(quota, { storeBytes: 67_108_864, projectBytes: 1000 })
})

test("W15 P3 P4 the standard preset takes a limit for cached layers and the size of a pool, hands both to LayerFS, and its read-back names the pool", async () => {
  const store = join(place, "projections")
  for (const wrong of [
    { cacheLimit: "4GB" },
    { warmPool: -1 },
    { warmPool: 1.5 },
    { warmPool: "2" },
    { warmPool: 65 }
  ]) {
    const error = await Effect.runPromise(
      Effect.flip(Effect.provide(Effect.void, standard({ store, ...(wrong as object) })))
    )
    assert.deepInclude(error, { _tag: "PresetOptionsError", option: Object.keys(wrong)[0]! })
  }
  assert.equal(existsSync(store), false)
  const read = Effect.gen(function* () {
    const { cache, pool } = yield* (yield* Workspaces).stats
    return [cache?.limitBytes, pool?.size, (yield* Assembly).read().pools]
  })
  const live = standard({ store, cacheLimit: "1 GiB", warmPool: 1 })
  assert.deepEqual(await Effect.runPromise(Effect.provide(read, live)), [2 ** 30, 1, ["layerfs: 1 warm holders"]])
})
