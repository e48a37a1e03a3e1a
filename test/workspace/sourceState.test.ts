import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, describe, expect, it } from "vitest"
import { cleanCheckout } from "../../src/workspace/CleanCheckout.ts"
import { withGitEnded } from "../endedGit.ts"
import { isDirty, readSourceState, stateDigest, writeStatePatch } from "../../src/workspace/SourceState.ts"

const cleanups: string[] = []
afterEach(() => {
  for (const path of cleanups.splice(0)) rmSync(path, { recursive: true, force: true })
})

const git = (directory: string, ...args: string[]): string =>
  execFileSync(
    "git",
    [
      "-c",
      "user.name=t",
      "-c",
      "user.email=t@example.invalid",
      "-c",
      "protocol.file.allow=always",
      "-c",
      "maintenance.auto=false",
      ...args
    ],
    { cwd: directory, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }
  )

const put = (directory: string, files: Record<string, string>): void => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(directory, name, ".."), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
}

/** A root for scratch, and a repository in it with one commit. */
const ground = (files: Record<string, string> = { "a.txt": "a\n", ".gitignore": "ignored/\n" }, name = "source") => {
  const root = mkdtempSync(join(tmpdir(), "coppice-source-"))
  cleanups.push(root)
  const source = join(root, name)
  mkdirSync(source)
  git(source, "init", "-q", "-b", "main")
  put(source, files)
  git(source, "add", "-A")
  git(source, "commit", "-qm", "base")
  return { root, source, stores: join(root, "stores"), parent: root }
}

/** Every name, mode, time, link and content below a directory, `.git` included. */
const everything = (directory: string): string[] => {
  const lines: string[] = []
  const walk = (at: Buffer): void => {
    for (const name of readdirSync(at, { encoding: "buffer" }).toSorted(Buffer.compare)) {
      const path = Buffer.concat([at, Buffer.from("/"), name])
      const stat = lstatSync(path)
      const bytes = stat.isFile() ? readFileSync(path) : stat.isSymbolicLink() ? readlinkSync(path, "buffer") : name
      const digest = createHash("sha256").update(bytes).digest("hex").slice(0, 12)
      lines.push(`${path.toString("latin1").slice(directory.length)} ${stat.mode} ${stat.mtimeMs} ${digest}`)
      if (stat.isDirectory()) walk(path)
    }
  }
  walk(Buffer.from(directory))
  return lines
}

/** Files of a working tree without any `.git`. */
const files = (directory: string): Record<string, string> => {
  const found: Record<string, string> = {}
  const walk = (at: Buffer, shown: string): void => {
    for (const name of readdirSync(at, { encoding: "buffer" })) {
      if (name.toString() === ".git") continue
      const path = Buffer.concat([at, Buffer.from("/"), name])
      const inner = `${shown}${shown === "" ? "" : "/"}${name.toString("latin1")}`
      if (lstatSync(path).isDirectory()) walk(path, inner)
      else if (lstatSync(path).isSymbolicLink()) found[inner] = `-> ${readlinkSync(path)}`
      else found[inner] = readFileSync(path, "latin1")
    }
  }
  walk(Buffer.from(directory), "")
  return found
}

const read = (place: { source: string; stores: string }, base?: string) =>
  Effect.runPromise(readSourceState(place.source, place.stores, base))
const refused = (place: { source: string; stores: string }, base?: string) =>
  Effect.runPromise(Effect.flip(readSourceState(place.source, place.stores, base)))

/** What a clean checkout of the state holds. */
const checkedOut = async <A>(
  place: { source: string; stores: string; parent: string },
  look: (directory: string) => A
): Promise<A> => {
  const state = await read(place)
  return Effect.runPromise(
    Effect.scoped(
      Effect.map(
        cleanCheckout({
          repository: place.source,
          commit: state.commit,
          parent: place.parent,
          standing: { state, stores: place.stores }
        }),
        look
      )
    )
  )
}

