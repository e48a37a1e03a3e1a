/**
 * What a source directory stands at, as git knows it: the commit of its repository, what was changed since, and the same for
 * every submodule and nested repository in it.
 * Promise: the source is only read. Uncommitted work becomes a commit in a private repository beside (the source's objects,
 * index, configuration and references stay as they are), so that a clean checkout can stand exactly where the person stood.
 * Rules: W13, W16, C24, J2.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createWriteStream, existsSync } from "node:fs"
import { copyFile, mkdir, realpath, rm, stat, writeFile } from "node:fs/promises"
import { isAbsolute, join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type CommandResult, git, gitEnvironment, type ToolMissing, wasCutShort } from "../base/Command.ts"
import { errorFields } from "../base/CoppiceError.ts"
import { type Digest, digestJson } from "../base/Digest.ts"
import { join as joinPath, show, toBytes, type TreePath } from "../base/PathBytes.ts"

/** The source cannot be worked on as it is. Nothing was started or written; `reason` and the remedy say what to do. */
export class SourceUnusable extends Schema.TaggedError<SourceUnusable>()("SourceUnusable", {
  ...errorFields("SOURCE_UNUSABLE"),
  reason: Schema.Literals([
    "notFound",
    "notADirectory",
    "notARepository",
    "bare",
    "insideRepository",
    "noCommits",
    "noSuchCommit",
    "foreignOwner",
    "gitRefused",
    "changing"
  ]),
  /** Of the source: "" is the outermost repository. */
  part: Schema.String
}) {}

/** One repository of the source. */
export interface SourcePart {
  /** Where it lies in the source; "" for the outermost. One character per byte. */
  readonly path: TreePath
  /** What it stands at. */
  readonly commit: string
  /** The commit, in `store`, that holds the working tree as it is; null when nothing differs from `commit`. */
  readonly state: string | null
  /** How many files differ, untracked ones that are not ignored included. */
  readonly changes: number
  /** Some of those by name, for people: at most 20. */
  readonly examples: readonly string[]
  /** The private repository that holds `state`, by its name in the directory that was given. */
  readonly store: string
}

export interface SourceState {
  /** The commit of the outermost repository. */
  readonly commit: string
  /** The branch that it has checked out; null for a detached HEAD. */
  readonly branch: string | null
  /** Its history is cut off (`git clone --depth`): so is that of every clean checkout. */
  readonly shallow: boolean
  /** Outermost first, then by path. */
  readonly parts: readonly SourcePart[]
  /** What a clean checkout cannot have, in words; empty when it has everything. */
  readonly notes: readonly string[]
}

/** Two readings of a source agree when nothing that git sees has changed in between. */
export const stateDigest = (state: SourceState): Digest => digestJson(JSON.parse(JSON.stringify(state)) as never)

/** True when the source holds work that no commit of its own holds. */
export const isDirty = (state: SourceState): boolean => state.parts.some((part) => part.state !== null)

/** Settings of the user's repository that must not run programs or write beside it while it is read. */
const quiet = [
  "-c",
  "core.fsmonitor=false",
  "-c",
  "core.untrackedCache=false",
  "-c",
  "core.hooksPath=/dev/null",
  "-c",
  "core.splitIndex=false"
]

const identityOfState = {
  GIT_AUTHOR_NAME: "coppice",
  GIT_AUTHOR_EMAIL: "",
  GIT_AUTHOR_DATE: "@0 +0000",
  GIT_COMMITTER_NAME: "coppice",
  GIT_COMMITTER_EMAIL: "",
  GIT_COMMITTER_DATE: "@0 +0000"
}

const unusable = (reason: SourceUnusable["reason"], part: TreePath, message: string, remedy: string): SourceUnusable =>
  new SourceUnusable({ reason, part: show(part).path, message, remedy })

const firstLine = (text: string): string =>
  (text.split("\n").find((line) => line.trim() !== "") ?? "").replace(/'?\/[^\s']+'?/g, "…").slice(0, 200)

/** Why git does not take a directory for a repository. */
const notUsable = (part: TreePath, stderr: string): SourceUnusable => {
  if (stderr.includes("dubious ownership")) {
    return unusable(
      "foreignOwner",
      part,
      "The source belongs to another user, and git does not read it for this one.",
      "Run as the user who owns the source, or change its owner; git's `safe.directory` is not read here."
    )
  }
  return unusable(
    "notARepository",
    part,
    "The source is not a git repository.",
    "Name a directory with a repository, or run `git init` and commit once."
  )
}

