/**
 * Ground for the tests of the git-worktree provider: repositories of a user, a store, and a look at all of a `.git`.
 * Promise: real git, mounts and processes; after each test nothing of it is mounted, running or on disk.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { type GitWorktreeOptions, openGitWorktree } from "../../providers/git-worktree/index.ts"
import type { OpenOptions, Workspace, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, run, scratch } from "../layerfs/projFixture.ts"

export { atEnd, endedAtEnd, failure, run, scratch } from "../layerfs/projFixture.ts"

const variables = {
  PATH: process.env["PATH"] ?? "",
  HOME: "/nonexistent",
  LC_ALL: "C",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "user",
  GIT_AUTHOR_EMAIL: "user@example.org",
  GIT_COMMITTER_NAME: "user",
  GIT_COMMITTER_EMAIL: "user@example.org"
}

/** git as the user runs it. */
export const git = (directory: string, ...args: readonly string[]): string =>
  execFileSync("git", args, { cwd: directory, env: variables, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] })

export type Put = Readonly<Record<string, string | Buffer | { readonly link: string } | null>>

/** Files by path; a link by its target; null is a directory. */
export const put = (directory: string, files: Put): void => {
  for (const [path, what] of Object.entries(files)) {
    const at = join(directory, path)
    fs.mkdirSync(what === null ? at : join(at, ".."), { recursive: true })
    if (what === null) continue
    if (typeof what === "string" || Buffer.isBuffer(what)) fs.writeFileSync(at, what)
    else fs.symlinkSync(what.link, at)
  }
}

/** A repository with one commit of `tracked`, and whatever lies beside it. */
export const repository = (tracked: Put, beside: Put = {}, name = "project"): string => {
  const at = join(scratch(), name)
  fs.mkdirSync(at)
  git(at, "init", "-q", "-b", "main")
  put(at, tracked)
  git(at, "add", "-A")
  git(at, "commit", "-q", "-m", "first")
  put(at, beside)
  return at
}

/** Every entry below a directory with its mode, size, time and content: equal when nothing was touched. */
export const picture = (directory: string, apart: (path: string) => boolean = () => false): Record<string, string> => {
  const found: Record<string, string> = {}
  const visit = (below: Buffer): void => {
    for (const name of fs.readdirSync(Buffer.concat([Buffer.from(`${directory}/`), below]), { encoding: "buffer" })) {
      const path = below.length === 0 ? name : Buffer.concat([below, Buffer.from("/"), name])
      const shown = path.toString("latin1")
      if (apart(shown)) continue
      const at = Buffer.concat([Buffer.from(`${directory}/`), path])
      const stat = fs.lstatSync(at, { bigint: true })
      const what = stat.isSymbolicLink()
        ? fs.readlinkSync(at, { encoding: "latin1" })
        : stat.isFile()
          ? createHash("sha256").update(fs.readFileSync(at)).digest("hex")
          : ""
      found[shown] = `${stat.mode.toString(8)} ${stat.isDirectory() ? "" : stat.mtimeNs} ${what}`
      if (stat.isDirectory()) visit(path)
    }
  }
  visit(Buffer.alloc(0))
  return found
}

/** Opens the provider on `store`; it closes after the test. */
export const providerOn = async (
  store: string,
  options: Omit<GitWorktreeOptions, "store"> = {}
): Promise<WorkspaceProvider> => {
  const scope = await run(Scope.make())
  atEnd(() => run(Scope.close(scope, Exit.void)))
  return run(Scope.provide(openGitWorktree({ store, ...options }), scope))
}

export const imported = async (source: string, store = join(scratch(), "store")) => {
  const provider = await providerOn(store)
  const receipt = await run(provider.importDirectory({ source }))
  return { provider, receipt, store, source }
}

export const forkOf = async (provider: WorkspaceProvider, from: string): Promise<string> =>
  (await run(provider.fork(from, { name: "attempt" }))).id

/** Opens a branch for as long as `work` takes. */
export const using = <A>(
  provider: WorkspaceProvider,
  branch: string,
  work: (workspace: Workspace) => Promise<A>,
  options: OpenOptions = {}
): Promise<A> =>
  run(
    Effect.scoped(Effect.flatMap(provider.open(branch, options), (workspace) => Effect.promise(() => work(workspace))))
  )

/** What a shell command prints inside. */
export const shell = (workspace: Workspace, command: string): Promise<string> =>
  run(
    Effect.map(workspace.exec(["sh", "-c", command]), ({ exitCode, stdout, stderr }) => {
      if (exitCode !== 0) throw new Error(`${command}: ${exitCode} ${stderr.text}`)
      return stdout.text
    })
  )
