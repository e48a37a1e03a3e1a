/**
 * A process to be killed: imports SOURCE into the store at STORE, or takes BRANCH of it, opens a workspace, commits inside, checkpoints and
 * ends. Prints one line of JSON after each step that was acknowledged.
 */
import * as Effect from "effect/Effect"
import { openGitWorktree } from "../../../providers/git-worktree/index.ts"

const [, , store, source, known, operationId = "op-checkpoint"] = process.argv

const tell = (what: object): void => console.log(JSON.stringify(what))

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const provider = yield* openGitWorktree({ store: store! })
      let branch = known
      if (branch === undefined) {
        const { layer } = yield* provider.importDirectory({ source: source!, operationId: "op-import" })
        tell({ layer })
        branch = (yield* provider.fork(layer, { name: "life" })).id
        tell({ branch })
      }
      yield* Effect.scoped(
        Effect.gen(function* () {
          const workspace = yield* provider.open(branch, {})
          tell({ workspace: workspace.id })
          const { exitCode, stderr } = yield* workspace.exec([
            "sh",
            "-c",
            "echo inside > made && git add made && git -c user.name=a -c user.email=a@example.org commit --allow-empty -qm inside && git rev-parse HEAD"
          ])
          if (exitCode !== 0) throw new Error(stderr.text)
          tell(yield* workspace.checkpoint({ operationId }))
        })
      )
      tell({ ended: true })
    })
  )
)