const refusedBy = (command: string, part: TreePath, { stderr }: CommandResult): SourceUnusable =>
  unusable(
    "gitRefused",
    part,
    `git ${command} failed on the source: ${firstLine(stderr)}`,
    "Run the same git command there; when it works for you, this one works too."
  )

/** A git whose code may be an answer. One that was ended has answered nothing. */
const ask = (directory: string, part: TreePath, args: readonly [string, ...string[]]) =>
  Effect.flatMap(git([...quiet, "-C", directory, ...args]), (result) =>
    wasCutShort(result) ? Effect.fail(refusedBy(args[0], part, result)) : Effect.succeed(result)
  )

const must = (
  directory: string,
  part: TreePath,
  args: readonly [string, ...string[]],
  { env = {}, input = "" }: { readonly env?: Record<string, string>; readonly input?: Uint8Array | string } = {}
) =>
  Effect.flatMap(
    git([...quiet, "-C", directory, ...args], { env: { ...gitEnvironment(), ...env }, input }),
    (result) => (result.code === 0 ? Effect.succeed(result.stdout) : Effect.fail(refusedBy(args[0], part, result)))
  )

const text = (bytes: Buffer): string => bytes.toString("utf8").trimEnd()
const names = (bytes: Buffer): TreePath[] =>
  bytes
    .toString("latin1")
    .split("\0")
    .filter((name) => name !== "")

/** Checks that the directory is the root of a repository with work in it, and gives the commit of `wanted`. */
const standing = (directory: string, part: TreePath, wanted: string) =>
  Effect.gen(function* () {
    const asked = yield* ask(directory, part, ["rev-parse", "--is-bare-repository", "--show-prefix"])
    if (asked.code !== 0) return yield* notUsable(part, asked.stderr)
    const [bare, prefix] = asked.stdout.toString("utf8").split("\n")
    if (bare === "true") {
      return yield* unusable(
        "bare",
        part,
        "The source is a bare repository: it has no files to work on.",
        "Clone it, and name the clone."
      )
    }
    if (prefix !== "") {
      return yield* unusable(
        "insideRepository",
        part,
        "The source is a directory inside a repository, not its root.",
        "Name the root of the repository; commands can change into the directory themselves."
      )
    }
    const name = `${wanted}^{commit}`
    const head = yield* ask(directory, part, ["rev-parse", "--verify", "--quiet", "--end-of-options", name])
    if (head.code === 0) return text(head.stdout)
    if (wanted !== "HEAD") {
      return yield* unusable(
        "noSuchCommit",
        part,
        "The source has no such commit.",
        "Give a commit of the source, or leave `base` out for its HEAD."
      )
    }
    return yield* unusable(
      "noCommits",
      part,
      "The source has no commit yet.",
      "Commit once: patches are made against a commit."
    )
  })

/** Where git keeps something of a repository, as an absolute path. */
const gitPath = (directory: string, part: TreePath, name: string) =>
  Effect.map(must(directory, part, ["rev-parse", "--git-path", name]), (bytes) => {
    const path = bytes.toString("utf8").replace(/\n$/, "")
    return isAbsolute(path) ? path : join(directory, path)
  })

/** A path as git reads it in a list of object directories, where `:` and line ends separate (gitrepository-layout(5)). */
const listed = (path: string): string => `"${path.replace(/[\\"]/g, "\\$&").replaceAll("\n", "\\n")}"`

/** An empty private repository with a copy of the source's index. */
const makeStore = (directory: string, part: TreePath, store: string) =>
  Effect.gen(function* () {
    const index = yield* gitPath(directory, part, "index")
    const format = text(yield* must(directory, part, ["rev-parse", "--show-object-format"]))
    yield* Effect.promise(() => rm(store, { recursive: true, force: true }))
    yield* must(".", part, ["init", "-q", "--bare", "--template=", `--object-format=${format}`, store])
    yield* Effect.promise(async () => {
      // Its times let git see at a glance what has not changed.
      await copyFile(index, join(store, "index")).catch(() => undefined)
    })
  })

/**
 * Files whose changes the person told git not to look for (assume-unchanged, skip-worktree) are looked at here: attempts see
 * them as they are. What a sparse checkout left out is not there, and stays as it was.
 */
const lookAtAll = (directory: string, part: TreePath, env: Record<string, string>) =>
  Effect.gen(function* () {
    const tagged = names(yield* must(directory, part, ["ls-files", "-v", "-z"], { env }))
    const hidden = tagged
      .filter((line) => /^[a-zS] /.test(line) && !line.endsWith("/"))
      .map((line) => line.slice(2))
      .filter((name) => existsSync(Buffer.concat([Buffer.from(`${directory}/`), toBytes(name)])))
    if (hidden.length === 0) return
    const input = Buffer.concat(hidden.map((name) => Buffer.concat([toBytes(name), Buffer.from("\0")])))
    for (const bit of ["--no-assume-unchanged", "--no-skip-worktree"]) {
      yield* must(directory, part, ["update-index", bit, "-z", "--stdin"], { env, input })
    }
  })

