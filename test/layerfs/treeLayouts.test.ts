/** Trees as tools lay them out: packages, environments, build directories, repositories in one another. Rules: W13, W22, L15; C22, C24. */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it, vi } from "vitest"
import type { ImportReceipt, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { forkOf, providerOn, run, scratch, shell, treeAt, using, write } from "./projFixture.ts"
import { comparable, readTree } from "./storeFixture.ts"
import { oneFile } from "../oneFile.ts"

// Each test runs git, Python and whole child processes; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 240_000 })

const imported = async (
  source: string
): Promise<{ provider: WorkspaceProvider; receipt: ImportReceipt; store: string }> => {
  const store = join(scratch(), "store")
  const provider = await providerOn(store)
  return { provider, store, receipt: await run(provider.importDirectory({ source })) }
}

/** Names that share a file, by the first of them. */
const groupsOf = (root: string): string[][] => {
  const byInode = new Map<bigint, string[]>()
  for (const [path, { inode, links }] of readTree(root)) {
    if (links > 1n) byInode.set(inode, [...(byInode.get(inode) ?? []), path])
  }
  return [...byInode.values()].filter((names) => names.length > 1).sort()
}

const git = (at: string, ...args: string[]): string =>
  execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always", ...args], {
    cwd: at,
    encoding: "utf8"
  })

const repository = (at: string, files: Readonly<Record<string, string>>): void => {
  fs.mkdirSync(at, { recursive: true })
  write(at, files)
  git(at, "init", "-q", "-b", "main")
  git(at, "add", "-A")
  git(at, "commit", "-qm", "first")
}

/** Everything in or below a `.git`, with modes and bytes. */
const gitsOf = (root: string): Record<string, string> =>
  Object.fromEntries(Object.entries(comparable(readTree(root))).filter(([path]) => `/${path}/`.includes("/.git/")))

describe("layouts", () => {
  it("W13 C22 pnpm, Yarn PnP, npm link, a Python venv and a Cargo target run from a fork at their own path, and come back exactly", async () => {
    const outside = scratch()
    write(outside, {
      "store/odd.js": "module.exports = (n) => n % 2 === 1",
      "linked/index.js": "module.exports = 'linked'"
    })
    const source = join(scratch(), "project")
    write(source, {
      "app.js": "console.log(require('odd')(3), require('even')(3), require('plain'))",
      // pnpm: real files as hard links into a store outside, packages as links into node_modules/.pnpm.
      "node_modules/.pnpm/even@1/node_modules/even/index.js":
        "const odd = require('odd'); module.exports = (n) => !odd(n)",
      "node_modules/.pnpm/even@1/node_modules/odd": { link: "../../odd@1/node_modules/odd" },
      "node_modules/.pnpm/odd@1/node_modules/odd/package.json": "{}",
      "node_modules/odd": { link: ".pnpm/odd@1/node_modules/odd" },
      "node_modules/even": { link: ".pnpm/even@1/node_modules/even" },
      "node_modules/plain/index.js": "module.exports = 'plain'",
      // npm link: a package that lies elsewhere.
      "node_modules/linked": { link: join(outside, "linked") },
      // Yarn: node_modules of a workspace, or a cache of archives and a resolver.
      "yarn/.yarn/cache/left-pad-npm-1.zip": Buffer.from("PK\x03\x04zip", "latin1"),
      "yarn/.pnp.cjs": "module.exports = 'resolver'",
      "yarn/packages/a/node_modules/.bin/tool": { link: "../tool/cli.js" },
      "yarn/packages/a/node_modules/tool/cli.js": "#!/usr/bin/env node\nconsole.log('tool')",
      // Cargo: what is built is linked up from deps.
      "target/debug/deps/app-1f": "binary",
      "target/debug/app": { hard: "target/debug/deps/app-1f" },
      "target/debug/deps/liblib-2a.rlib": "lib",
      "target/debug/liblib.rlib": { hard: "target/debug/deps/liblib-2a.rlib" },
      "target/debug/incremental/x/query-cache.bin": "cache"
    })
    fs.linkSync(join(outside, "store/odd.js"), join(source, "node_modules/.pnpm/odd@1/node_modules/odd/index.js"))
    fs.chmodSync(join(source, "yarn/packages/a/node_modules/tool/cli.js"), 0o755)
    execFileSync("python3", ["-m", "venv", "--without-pip", join(source, "venv")])
    fs.writeFileSync(join(source, "venv/bin/greet"), `#!${source}/venv/bin/python3\nimport sys; print(sys.prefix)\n`, {
      mode: 0o755
    })

    const { provider, receipt } = await imported(source)
    expect(receipt.hardLinkGroups).toBe(2)
    expect(receipt.noteCounts).toMatchObject({ linkedPackage: 1, virtualEnvironment: 1, normalised: 1 })
    expect(receipt.notes.filter(({ kind }) => kind === "linkedPackage").map(({ path }) => path.path)).toEqual([
      "node_modules/linked"
    ])
    const branch = await forkOf(provider, receipt.layer)
    await using(provider, branch, {}, async (workspace) => {
      expect(workspace.path).toBe(source)
      const node = `'${process.execPath}'`
      expect(await shell(workspace, `${node} app.js`)).toBe("true false plain\n")
      expect(await shell(workspace, `${node} -p 'require("./yarn/.pnp.cjs")'`)).toBe("resolver\n")
      expect(await shell(workspace, `${node} yarn/packages/a/node_modules/.bin/tool`)).toBe("tool\n")
      expect(await shell(workspace, "venv/bin/greet")).toBe(`${source}/venv\n`)
      expect(await shell(workspace, "stat -c %h target/debug/app node_modules/odd/index.js")).toBe("2\n1\n")
      await shell(workspace, "rm -rf venv/lib/*/site-packages/__pycache__")
      // Neither running nor reading is a change.
      expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "unchanged" })
    })
    const target = join(scratch(), "out")
    await run(provider.exportDirectory(receipt.commit, target))
    expect(comparable(readTree(target))).toEqual(comparable(readTree(source)))
    expect(groupsOf(target)).toEqual([
      ["target/debug/app", "target/debug/deps/app-1f"],
      ["target/debug/deps/liblib-2a.rlib", "target/debug/liblib.rlib"]
    ])
  })

  it("W22 500 hard-link groups across directories keep exactly their names, and a group of which one name lies outside is none", async () => {
    const source = scratch()
    fs.mkdirSync(join(source, "a/b/c"), { recursive: true })
    for (let i = 0; i < 500; i += 1) {
      fs.writeFileSync(join(source, "a/b/c", `f${i}`), `${i}`)
      fs.linkSync(join(source, "a/b/c", `f${i}`), join(source, "a", `g${499 - i}`))
      if (i % 5 === 0) fs.linkSync(join(source, "a", `g${499 - i}`), join(source, `h${i}`))
    }
    const { provider, receipt } = await imported(source)
    expect(receipt).toMatchObject({ hardLinkGroups: 500, noteCounts: {} })
    const target = join(scratch(), "out")
    await run(provider.exportDirectory(receipt.commit, target))
    expect(groupsOf(target)).toEqual(groupsOf(source))
    const part = await imported(join(source, "a/b"))
    expect(part.receipt).toMatchObject({ hardLinkGroups: 0, files: 500, noteCounts: { normalised: 1 } })
    expect(part.receipt.notes[0]!.detail).toContain("500 files")
  })
})

