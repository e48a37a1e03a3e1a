import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { afterAll, assert, test } from "vitest"
import { Goals } from "../../src/governance/index.ts"
import { Assembly, standard } from "../../src/standard.ts"
import { Workspaces } from "../../src/workspace/WorkspaceProvider.ts"

const place = mkdtempSync(join(tmpdir(), "coppice-first-use-"))
const runtime = ManagedRuntime.make(standard({ store: place }))
afterAll(async () => {
  await runtime.dispose()
  rmSync(place, { recursive: true, force: true })
})

const layerfs = () =>
  runtime.runPromise(Effect.map(Assembly, (assembly) => assembly.read().parts.find((part) => part.name === "layerfs")!))
const stats = Effect.flatMap(Workspaces, (workspaces) => workspaces.stats)

test("G8 P9 a workspace store that cannot be opened is a typed error at its first use, governance goes on, and the next use tries again", async () => {
  writeFileSync(join(place, "layerfs"), "in the way")
  for (const _ of [1, 2]) {
    const error = await runtime.runPromise(Effect.flip(stats))
    assert.deepInclude(error, { code: "STORE_LOCATION" })
    assert.deepInclude(await layerfs(), { loaded: true, ready: null })
    await runtime.runPromise(Goals.open({ title: "still governed", budget: { usd: 1 } }))
  }
  rmSync(join(place, "layerfs"))
  await runtime.runPromise(stats)
  assert.deepInclude(await layerfs(), { loaded: true, ready: true })
})
