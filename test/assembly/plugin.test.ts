/** Providers that an application brings: registered, refused, loaded when first used. A real module on disk each time. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { afterAll, assert, expect, test, vi } from "vitest"
import type { WorkspacePlugin } from "../../src/assembly/Plugin.ts"
import { Goals } from "../../src/governance/index.ts"
import { Assembly, standard } from "../../src/standard.ts"
import { type WorkspaceProvider, Workspaces } from "../../src/workspace/WorkspaceProvider.ts"

const place = mkdtempSync(join(tmpdir(), "coppice-plugin-"))
afterAll(() => rmSync(place, { recursive: true, force: true }))

const facts = { name: "mine", kind: "workspace", version: "1.2.0", contract: 1 } as const
let files = 0

/** A module that says `own` of itself and opens LayerFS below the store that it is given. */
const plugin = (own: object = facts, more: object = {}): WorkspacePlugin & { loads: number } => {
  const file = join(place, `plugin-${(files += 1)}.mjs`)
  const layerfs = pathToFileURL(join(import.meta.dirname, "../../providers/layerfs/index.ts")).href
  writeFileSync(
    file,
    `import { openLayerFs } from ${JSON.stringify(layerfs)}
export const coppice = ${JSON.stringify(own)}
export const openWorkspaces = ({ store }) => openLayerFs({ store: store + "/mine" })
`
  )
  const made = {
    ...facts,
    about: "ours",
    loads: 0,
    load: () => {
      made.loads += 1
      return import(/* @vite-ignore */ pathToFileURL(file).href)
    },
    ...more
  }
  return made
}

const opened = (options: object) => {
  const store = join(place, `store-${(files += 1)}`)
  const runtime = ManagedRuntime.make(standard({ store, ...options } as never))
  const read = Effect.map(Assembly, (assembly) => assembly.read().parts.find((part) => part.name === "mine"))
  return {
    stats: () => runtime.runPromise(Effect.flatMap(Workspaces, (workspaces) => workspaces.stats)),
    refusal: () =>
      runtime.runPromise(Effect.flatMap(Workspaces, (workspaces) => workspaces.stats)).then(
        () => assert.fail("nothing was refused"),
        (error: unknown) => error as { readonly remedy: string }
      ),
    part: () => runtime.runPromise(read),
    govern: () => runtime.runPromise(Goals.open({ title: "governed", budget: { usd: 1 } })),
    end: () => runtime.dispose()
  }
}

test("P2 P4 P9 an application's provider is loaded at its first use and not before, and the read-back tells its version and why", async () => {
  const mine = plugin()
  const coppice = opened({ plugins: [mine], workspaces: "mine" })
  await coppice.govern()
  assert.equal(mine.loads, 0)
  const before = { from: "application" as const, version: "1.2.0", enabled: true, why: "the application's workspaces" }
  assert.deepInclude(await coppice.part(), { ...before, installed: null, loaded: false, ready: null, refused: null })
  assert.equal((await coppice.stats()).branches, 0)
  const after = { installed: true, loaded: true, ready: true, why: "first use of a workspace" }
  assert.deepInclude(await coppice.part(), after)
  assert.equal(mine.loads, 1)
  await coppice.end()
})

test("P2 P3 of two under one name none is taken, whatever their order; what is malformed or of another contract is refused with nothing opened or loaded", async () => {
  const wrong: readonly [unknown, string][] = [
    [[plugin(), plugin(facts, { version: "1.3.0" })], "duplicate"],
    [[plugin(facts, { version: "1.3.0" }), plugin()], "duplicate"],
    [[plugin(facts, { name: "layerfs" })], "duplicate"],
    [[plugin(facts, { contract: 2 })], "incompatible"],
    [[plugin(facts, { contract: 0 })], "incompatible"],
    [[plugin(facts, { contract: "1" })], "malformed"],
    [[plugin(facts, { name: "../mine" })], "malformed"],
    [[plugin(facts, { name: "__proto__ " })], "malformed"],
    [[plugin(facts, { version: "new" })], "malformed"],
    [[plugin(facts, { kind: "authority" })], "malformed"],
    [[plugin(facts, { load: "my-snapshots" })], "malformed"],
    [[undefined], "malformed"],
    [["my-snapshots"], "malformed"]
  ]
  for (const [plugins, why] of wrong) {
    const coppice = opened({ plugins })
    const error = await coppice.refusal()
    expect(error, JSON.stringify(plugins)).toMatchObject({ _tag: "PluginRefused", code: "PLUGIN_REFUSED", why })
    for (const one of plugins as { loads?: number }[]) assert.equal(one?.loads ?? 0, 0)
    await coppice.end()
  }
  const notAList = opened({ plugins: plugin() })
  expect(await notAList.refusal()).toMatchObject({ _tag: "PresetOptionsError", option: "plugins" })
  await notAList.end()
})

