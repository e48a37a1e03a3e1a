/** What an ordinary user does with the provider: import, open, commit inside, checkpoint, merge, export, all of it in the home that it runs in. */
import { execFileSync } from "node:child_process"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openGitWorktree } from "../../../providers/git-worktree/index.ts"

const home = process.cwd()
const source = join(home, "project")
const git = (...args: readonly string[]): string => execFileSync("git", args, { cwd: source, encoding: "utf8" })
mkdirSync(source)
git("init", "-q")
git("config", "user.name", "user")
git("config", "user.email", "user@example.org")
writeFileSync(join(source, "a"), "a\n")
git("add", "a")
git("commit", "-q", "-m", "a")
writeFileSync(join(source, "untracked"), "u\n")

const told = await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const provider = yield* openGitWorktree({ store: join(home, "store") })
      const { layer } = yield* provider.importDirectory({ source })
      const [ours, theirs] = [(yield* provider.fork(layer)).id, (yield* provider.fork(layer)).id]
      const inside = (branch: string, command: string) =>
        Effect.scoped(
          Effect.gen(function* () {
            const workspace = yield* provider.open(branch)
            const { exitCode, stdout, stderr } = yield* workspace.exec(["sh", "-c", command])
            const { outcome } = yield* workspace.checkpoint()
            return {
              exitCode,
              said: stdout.text,
              stderr: stderr.text,
              outcome,
              origin: workspace.isolation.protected.includes("origin")
            }
          })
        )
      const first = yield* inside(
        ours,
        `git status --porcelain; echo b > b; git add b; git commit -qm b; touch ${source}/a 2>/dev/null || echo denied`
      )
      const second = yield* inside(theirs, "echo c > c")
      const { outcome } = yield* provider.merge(theirs, ours)
      yield* provider.exportDirectory(ours, join(home, "export"))
      return { first, second, outcome, ok: (yield* provider.verify()).ok }
    })
  )
)
const files = ["a", "b", "c"].map((name) => readFileSync(join(home, "export", name), "utf8"))
console.log(
  JSON.stringify({
    ...told,
    files,
    status: git("status", "--porcelain"),
    worktrees: git("worktree", "list").split("\n").length
  })
)
