/** Repositories that would have bytes changed, programs run or files lost, and sources of every kind. Rules: GW1, GW2, W13; C24, C35, C37. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import {
  failure,
  forkOf,
  git,
  imported,
  picture,
  providerOn,
  put,
  repository,
  run,
  scratch,
  shell,
  using
} from "./ground.ts"

const exported = async (source: string, change = "true") => {
  const { provider, receipt, store } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  await using(provider, branch, async (workspace) => {
    await shell(workspace, change)
    await run(workspace.checkpoint({}))
  })
  const target = join(scratch(), "export")
  await run(provider.exportDirectory(branch, target))
  return { provider, receipt, store, target, branch }
}

/** Contents of every file, the user's `.git` apart. */
const contents = (directory: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(picture(directory, (path) => path === ".git")).map(([path, what]) => [path, what.split(" ")[2]!])
  )

it("GW2 no attribute, filter or setting changes a byte, and no program that they name is run", async () => {
  const marks = scratch()
  const mark = (name: string): string => `touch ${marks}/${name}; cat`
  const source = repository({
    ".gitattributes":
      "* text eol=crlf ident filter=evil\n*.u16 working-tree-encoding=UTF-16LE\nsub export-ignore\nv export-subst\n",
    lf: "a\nb\n",
    crlf: "a\r\nb\r\n",
    id: "$Id$ $Id: 123 $\n",
    "x.u16": Buffer.from("tëxt\n", "utf16le"),
    v: "$Format:%H$\n"
  })
  git(source, "config", "core.autocrlf", "true")
  for (const name of ["clean", "smudge"]) git(source, "config", `filter.evil.${name}`, mark(name))
  git(source, "config", "core.fsmonitor", mark("fsmonitor"))
  git(source, "config", "core.hooksPath", join(marks, "hooks"))
  put(marks, {
    "hooks/post-checkout": `#!/bin/sh\n${mark("hook")}\n`,
    "hooks/reference-transaction": `#!/bin/sh\n${mark("hook")}\n`
  })
  for (const name of fs.readdirSync(join(marks, "hooks"))) fs.chmodSync(join(marks, "hooks", name), 0o755)
  const before = contents(source)
  const { target } = await exported(source, `printf 'c\\r\\nd\\n$Id$' > made`)
  expect(contents(target)).toEqual({ ...before, made: expect.any(String) })
  expect(fs.readFileSync(join(target, "made"), "latin1")).toBe("c\r\nd\n$Id$")
  expect(fs.readdirSync(marks)).toEqual(["hooks"])
}, 120_000)

it("GW1 a source that git calls clean under its filters is clean inside", async () => {
  const source = repository({ ".gitattributes": "*.txt text eol=crlf\n", "a.txt": "a\nb\n" })
  fs.rmSync(join(source, "a.txt"))
  git(source, "checkout", "a.txt")
  fs.utimesSync(join(source, "a.txt"), 1_000_000_000, 1_000_000_000)
  git(source, "status")
  expect([fs.readFileSync(join(source, "a.txt"), "latin1"), git(source, "status", "--porcelain")]).toEqual([
    "a\r\nb\r\n",
    ""
  ])
  const { provider, receipt } = await imported(source)
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    expect(await shell(workspace, "git status --porcelain; git diff-files; git ls-files -m")).toBe("")
  })
}, 120_000)

it("GW2 C24 nested repositories, and names that git keeps for itself, come back byte for byte", async () => {
  const source = repository({ a: "a\n" })
  const nested = join(source, "deep/nested")
  fs.mkdirSync(nested, { recursive: true })
  git(nested, "init", "-q")
  put(nested, { n: "n\n" })
  git(nested, "add", "n")
  git(nested, "commit", "-q", "-m", "nested")
  put(source, {
    "odd/.GIT/config": "not one\n",
    "odd/.git~kept/.git~kept": "named so\n",
    "odd/git~1": "short\n",
    "odd/.gitmodules": { link: "../a" },
    "odd/.gitattributes": { link: "/etc/passwd" },
    "odd/.git ": "blank\n"
  })
  const before = contents(source)
  const nestedBefore = picture(join(nested, ".git"))
  const { target, provider, branch } = await exported(
    source,
    "git -C deep/nested -c user.name=a -c user.email=a@b commit -q --allow-empty -m more"
  )
  const after = contents(target)
  for (const [path, what] of Object.entries(before)) {
    if (!path.startsWith("deep/nested/.git")) expect([path, after[path]]).toEqual([path, what])
  }
  expect(git(join(target, "deep/nested"), "log", "--format=%s")).toBe("more\nnested\n")
  expect(git(join(target, "deep/nested"), "fsck", "--strict")).toBe("")
  expect(picture(join(nested, ".git"))).toEqual(nestedBefore)
  await using(provider, branch, async (workspace) => {
    expect(await shell(workspace, "git -C deep/nested status --porcelain; git status --porcelain | head -1")).toBe(
      "?? deep/\n"
    )
  })
}, 120_000)