test("P2 P3 a module that is not what was registered, or none, is shown and refused; governance goes on, and nothing takes its place", async () => {
  const cases: readonly [WorkspacePlugin, "stale" | "broken", boolean | null][] = [
    [plugin({ ...facts, version: "1.1.0" }), "stale", null],
    [plugin({ ...facts, contract: 2 }), "stale", null],
    [plugin({ ...facts, name: "other" }), "stale", null],
    [plugin({}), "broken", false],
    [plugin(facts, { load: () => import("no-such-package" as string) }), "broken", false],
    [plugin(facts, { load: async () => ({ coppice: facts }) }), "broken", false],
    [plugin(facts, { load: async () => undefined }), "broken", false]
  ]
  for (const [mine, refused, installed] of cases) {
    const coppice = opened({ plugins: [mine], workspaces: "mine" })
    for (const _ of [1, 2]) {
      expect(await coppice.refusal()).toMatchObject({ _tag: "Unavailable", code: "UNAVAILABLE", missing: ["mine"] })
    }
    assert.deepInclude(await coppice.part(), { refused, installed, loaded: false, ready: null })
    await coppice.govern()
    await coppice.end()
  }
})

test("P1 P2 the choice is by name alone: one that was not registered is refused with the names that there are", async () => {
  const mine = plugin()
  const coppice = opened({ plugins: [mine], workspaces: "yours" })
  const error = await coppice.refusal()
  expect(error).toMatchObject({ _tag: "PresetOptionsError", option: "workspaces" })
  assert.include(error.remedy, "layerfs, git-worktree, reflink, off, mine")
  await coppice.end()
  const unused = opened({ plugins: [mine] })
  await unused.stats()
  assert.equal(mine.loads, 0)
  assert.deepInclude(await unused.part(), { enabled: false, loaded: false, why: "not asked for" })
  await unused.end()
})

test("P2 P3 what a plugin opens instead of a provider is refused with what it lacks, and every later call too", async () => {
  const wrong: readonly [unknown, RegExp][] = [
    [() => undefined, /did not return an Effect/],
    [() => ({ stats: Effect.succeed({}) }), /did not return an Effect/],
    [
      () => {
        throw new TypeError("no server")
      },
      /no server/
    ],
    [async () => assert.fail("rejects later"), /did not return an Effect/],
    [
      () =>
        Effect.succeed({
          get manifest() {
            throw new Error("not yet")
          }
        }),
      /it lacks manifest/
    ],
    [() => Effect.succeed(null), /it is null/],
    [() => Effect.succeed({ stats: Effect.succeed({}), fork: 7 }), /it lacks manifest, probe, .*fork/]
  ]
  for (const [openWorkspaces, why] of wrong) {
    const mine = plugin(facts, { load: async () => ({ coppice: facts, openWorkspaces }) })
    const coppice = opened({ plugins: [mine], workspaces: "mine" })
    for (const _ of [1, 2]) {
      const error = await coppice.refusal()
      expect(error).toMatchObject({ _tag: "Unavailable", code: "UNAVAILABLE", missing: ["mine"] })
      expect(error).toMatchObject({
        message: expect.stringMatching(why),
        remedy: expect.stringMatching(/conformance/i)
      })
    }
    assert.deepInclude(await coppice.part(), { loaded: true, ready: null })
    await coppice.end()
  }
})

test("P2 P9 W4 a call whose provider is opened without an end is given up at once, and so is the opening with the application", async () => {
  let begun = 0
  let ended = 0
  const openWorkspaces = () => {
    begun += 1
    return Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (ended += 1)))
  }
  const mine = plugin(facts, { load: async () => ({ coppice: facts, openWorkspaces }) })
  const runtime = ManagedRuntime.make(
    standard({ store: join(place, "never"), plugins: [mine], workspaces: "mine" } as never)
  )
  const asked = () => {
    const giveUp = new AbortController()
    const call = Effect.flatMap(Workspaces, (workspaces) => workspaces.stats)
    return { giveUp, exit: runtime.runPromiseExit(call, { signal: giveUp.signal }) }
  }
  const calls = [asked(), asked()]
  await vi.waitUntil(() => begun > 0)
  for (const { giveUp, exit } of calls) {
    giveUp.abort()
    assert.isTrue(Exit.isFailure(await exit))
  }
  assert.deepEqual([begun, ended], [1, 0])
  await runtime.dispose()
  assert.deepEqual([begun, ended], [1, 1])
})

test("P2 W2 whoever asks a store for what another provider keeps there is told so", async () => {
  const store = join(place, "two-providers")
  const asked = (workspaces: "layerfs" | "reflink") => {
    const runtime = ManagedRuntime.make(standard({ store, workspaces }))
    return {
      ask: <A, E>(call: (provider: WorkspaceProvider) => Effect.Effect<A, E>) =>
        runtime.runPromise(Effect.flatMap(Workspaces, call)),
      end: () => runtime.dispose()
    }
  }
  const first = asked("layerfs")
  const { layer } = await first.ask((provider) => provider.createEmpty())
  await expect(first.ask((provider) => provider.fork("lay_none"))).rejects.not.toMatchObject({
    remedy: expect.stringContaining("also holds")
  })
  await first.end()
  const second = asked("reflink")
  await expect(second.ask((provider) => provider.fork(layer))).rejects.toMatchObject({
    code: "REF_NOT_FOUND",
    remedy: expect.stringMatching(/also holds workspaces of layerfs, which reflink does not see/)
  })
  await second.end()
})