describe("a source as somebody left it", () => {
  it("W13 W16 a clean one has no state of its own, and reading changes nothing in it", async () => {
    const place = ground()
    const before = everything(place.source)
    const state = await read(place)
    expect(state).toMatchObject({ branch: "main", shallow: false, notes: [] })
    expect(state.parts).toMatchObject([{ path: "", state: null, changes: 0 }])
    expect(isDirty(state)).toBe(false)
    expect(everything(place.source)).toEqual(before)
  })

  it("W13 W16 uncommitted work of every kind is in a clean checkout, as uncommitted work, and the source is untouched", async () => {
    const place = ground({
      "a.txt": "a\n",
      "gone.txt": "gone\n",
      "moved.txt": "moved\n",
      "script.sh": "true\n",
      ".gitignore": "ignored/\n"
    })
    put(place.source, { "a.txt": "staged\n" })
    git(place.source, "add", "a.txt")
    put(place.source, {
      "a.txt": "staged, then changed\n",
      "ignored/secret": "s",
      "new file\nwith a line": "new\n",
      binary: "\0\u0001"
    })
    writeFileSync(Buffer.concat([Buffer.from(`${place.source}/not-utf8-`), Buffer.from([0xff])]), "bytes\n")
    rmSync(join(place.source, "gone.txt"))
    git(place.source, "mv", "moved.txt", "moved-there.txt")
    chmodSync(join(place.source, "script.sh"), 0o755)
    symlinkSync("a.txt", join(place.source, "link"))
    git(place.source, "stash", "list")
    const before = everything(place.source)
    const state = await read(place)
    expect(everything(place.source)).toEqual(before)
    expect(state.parts[0]?.changes).toBe(9)
    const { files: seen, status } = await checkedOut(place, (directory) => ({
      files: files(directory),
      status: git(directory, "status", "--porcelain", "-z", "--no-renames").split("\0").toSorted()
    }))
    const { "ignored/secret": _, ...expected } = files(place.source)
    expect(seen).toEqual(expected)
    expect(status).toContain(" M a.txt")
    expect(status).toContain("?? binary")
    expect(status).toContain(" D gone.txt")
    // Two readings of the same state agree; a further change is another state.
    expect(stateDigest(await read(place))).toBe(stateDigest(state))
    put(place.source, { "a.txt": "and again\n" })
    expect(stateDigest(await read(place))).not.toBe(stateDigest(state))
  })

  it("W13 W16 changes that git was told not to look for count too, a split index is read and not written, and what is sparse stays out", async () => {
    const place = ground({ "a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n", "d.txt": "d\n" })
    git(place.source, "config", "core.splitIndex", "true")
    git(place.source, "update-index", "--split-index")
    put(place.source, { "a.txt": "a2\n", "b.txt": "b2\n", "new.txt": "new\n" })
    git(place.source, "update-index", "--assume-unchanged", "a.txt")
    git(place.source, "update-index", "--skip-worktree", "b.txt", "c.txt")
    rmSync(join(place.source, "c.txt"))
    const names = () => readdirSync(join(place.source, ".git")).toSorted()
    const before = names()
    const state = await read(place)
    expect(names()).toEqual(before)
    expect(state.parts[0]?.examples).toEqual(["a.txt", "b.txt", "new.txt"])
    expect(await Effect.runPromise(writeStatePatch(state.parts[0]!, place.stores, join(place.root, "p")))).toBe(true)
    expect(await checkedOut(place, files)).toEqual({ ...files(place.source), "c.txt": "c\n" })
  })

  it("W16 the uncommitted work is also a patch that applies to a plain clone", async () => {
    const place = ground()
    put(place.source, { "a.txt": "changed\n", "new.txt": "new\n", binary: "\0\u0001" })
    const state = await read(place)
    const patch = join(place.root, "base.patch")
    expect(await Effect.runPromise(writeStatePatch(state.parts[0]!, place.stores, patch))).toBe(true)
    git(place.root, "clone", "-q", place.source, "clone")
    git(join(place.root, "clone"), "apply", patch)
    expect(files(join(place.root, "clone"))).toEqual(files(place.source))
  })

  it("C24 W16 submodules and nested repositories are parts with commits and work of their own; one without commits is said to be missing", async () => {
    const inner = ground({ "s.txt": "s\n" }, "inner")
    const place = ground()
    git(place.source, "submodule", "add", "-q", inner.source, "sub")
    git(place.source, "commit", "-qm", "sub")
    const nested = join(place.source, "nested")
    mkdirSync(nested)
    git(nested, "init", "-q")
    put(nested, { "n.txt": "n\n" })
    git(nested, "add", "-A")
    git(nested, "commit", "-qm", "n")
    put(place.source, { "sub/s.txt": "changed in the submodule\n", "nested/untracked.txt": "u\n", "a.txt": "a2\n" })
    const empty = join(place.source, "empty")
    mkdirSync(empty)
    git(empty, "init", "-q")
    put(empty, { x: "x" })
    const before = everything(place.source)
    const state = await read(place)
    expect(everything(place.source)).toEqual(before)
    expect(state.parts.map(({ path, changes }) => [path, changes])).toEqual([
      ["", 1],
      ["nested", 1],
      ["sub", 1]
    ])
    expect(state.notes).toEqual([expect.stringContaining("empty")])
    const seen = await checkedOut(place, files)
    const { "empty/x": _, ...expected } = files(place.source)
    expect(seen).toEqual(expected)
  })

  it("C24 a submodule at another commit than its repository names, and one that was never checked out", async () => {
    const inner = ground({ "s.txt": "s\n" }, "inner")
    const place = ground()
    git(place.source, "submodule", "add", "-q", inner.source, "sub")
    git(place.source, "submodule", "add", "-q", inner.source, "absent")
    git(place.source, "commit", "-qm", "subs")
    git(place.source, "submodule", "deinit", "-q", "-f", "absent")
    put(place.source, { "sub/s.txt": "s2\n" })
    git(join(place.source, "sub"), "commit", "-qam", "ahead")
    const state = await read(place)
    expect(state.notes).toEqual([expect.stringContaining("absent")])
    expect(state.parts.map(({ path }) => path)).toEqual(["", "sub"])
    const seen = await checkedOut(place, files)
    expect(seen["sub/s.txt"]).toBe("s2\n")
    expect(seen["absent/s.txt"]).toBeUndefined()
  })

  it("W16 a detached head, a shallow clone, a linked worktree and an odd path are sources like any other", async () => {
    const place = ground({ "a.txt": "1\n" }, "odd \"name'\nwith: a line")
    put(place.source, { "a.txt": "2\n" })
    git(place.source, "commit", "-qam", "two")
    git(place.source, "checkout", "-q", "--detach", "HEAD^")
    put(place.source, { "a.txt": "dirty\n" })
    expect(await read(place)).toMatchObject({ branch: null, shallow: false })
    expect(await checkedOut(place, files)).toEqual({ "a.txt": "dirty\n" })

    const shallow = { ...place, source: join(place.root, "shallow"), stores: join(place.root, "stores-shallow") }
    git(place.root, "clone", "-q", "--depth", "1", "--branch", "main", `file://${encodeURI(place.source)}`, "shallow")
    put(shallow.source, { "b.txt": "b\n" })
    expect(await read(shallow)).toMatchObject({ branch: "main", shallow: true })
    expect(await checkedOut(shallow, files)).toEqual({ "a.txt": "2\n", "b.txt": "b\n" })

    const tree = { ...place, source: join(place.root, "tree"), stores: join(place.root, "stores-tree") }
    git(place.source, "worktree", "add", "-q", tree.source, "main")
    put(tree.source, { "c.txt": "c\n" })
    expect(await read(tree)).toMatchObject({ branch: "main" })
    expect(await checkedOut(tree, files)).toEqual({ "a.txt": "2\n", "c.txt": "c\n" })
  })

  it("W16 with another base commit, what differs from that one is the uncommitted work", async () => {
    const place = ground({ "a.txt": "1\n" })
    put(place.source, { "a.txt": "2\n", "b.txt": "b\n" })
    git(place.source, "add", "-A")
    git(place.source, "commit", "-qm", "two")
    const state = await read(place, "HEAD^")
    expect(state.parts).toMatchObject([{ changes: 2, examples: ["a.txt", "b.txt"] }])
    expect(state.commit).toBe(git(place.source, "rev-parse", "HEAD^").trim())
  })

  it("W13 what is no source is refused with a reason and a remedy, and nothing is written", async () => {
    const place = ground()
    const at = (name: string) => ({ source: join(place.root, name), stores: place.stores })
    mkdirSync(join(place.root, "plain"))
    mkdirSync(join(place.source, "inside"))
    writeFileSync(join(place.root, "file"), "")
    git(place.root, "init", "-q", "no-commits")
    git(place.root, "init", "-q", "--bare", "bare")
    const cases: readonly (readonly [{ source: string; stores: string }, string])[] = [
      [at("missing"), "notFound"],
      [at("file"), "notADirectory"],
      [at("plain"), "notARepository"],
      [at("no-commits"), "noCommits"],
      [at("bare"), "bare"],
      [at("source/inside"), "insideRepository"]
    ]
    for (const [source, reason] of cases) {
      const error = await refused(source)
      expect([source.source, error]).toEqual([
        source.source,
        expect.objectContaining({ reason, code: "SOURCE_UNUSABLE" })
      ])
      expect(error.remedy).not.toBe("")
      expect(error.message).not.toContain(place.root)
    }
    expect(await refused(place, "nosuch")).toMatchObject({ reason: "noSuchCommit" })
    expect(existsSync(place.stores)).toBe(false)
  })

  it.skipIf(process.getuid?.() !== 0)("W13 a source of another user is refused with the reason", async () => {
    const place = ground()
    execFileSync("chown", ["-R", "20123:20123", place.source])
    expect(await refused(place)).toMatchObject({ reason: "foreignOwner" })
  })

  it("K3 W13 a source whose git is ended is refused as such: not as empty, without repositories inside it, or as unchanged", async () => {
    const inner = ground({ "s.txt": "s\n" }, "inner")
    const place = ground()
    git(place.root, "clone", "-q", inner.source, join(place.source, "nested"))
    git(place.source, "update-index", "--assume-unchanged", "a.txt")
    put(place.source, { "a.txt": "changed\n" })
    for (const when of [
      '*" --show-prefix "*',
      '*" --verify "*',
      '*"/nested "*" --show-prefix "*',
      '*"/nested "*" --verify "*',
      '*" symbolic-ref "*',
      '*" update-index "*'
    ]) {
      const failed = await withGitEnded(when, 0, () => refused(place))
      expect(failed, when).toMatchObject({ reason: "gitRefused", message: expect.stringContaining("SIGKILL") })
    }
    const state = await read(place)
    expect(state.parts.map(({ path, changes }) => [path, changes])).toEqual([
      ["", 1],
      ["nested", 0]
    ])
  })
})
