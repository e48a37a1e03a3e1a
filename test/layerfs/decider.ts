/**
 * A process that decides about a workspace that was left: `STORE PROVIDER WHAT WORKSPACE`, where WHAT is `recover` or `discard`. Prints what
 * came of it, or the error.
 */
import * as Effect from "effect/Effect"
import { openGitWorktree } from "../../providers/git-worktree/index.ts"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"

const [, , store, name, what, workspace] = process.argv as unknown as [string, string, string, string, string, string]

const program = Effect.gen(function* () {
  const provider = yield* name === "git-worktree" ? openGitWorktree({ store }) : makeLayerFs({ store })
  if (what === "discard") return yield* Effect.as(provider.discardLeft(workspace, "not wanted"), "discarded")
  return yield* provider.recover(workspace, { operationId: "op-first" })
})

const told = await Effect.runPromise(
  Effect.scoped(program).pipe(Effect.catchCause((cause) => Effect.succeed({ failed: String(cause) })))
)
console.log(JSON.stringify(told))
