/**
 * The promise entry beside the contract of workspaces: every operation of a provider is there.
 * Promise: an operation that is new in the contract fails here until the promise entry has it, or it is named as one that no provider has yet.
 * Rules: V3; docs/decisions/024.
 */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { lazyWorkspaces } from "../../src/assembly/LazyWorkspaces.ts"
import { open, type WorkspaceCalls } from "../../src/promise.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"

/** What the contract has and every provider answers with `Unsupported`; and what makes identities for the rooms above. */
const elsewhere = ["importGit", "retire", "collect", "candidate"] as const

type Missing = Exclude<keyof WorkspaceProvider, keyof WorkspaceCalls | (typeof elsewhere)[number]>
const missing: readonly never[] = [] as readonly Missing[]

/** What the promise entry alone has. */
const beside = ["graph"]

test("V3 every operation of the workspace contract is there as a promise, and nothing that is none", async () => {
  assert.deepEqual(missing, [])
  const place = mkdtempSync(join(tmpdir(), "coppice-workspace-shapes-"))
  try {
    await using coppice = await open({ preset: "standard", store: join(place, "store") })
    // The provider that the presets wrap every other one in has each operation of the contract, and nothing else.
    const contract = Object.keys(await Effect.runPromise(Effect.scoped(lazyWorkspaces(Effect.never))))
    const promised = contract.filter((name) => !elsewhere.some((other) => other === name))
    const here = Object.keys(coppice.workspaces)
    assert.isAbove(promised.length, 25)
    assert.deepEqual(
      promised.filter((name) => !here.includes(name)),
      []
    )
    assert.deepEqual(
      here.filter((name) => !promised.includes(name)),
      beside
    )
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
})