it("GW1 W13 what no worktree can be made of is refused with what to do, before anything is written", async () => {
  const plain = scratch()
  put(plain, { a: "a" })
  const unborn = scratch()
  git(unborn, "init", "-q")
  const bare = scratch()
  git(bare, "init", "-q", "--bare")
  const elsewhere = repository({ a: "a" })
  git(elsewhere, "config", "core.worktree", plain)
  const partial = repository({ a: "a" })
  git(partial, "config", "remote.origin.promisor", "true")
  const module = repository({ m: "m" }, {}, "module")
  const withModule = repository({ a: "a" })
  git(withModule, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", module, "module")
  git(withModule, "commit", "-q", "-m", "module")
  const inner = join(repository({ "inner/a": "a" }), "inner")
  const store = join(scratch(), "store")
  const provider = await providerOn(store)
  const told: unknown[] = []
  for (const source of [plain, unborn, bare, elsewhere, partial, withModule, inner]) {
    const before = picture(source)
    const error = (await failure(provider.importDirectory({ source }))) as {
      readonly code: string
      readonly reason: string
      readonly message: string
      readonly remedy: string
    }
    expect(error.remedy).toContain("layerfs")
    told.push([error.code, error.reason, error.message.includes("submodule"), error.message.includes("no commit")])
    expect(picture(source)).toEqual(before)
  }
  const refused = (reason: string, submodule = false, unbornHead = false) => [
    "IMPORT_REFUSED",
    reason,
    submodule,
    unbornHead
  ]
  expect(told).toEqual([
    refused("notARepository"),
    refused("notARepository", false, true),
    refused("notARepository"),
    refused("unsupportedRepository"),
    refused("unsupportedRepository"),
    refused("unsupportedRepository", true),
    refused("notARepository")
  ])
  expect(fs.readdirSync(join(store, "git-worktree/projects"))).toEqual([])
  // Put away, as the remedy says, it is no obstacle.
  git(withModule, "submodule", "--quiet", "deinit", "-f", "module")
  const { layer } = await run(provider.importDirectory({ source: withModule }))
  await using(provider, await forkOf(provider, layer), async (workspace) => {
    expect(await shell(workspace, "git status --porcelain; git submodule status")).toMatch(/^-[0-9a-f]{40} module\n$/)
  })
}, 120_000)

it("GW1 C37 other worktrees of the repository are left out and listed; one of them is a source like any other", async () => {
  const source = repository({ a: "a\n", ".gitignore": ".worktrees\nnode_modules\n" })
  git(source, "worktree", "add", "-q", ".worktrees/other", "-b", "other")
  put(source, {
    "node_modules/real/index.js": "1",
    "node_modules/linked": { link: "real" },
    "node_modules/absolute": { link: join(source, "a") },
    "node_modules/gone": { link: "../nowhere" },
    "node_modules/around": { link: ".." }
  })
  const other = join(source, ".worktrees/other")
  put(other, { untracked: "u\n" })
  const before = picture(source)
  const { provider, receipt } = await imported(source)
  expect(receipt.notes.filter(({ kind }) => kind === "skippedWorktree").map(({ path }) => path)).toEqual([
    { path: ".worktrees/other" }
  ])
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    expect(
      await shell(
        workspace,
        "ls -A .worktrees | wc -l; for l in node_modules/*; do readlink $l; done; git status --porcelain"
      )
    ).toBe(`0\n${join(source, "a")}\n..\n../nowhere\nreal\n`)
  })
  const { layer } = await run(provider.importDirectory({ source: other }))
  await using(provider, await forkOf(provider, layer), async (workspace) => {
    expect(await shell(workspace, "git status --porcelain; ls")).toBe("?? untracked\na\nuntracked\n")
  })
  expect(picture(source)).toEqual(before)
}, 120_000)