describe("repositories in one another", () => {
  it.each(["layerfs.commit.packSynced", "layerfs.commit.committed"])(
    "C24 a kill at %s of a checkpoint leaves every .git of nested repositories and submodules byte-equal, here and in the origin",
    async (point) => {
      const root = scratch()
      const source = join(root, "outer")
      repository(join(root, "library"), { "lib.txt": "library" })
      repository(source, { "top.txt": "top", ".gitignore": "nested\n" })
      git(source, "submodule", "--quiet", "add", join(root, "library"), "sub")
      git(source, "commit", "-qm", "submodule")
      repository(join(source, "nested"), { "in.txt": "nested" })
      repository(join(source, "nested/deeper"), { "in.txt": "deeper" })
      git(join(source, "nested"), "worktree", "add", "-q", "../tree", "-b", "side")
      const before = gitsOf(source)
      expect(Object.keys(before)).toEqual(expect.arrayContaining(["sub/.git", "tree/.git", "nested/deeper/.git/HEAD"]))

      const { provider, receipt, store } = await imported(source)
      // The submodule and the worktree point to git directories that came along; a clone from a path shares objects by hard links.
      expect(receipt.noteCounts).toEqual({ normalised: 1 })
      const branch = await forkOf(provider, receipt.layer)
      const victim = await oneFile(join(import.meta.dirname, "projVictim.ts"))
      const killed = spawnSync(process.execPath, [victim, store, branch, "close"], {
        encoding: "utf8",
        env: { ...process.env, COPPICE_CRASH_AT: point }
      })
      expect([killed.signal, killed.stderr]).toEqual(["SIGKILL", ""])
      expect(gitsOf(source)).toEqual(before)

      const saved = await run(provider.findOperation("op-close"))
      expect(saved.state).toBe(point === "layerfs.commit.committed" ? "recorded" : "absent")
      const [left] = await run(provider.left)
      const recovered = await run(provider.recover(left!.id))
      for (const ref of [branch, recovered.branch]) {
        const target = join(scratch(), "out")
        await run(provider.exportDirectory(ref, target))
        expect(gitsOf(target)).toEqual(before)
      }
      expect((await treeAt(provider, recovered.branch))["made"]).toBe("inside\n")
      await using(provider, recovered.branch, {}, async (workspace) => {
        const status = "git status --porcelain && git -C sub status --porcelain && git -C nested status --porcelain"
        expect(await shell(workspace, `${status} && git -C tree rev-parse --abbrev-ref HEAD`)).toBe(
          "?? made\n?? tree/\n?? deeper/\nside\n"
        )
        await shell(workspace, "git -C sub fsck --strict && git -C nested/deeper fsck --strict && git fsck --strict")
      })
    }
  )
})
