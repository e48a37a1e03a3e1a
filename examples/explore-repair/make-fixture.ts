/**
 * Makes the repository that this example repairs: the files of fixture/, committed, installed and built.
 * Promise: real git, real npm, real dependencies; the commit has the same id on every machine; what it leaves in the
 * target is a rich tree (links, hard links, ignored files) as agents meet it. Rules: J2, E13 (downloads have a clock of their own).
 */
import { execFile } from "node:child_process"
import { cp, link, lstat, mkdir, readdir, symlink, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"

const files = fileURLToPath(new URL("fixture", import.meta.url))

/** Identity, date and settings that make the commit the same everywhere, whatever the user's own configuration says. */
const gitEnvironment = {
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "Ledger",
  GIT_AUTHOR_EMAIL: "ledger@example.invalid",
  GIT_AUTHOR_DATE: "2026-01-05T09:00:00Z",
  GIT_COMMITTER_NAME: "Ledger",
  GIT_COMMITTER_EMAIL: "ledger@example.invalid",
  GIT_COMMITTER_DATE: "2026-01-05T09:00:00Z"
}

export interface FixtureProgress {
  readonly phase: "copy" | "commit" | "download" | "build"
}

export interface Fixture {
  readonly path: string
  readonly commit: string
  /** Seconds that `npm ci` took, downloads included. */
  readonly downloadSeconds: number
  /** Seconds for everything else. */
  readonly prepareSeconds: number
  /** Files and links of the whole tree, installed dependencies and `.git` included. */
  readonly files: number
  /** Their sizes together; of hard links each name counts. */
  readonly bytes: number
}

const run = async (program: string, argv: readonly string[], cwd: string, env: Record<string, string> = {}) => {
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_")))
  const options = { cwd, env: { ...inherited, ...env }, maxBuffer: 64 * 1024 * 1024 }
  const { stdout } = await promisify(execFile)(program, argv, options)
  return stdout.trim()
}

const seconds = async (work: () => Promise<unknown>): Promise<number> => {
  const begun = performance.now()
  await work()
  return (performance.now() - begun) / 1000
}

/** Copies the files into the directory `target`, which must be empty or missing, and commits them. Returns the commit. */
export const commitFixture = async (target: string): Promise<string> => {
  await mkdir(target, { recursive: true })
  if ((await readdir(target)).length > 0) throw new Error("The directory for the fixture is not empty")
  await cp(files, target, {
    recursive: true,
    // What somebody built inside fixture/ itself is no part of it.
    filter: (path) => !/\/(node_modules|dist|\.cache)$|\.tsbuildinfo$/.test(path)
  })
  await run("git", ["init", "-q", "-b", "main", "--object-format=sha1"], target, gitEnvironment)
  await run("git", ["add", "-A"], target, gitEnvironment)
  await run("git", ["commit", "-q", "-m", "Ledger and gate"], target, gitEnvironment)
  return run("git", ["rev-parse", "HEAD"], target, gitEnvironment)
}

/** Ignored files of the kind that tools leave behind: a directory link, and one file under two names. */
const leaveCache = async (target: string): Promise<void> => {
  const runs = join(target, ".cache", "runs")
  await mkdir(join(runs, "1"), { recursive: true })
  await writeFile(join(runs, "1", "summary.json"), '{"tests":9,"failed":1}\n')
  await link(join(runs, "1", "summary.json"), join(target, ".cache", "last.json"))
  await symlink("1", join(runs, "latest"))
}

const measure = async (directory: string): Promise<{ files: number; bytes: number }> => {
  let count = 0
  let bytes = 0
  for (const entry of await readdir(directory, { withFileTypes: true, recursive: true })) {
    if (entry.isDirectory()) continue
    count += 1
    bytes += (await lstat(join(entry.parentPath, entry.name))).size
  }
  return { files: count, bytes }
}

/** Makes the repository in `target` with its dependencies installed and its packages built. */
export const makeFixture = async (
  target: string,
  options: { readonly onProgress?: (progress: FixtureProgress) => void } = {}
): Promise<Fixture> => {
  const report = options.onProgress ?? (() => {})
  let commit = ""
  const committing = await seconds(async () => {
    report({ phase: "copy" })
    commit = await commitFixture(target)
    report({ phase: "commit" })
  })
  report({ phase: "download" })
  const downloadSeconds = await seconds(() => run("npm", ["ci", "--prefer-offline", "--no-audit", "--no-fund"], target))
  report({ phase: "build" })
  const building = await seconds(async () => {
    await run("npm", ["run", "-s", "build"], target)
    await leaveCache(target)
  })
  return {
    path: target,
    commit,
    downloadSeconds,
    prepareSeconds: committing + building,
    ...(await measure(target))
  }
}