/** Writes the working tree as it is into the private repository, through the private index. */
const writeState = (directory: string, part: TreePath, commit: string, store: string, without: readonly TreePath[]) =>
  Effect.gen(function* () {
    const alternates = join(store, "objects", "info", "alternates")
    if (!existsSync(join(store, "index"))) yield* makeStore(directory, part, store)
    // While files are added the source's objects are out of reach: git sets the time of an object that it would write and finds.
    yield* Effect.promise(() => rm(alternates, { force: true }))
    const env = { GIT_INDEX_FILE: join(store, "index"), GIT_OBJECT_DIRECTORY: join(store, "objects") }
    yield* lookAtAll(directory, part, env)
    const pathspec = Buffer.concat([
      Buffer.from(".\0"),
      ...without.map((path) => Buffer.concat([Buffer.from(":(exclude,literal)"), toBytes(path), Buffer.from("\0")]))
    ])
    const added = yield* git(
      [
        ...quiet,
        "-c",
        "core.compression=1",
        "-c",
        "core.safecrlf=false",
        "-C",
        directory,
        "add",
        "-A",
        "--pathspec-from-file=-",
        "--pathspec-file-nul"
      ],
      { env: { ...gitEnvironment(), ...env }, input: pathspec }
    )
    if (added.code !== 0) {
      return yield* unusable(
        "gitRefused",
        part,
        `git cannot read the source's files: ${firstLine(added.stderr)}`,
        "Make them readable, or add them to .gitignore."
      )
    }
    const tree = text(yield* must(directory, part, ["write-tree", "--missing-ok"], { env }))
    const objects = yield* gitPath(directory, part, "objects")
    yield* Effect.promise(async () => {
      await mkdir(join(store, "objects", "info"), { recursive: true })
      await writeFile(alternates, `${listed(objects)}\n`)
    })
    const before = text(yield* must(directory, part, ["rev-parse", `${commit}^{tree}`]))
    if (tree === before) return { state: null, changed: [] as TreePath[] }
    const made = yield* must(
      directory,
      part,
      ["commit-tree", tree, "-p", commit, "-m", "The working tree as it was imported"],
      { env: { ...env, ...identityOfState } }
    )
    const state = text(made)
    yield* must(".", part, ["--git-dir", store, "update-ref", "refs/heads/state", state])
    const changed = yield* must(directory, part, ["diff-tree", "-r", "-z", "--name-only", commit, state], { env })
    return { state, changed: names(changed) }
  })

/** The directories below which other repositories lie: submodules that are checked out, and nested ones. */
const innerRepositories = (directory: string, part: TreePath) =>
  Effect.gen(function* () {
    const tracked = names(yield* must(directory, part, ["ls-files", "-s", "-z"]))
    const modules = tracked
      .filter((line) => line.startsWith("160000 "))
      .map((line) => line.slice(line.indexOf("\t") + 1))
    const others = names(yield* must(directory, part, ["ls-files", "--others", "--exclude-standard", "-z"]))
    const nested = others.filter((name) => name.endsWith("/")).map((name) => name.slice(0, -1))
    return { modules, nested }
  })

/** Paths of git's own tools are text: a repository below a name that is not UTF-8 cannot be named to them. */
const textPath = (root: string, path: TreePath): string | null => {
  const shown = show(path)
  return shown.pathBytes === undefined ? join(root, shown.path) : null
}

interface Reading {
  readonly parts: SourcePart[]
  readonly notes: string[]
}

