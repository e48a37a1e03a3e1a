/**
 * An ordinary user's files that keep their owner out (mode 000), through checkpoints, a merge and exports: by git-worktree, and by LayerFS
 * without the merge. Prints what came of it.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openGitWorktree } from "../../providers/git-worktree/index.ts"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"

const home = process.cwd()
const source = join(home, "project")
const paths = ["secret", "shut", "shut/in", "shut2", "shut2/deep", "t"]

/** Modes and contents of what lies at a path, read with the rights that an owner may give himself. */
const lookAt = (root: string): readonly string[] => {
  const modes = paths.map((path) => {
    const at = join(root, path)
    const { mode } = fs.lstatSync(at)
    fs.chmodSync(at, 0o700)
    return (mode & 0o777).toString(8)
  })
  return paths.map((path, n) => {
    const at = join(root, path)
    return `${path} ${modes[n]} ${fs.lstatSync(at).isFile() ? fs.readFileSync(at, "utf8").trim() : ""}`.trim()
  })
}

const told = (name: string, provider: WorkspaceProvider, merges: boolean) =>
  Effect.gen(function* () {
    const { commit } = yield* provider.importDirectory({ source })
    const inside = (branch: string, command: string) =>
      Effect.scoped(
        Effect.gen(function* () {
          const workspace = yield* provider.open(branch)
          const { exitCode, stderr } = yield* workspace.exec(command)
          if (exitCode !== 0) throw new Error(stderr.text)
          return (yield* workspace.checkpoint()).outcome
        })
      )
    const { id: base } = yield* provider.fork(commit)
    yield* inside(base, "mkdir shut; echo in > shut/in; echo secret > secret; chmod 000 secret shut/in shut")
    const { id: ours } = yield* provider.fork(base)
    const { id: theirs } = merges ? yield* provider.fork(base) : { id: ours }
    yield* inside(
      ours,
      "chmod 700 shut; chmod 600 shut/in; echo ours > shut/in; chmod 000 shut/in shut; chmod 600 secret"
    )
    yield* inside(
      theirs,
      "rm -f secret; echo theirs > secret; chmod 000 secret; echo t > t; chmod 200 t; mkdir shut2; echo deep > shut2/deep; chmod 400 shut2/deep; chmod 100 shut2"
    )
    const outcome = merges ? (yield* provider.merge(theirs, ours)).outcome : "merged"
    const kept = yield* Effect.forEach(paths, (path) =>
      Effect.gen(function* () {
        const { type, mode } = yield* provider.statAt(ours, path)
        const bytes = type === "file" ? yield* provider.readAt(ours, path) : new Uint8Array()
        return `${path} ${(mode & 0o777).toString(8)} ${Buffer.from(bytes).toString().trim()}`.trim()
      })
    )
    const [directory, archive, unpacked] = ["export", "tar", "unpacked"].map((what) =>
      join(home, `${name}-${what}`)
    ) as [string, string, string]
    yield* provider.exportDirectory(ours, directory)
    yield* provider.exportTar(ours, archive)
    fs.mkdirSync(unpacked)
    execFileSync("tar", [
      "--extract",
      "--preserve-permissions",
      "--delay-directory-restore",
      "-f",
      archive,
      "-C",
      unpacked
    ])
    const again = yield* inside(ours, "true")
    const { ok } = yield* provider.verify()
    return { outcome, kept, exported: lookAt(directory), unpacked: lookAt(unpacked), again, ok }
  })

fs.mkdirSync(source)
fs.writeFileSync(join(source, "f"), "f\n")
const git = (...args: readonly string[]) =>
  execFileSync("git", ["-c", "user.name=u", "-c", "user.email=u@x", ...args], { cwd: source })
git("init", "-q")
git("add", "f")
git("commit", "-q", "-m", "f")
const store = join(home, "store")
const program = Effect.gen(function* () {
  return {
    "git-worktree": yield* told("git-worktree", yield* openGitWorktree({ store }), true),
    layerfs: yield* told("layerfs", yield* openLayerFs({ store }), false)
  }
})
console.log(JSON.stringify(await Effect.runPromise(Effect.scoped(program))))
