/** A lease as the guard of a workspace: real governance, a real workspace, and a second agent that takes the todo over. */
import { strict as assert } from "node:assert"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { test } from "vitest"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { Leases } from "../../src/governance/index.ts"
import { leaseGuard } from "../../src/session/index.ts"
import { newScene } from "./scene.ts"

test("W18 G35 P7 a lease that was taken over cannot checkpoint: the guard reads token and epoch anew each time", async () => {
  const scene = await newScene()
  const source = join(scene.place, "source")
  mkdirSync(source)
  writeFileSync(join(source, "f"), "f")
  await scene.run(
    Effect.scoped(
      Effect.gen(function* () {
        const workspaces = yield* openLayerFs({ store: join(scene.place, "files-store") })
        const { commit } = yield* workspaces.importDirectory({ source })
        const branch = yield* workspaces.fork(commit)
        const guard = yield* leaseGuard(scene.fence)
        yield* Effect.scoped(
          Effect.gen(function* () {
            const workspace = yield* workspaces.open(branch.id, { guard, projection: "copy" })
            yield* workspace.write("f", "first")
            const first = yield* workspace.checkpoint()
            // A renewal changes the version and takes nothing away.
            const { fence } = yield* Leases.renew({ fence: scene.fence })
            yield* workspace.write("f", "second")
            const taken = yield* Leases.transfer({ fence, to: "bob", reason: "a test takes over" })
            const lost = yield* Effect.flip(workspace.checkpoint())
            assert.equal(lost._tag, "AuthorityLost")
            if (lost._tag !== "AuthorityLost") return
            assert.deepEqual([lost.authority, lost.why], [`lease on ${scene.todo}, epoch 1`, "epoch"])
            assert.equal((yield* workspaces.branch(branch.id)).head, first.commit)
            const kept = yield* workspaces.readAt(lost.quarantine!.commit, "f")
            assert.equal(Buffer.from(kept).toString(), "second")
            // The new holder's guard says yes; its epoch with another token, and its own after the release, say no.
            const theirs = yield* leaseGuard(taken.fence)
            yield* theirs
            const forged = yield* leaseGuard({ ...taken.fence, token: "guessed" })
            assert.equal((yield* Effect.flip(forged))._tag, "AuthorityLost")
            yield* Leases.release({ fence: taken.fence })
            const released = yield* Effect.flip(theirs)
            assert.deepEqual([released._tag, (released as { why?: string }).why], ["AuthorityLost", "released"])
          })
        )
      })
    )
  )
})