it("GW3 C35 a lock that a dead git left is told and waited for by nobody; one that a process holds is not called stale", async () => {
  const source = repository({ a: "a\n" })
  const lock = join(source, ".git/index.lock")
  fs.writeFileSync(lock, "")
  const { provider, receipt } = await imported(source)
  const staleOf = (notes: typeof receipt.notes) =>
    notes.filter(({ kind }) => kind === "staleLock").map(({ path }) => path)
  expect(staleOf(receipt.notes)).toEqual([{ path: ".git/index.lock" }])
  await using(provider, await forkOf(provider, receipt.layer), async (workspace) => {
    await shell(workspace, "echo b > b && git add b && git -c user.name=a -c user.email=a@b commit -qm b")
  })
  expect(fs.existsSync(lock)).toBe(true)
  const held = fs.openSync(lock, "r")
  try {
    expect(staleOf((await run(provider.importDirectory({ source }))).notes)).toEqual([])
  } finally {
    fs.closeSync(held)
  }
}, 120_000)

const kinds: Readonly<Record<string, (at: string) => string>> = {
  "a shallow clone": (at) => {
    const clone = join(scratch(), "clone")
    git(at, "commit", "-q", "--allow-empty", "-m", "second")
    execFileSync("git", ["clone", "-q", "--depth=1", `file://${at}`, clone], { stdio: "ignore" })
    return clone
  },
  "a sparse checkout": (at) => {
    git(at, "sparse-checkout", "set", "in")
    return at
  },
  "an index of version 4": (at) => {
    git(at, "update-index", "--index-version", "4")
    return at
  },
  "a split index": (at) => {
    git(at, "update-index", "--split-index")
    return at
  },
  "objects of another repository": (at) => {
    const clone = join(scratch(), "clone")
    execFileSync("git", ["clone", "-q", "--shared", at, clone], { stdio: "ignore" })
    return clone
  },
  "a merge in conflict": (at) => {
    git(at, "checkout", "-q", "-b", "side")
    put(at, { "in/file": "side\n" })
    git(at, "commit", "-qam", "side")
    git(at, "checkout", "-q", "main")
    put(at, { "in/file": "main\n" })
    git(at, "commit", "-qam", "main")
    expect(() => git(at, "merge", "-q", "side")).toThrow()
    return at
  },
  "flags in the index": (at) => {
    git(at, "update-index", "--assume-unchanged", "out/file")
    put(at, { new: "new\n" })
    git(at, "add", "-N", "new")
    return at
  },
  "packed references and a tag": (at) => {
    git(at, "tag", "-a", "v1", "-m", "v1")
    git(at, "branch", "bränch")
    git(at, "pack-refs", "--all")
    return at
  }
}

for (const [kind, prepare] of Object.entries(kinds)) {
  it(`GW1 GW2 ${kind}: git inside says what it says in the source, which is only read`, async () => {
    const at = repository({ "in/file": "in\n", "out/file": "out\n" })
    const source = prepare(at)
    const say = "git status --porcelain; git ls-files -s -v; git for-each-ref; git log --oneline"
    const said = execFileSync("sh", ["-c", say], {
      cwd: source,
      encoding: "utf8",
      env: { ...process.env, GIT_OPTIONAL_LOCKS: "0" }
    })
    const before = picture(source)
    const { provider, receipt } = await imported(source)
    const branch = await forkOf(provider, receipt.layer)
    await using(provider, branch, async (workspace) => {
      expect(await shell(workspace, say)).toBe(said)
      await run(workspace.write("changed", "c"))
      await run(workspace.checkpoint({}))
    })
    await using(provider, branch, async (workspace) => {
      expect(await shell(workspace, `rm changed; ${say}`)).toBe(said)
      await run(workspace.discard("looked"))
    })
    expect(picture(source)).toEqual(before)
  }, 120_000)
}

it("GW2 C18 a repository of sha256 is kept in its own kind", async () => {
  const source = join(scratch(), "project")
  fs.mkdirSync(source)
  git(source, "init", "-q", "--object-format=sha256")
  put(source, { a: "a\n" })
  git(source, "add", "a")
  git(source, "commit", "-q", "-m", "a")
  const { provider, receipt } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  await using(provider, branch, async (workspace) => {
    expect(await shell(workspace, "git status --porcelain; git rev-parse HEAD")).toBe(git(source, "rev-parse", "HEAD"))
    await shell(workspace, "echo b > a; git -c user.name=a -c user.email=a@b commit -qam b")
    await run(workspace.checkpoint({}))
  })
  await using(provider, branch, async (workspace) => {
    expect(await shell(workspace, "git log --format=%s; git status --porcelain")).toBe("b\na\n")
  })
  expect(await Effect.runPromise(provider.verify())).toMatchObject({ ok: true })
}, 120_000)