const readPart = (
  root: string,
  path: TreePath,
  commit: string,
  stores: string,
  into: Reading
): Effect.Effect<void, SourceUnusable | ToolMissing> =>
  Effect.gen(function* () {
    const directory = join(root, show(path).path)
    const { modules, nested } = yield* innerRepositories(directory, path)
    const inner: { readonly path: TreePath; readonly commit: string }[] = []
    const without: TreePath[] = []
    for (const name of [...modules, ...nested]) {
      const at = joinPath(path, name)
      const place = textPath(root, at)
      if (place === null || !existsSync(join(place, ".git"))) {
        if (nested.includes(name)) without.push(name)
        else if (place !== null)
          into.notes.push(`The submodule ${show(at).path} is not checked out: it is empty here too.`)
        continue
      }
      const head = yield* Effect.result(standing(place, at, "HEAD"))
      if (head._tag === "Failure" && head.failure._tag === "SourceUnusable" && head.failure.reason === "gitRefused")
        return yield* head.failure
      if (head._tag === "Success") inner.push({ path: at, commit: head.success })
      else {
        if (nested.includes(name)) without.push(name)
        into.notes.push(
          `The repository ${show(at).path} inside the source has no commit that git gives out: a clean checkout lacks it.`
        )
      }
    }
    const store = `${into.parts.length}.git`
    const { state, changed } = yield* writeState(directory, path, commit, join(stores, store), without)
    // A pointer to another commit of an inner repository is no change of a file: that repository is a part of its own.
    const files = changed.filter((name) => !modules.includes(name) && !nested.includes(name))
    into.parts.push({
      path,
      commit,
      state,
      changes: files.length,
      examples: files.slice(0, 20).map((name) => show(name).path),
      store
    })
    for (const part of inner) yield* readPart(root, part.path, part.commit, stores, into)
  })

/** Refuses what `readSourceState` would refuse at once, and writes nothing. */
export const standsAt = (source: string, base?: string): Effect.Effect<string, SourceUnusable | ToolMissing> =>
  Effect.flatMap(sourceRoot(source), (root) => standing(root, "", base ?? "HEAD"))

/**
 * Reads what the source stands at. `stores` is a private directory (made when missing) for the repositories that hold
 * uncommitted work; one that holds an earlier reading is used again, which costs only what has changed since. `base` is the
 * commit that patches are made against, HEAD unless given.
 *
 * Fails with `SourceUnusable` (see its reason and remedy) and `ToolMissing` (install git). Costs what `git status` costs, and
 * the compression of what is not committed.
 */
export const readSourceState = (
  source: string,
  stores: string,
  base?: string
): Effect.Effect<SourceState, SourceUnusable | ToolMissing> =>
  Effect.gen(function* () {
    const root = yield* sourceRoot(source)
    const commit = yield* standing(root, "", base ?? "HEAD")
    const branch = yield* ask(root, "", ["symbolic-ref", "--quiet", "--short", "HEAD"])
    const shallow = text(yield* must(root, "", ["rev-parse", "--is-shallow-repository"])) === "true"
    yield* Effect.promise(() => mkdir(stores, { recursive: true, mode: 0o700 }))
    const into: Reading = { parts: [], notes: [] }
    yield* readPart(root, "", commit, stores, into)
    const [outer, ...inner] = into.parts
    return {
      commit,
      branch: branch.code === 0 ? text(branch.stdout) : null,
      shallow,
      parts: [outer!, ...inner.sort((a, b) => (a.path < b.path ? -1 : 1))],
      notes: into.notes
    }
  })

/** The real path of the source, when it is a directory. */
export const sourceRoot = (source: string): Effect.Effect<string, SourceUnusable> =>
  Effect.gen(function* () {
    const found = yield* Effect.promise(() =>
      stat(source).then(
        (it) => (it.isDirectory() ? ("directory" as const) : ("other" as const)),
        () => "nothing" as const
      )
    )
    if (found === "directory") return yield* Effect.promise(() => realpath(source))
    return yield* found === "other"
      ? unusable("notADirectory", "", "The source is not a directory.", "Name the directory of a git repository.")
      : unusable("notFound", "", "The source does not exist.", "Name the directory of a git repository.")
  })

/**
 * The uncommitted work of one part as a patch file that `git apply` takes, for people and other machines. Streamed: a large
 * untracked file is in it as a binary. False when there is nothing to write.
 */
export const writeStatePatch = (
  { state, ...part }: SourcePart,
  stores: string,
  file: string
): Effect.Effect<boolean, SourceUnusable> =>
  state === null
    ? Effect.succeed(false)
    : Effect.tryPromise({
        try: async () => {
          const shape =
            "--no-renames --no-ext-diff --no-textconv --no-color --full-index --binary --ignore-submodules=all"
          const range = [part.commit, state]
          const child = spawn(
            "git",
            ["--git-dir", join(stores, part.store), "diff-tree", "-r", "-p", ...shape.split(" "), ...range],
            { env: gitEnvironment(), stdio: ["ignore", "pipe", "ignore"] }
          )
          const out = createWriteStream(file, { mode: 0o600 })
          child.stdout.pipe(out)
          const [[code]] = await Promise.all([once(child, "close"), once(out, "close")])
          if (code !== 0) throw new Error("git diff-tree failed")
          return (await stat(file)).size > 0
        },
        catch: () =>
          unusable("gitRefused", part.path, "The uncommitted work could not be written as a patch.", "Free disk space.")
      })
