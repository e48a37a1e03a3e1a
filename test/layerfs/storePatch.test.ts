/** Git patches of source files, and the directory that an export leaves. Rules: W3, W5, W6, W16. */
import { execFileSync } from "node:child_process"
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describe, expect, it, vi } from "vitest"
import { sha256 } from "../../src/base/Digest.ts"
import { contentDigest, treeDigest } from "../../src/workspace/TreeDigest.ts"
import { withGitEnded } from "../endedGit.ts"
import { comparable, readTree, scratch } from "./storeFixture.ts"
import { failure, provider, run } from "./storeProvider.ts"

const git = (cwd: string, ...args: string[]): string =>
  execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], {
    cwd,
    encoding: "utf8",
    env: { PATH: process.env["PATH"], HOME: cwd, GIT_CONFIG_NOSYSTEM: "1" }
  })

const repository = (format = "sha1"): string => {
  const root = scratch()
  git(root, "init", "-q", `--object-format=${format}`)
  mkdirSync(join(root, "src/inner"), { recursive: true })
  mkdirSync(join(root, "node_modules/dep"), { recursive: true })
  writeFileSync(join(root, ".gitignore"), "node_modules/\n*.log\n/dist\n")
  writeFileSync(join(root, "src/.gitignore"), "generated.ts\n!kept.log\n")
  writeFileSync(join(root, "src/a.ts"), "export const a = 1\n")
  writeFileSync(join(root, "src/inner/gone.ts"), "gone\n")
  writeFileSync(join(root, "run.sh"), "#!/bin/sh\n", { mode: 0o644 })
  writeFileSync(join(root, "image.bin"), Buffer.from([0, 1, 2, 255, 254, 0]))
  writeFileSync(join(root, "tracked.log"), "tracked although ignored\n")
  writeFileSync(join(root, 'odd "name"\n\u00e9'), "odd\n")
  symlinkSync("src/a.ts", join(root, "link"))
  writeFileSync(join(root, "node_modules/dep/index.js"), "1\n")
  git(root, "add", "-A")
  git(root, "add", "-f", "tracked.log")
  git(root, "commit", "-qm", "base")
  return root
}

describe("export", () => {
  it("K3 W16 a patch whose git is ended is no patch: a tracked file is not taken for an ignored one", async () => {
    const source = repository()
    const store = join(scratch(), "s")
    const fs = await provider(store)
    const { layer } = await run(fs.importDirectory({ source }))
    const { id } = await run(fs.fork(layer))
    await run(fs.applyTo(id, [{ op: "write", path: "tracked.log", bytes: Buffer.from("changed\n") }]))
    for (const command of ["ls-files", "check-ignore", "fast-import", "diff-tree"]) {
      // The thread that makes patches has the PATH of the moment when the store was opened.
      const failed = await withGitEnded(`*" ${command} "*`, 0, async () =>
        failure((await provider(store)).exportPatch({ from: layer, to: id }))
      )
      expect(failed, command).toMatchObject({ _tag: "FileSystemFailure" })
    }
    const { files } = await run(fs.exportPatch({ from: layer, to: id }))
    expect(files).toEqual([{ path: "tracked.log" }])
  })

  it("W9 W16 a patch whose git does not go on ends when it is given up, and leaves nothing", async () => {
    const store = join(scratch(), "s")
    const fs = await provider(store)
    const { layer } = await run(fs.importDirectory({ source: repository() }))
    const { id } = await run(fs.fork(layer))
    await run(fs.applyTo(id, [{ op: "write", path: "src/a.ts", bytes: Buffer.from("changed\n") }]))
    const reached = join(scratch(), "reached")
    await withGitEnded(
      '*" fast-import "*',
      0,
      async () => {
        const fiber = Effect.runFork((await provider(store)).exportPatch({ from: layer, to: id }))
        await vi.waitUntil(() => existsSync(reached), { interval: 2, timeout: 30_000 })
        const given = Fiber.interrupt(fiber).pipe(Effect.as("ended"), Effect.timeout("30 seconds"))
        expect(await run(given)).toBe("ended")
      },
      `touch '${reached}'; exec sleep 1000`
    )
    expect(readdirSync(join(store, "layerfs/work"))).toEqual([])
  })

  it("W16 the patch holds source files only and applies in a clean clone: modes, binary, links, deletions, odd names", async () => {
    const source = repository()
    const fs = await provider(join(scratch(), "s"))
    const { layer } = await run(fs.importDirectory({ source }))
    const branch = await run(fs.fork(layer))
    await run(
      fs.applyTo(branch.id, [
        { op: "edit", path: "src/a.ts", find: "1", replace: "2" },
        { op: "remove", path: "src/inner" },
        { op: "chmod", path: "run.sh", mode: 0o755 },
        { op: "write", path: "image.bin", bytes: Uint8Array.from([9, 0, 8, 255]) },
        { op: "write", path: "new/made.ts", bytes: "made\n" },
        { op: "write", path: 'odd "name"\n\u00e9', bytes: "odder\n" },
        { op: "remove", path: "link" },
        { op: "symlink", path: "link", target: "src" },
        { op: "write", path: "tracked.log", bytes: "changed\n" },
        { op: "write", path: "src/kept.log", bytes: "kept by an inner rule\n" },
        { op: "write", path: "node_modules/dep/index.js", bytes: "2\n" },
        { op: "write", path: "node_modules/more/index.js", bytes: "3\n" },
        { op: "write", path: "debug.log", bytes: "noise\n" },
        { op: "write", path: ":(top)*.log", bytes: "noise\n" },
        { op: "write", path: "dist/out.js", bytes: "built\n" },
        { op: "write", path: "src/generated.ts", bytes: "generated\n" },
        { op: "write", path: ".git/hooks/evil", bytes: "no\n", mode: 0o755 }
      ])
    )
    const exported = await run(fs.exportPatch({ from: layer, to: branch.id }))
    expect(exported.files.map((file) => file.path)).toEqual([
      "image.bin",
      "link",
      "new/made.ts",
      'odd "name"\n\u00e9',
      "run.sh",
      "src/a.ts",
      "src/inner/gone.ts",
      "src/kept.log",
      "tracked.log"
    ])
    expect(exported.ignoredChanges).toBe(7)

    const clone = join(scratch(), "clone")
    git(source, "clone", "-q", source, clone)
    writeFileSync(join(clone, "../p.patch"), exported.patch)
    git(clone, "apply", "--index", "../p.patch")
    expect(readFileSync(join(clone, "src/a.ts"), "utf8")).toBe("export const a = 2\n")
    expect(readFileSync(join(clone, "image.bin"))).toEqual(Buffer.from([9, 0, 8, 255]))
    expect(readFileSync(join(clone, 'odd "name"\n\u00e9'), "utf8")).toBe("odder\n")
    expect(readFileSync(join(clone, "tracked.log"), "utf8")).toBe("changed\n")
    expect(existsSync(join(clone, "src/inner"))).toBe(false)
    expect(git(clone, "ls-files", "-s", "link", "run.sh")).toMatch(/^120000 [^\n]*link\n100755 [^\n]*run.sh\n$/)
    expect(existsSync(join(clone, ".git/hooks/evil"))).toBe(false)
  })

  it("W16 what is tracked is source although ignored, also in a repository of sha256 objects", async () => {
    const source = repository("sha256")
    const fs = await provider(join(scratch(), "s"))
    const { layer } = await run(fs.importDirectory({ source }))
    const branch = await run(fs.fork(layer))
    await run(fs.applyTo(branch.id, [{ op: "write", path: "tracked.log", bytes: "changed\n" }]))
    const exported = await run(fs.exportPatch({ from: layer, to: branch.id }))
    expect(exported.files).toEqual([{ path: "tracked.log" }])
    const clone = join(scratch(), "clone")
    git(source, "clone", "-q", source, clone)
    writeFileSync(join(clone, "../p.patch"), exported.patch)
    git(clone, "apply", "../p.patch")
    expect(readFileSync(join(clone, "tracked.log"), "utf8")).toBe("changed\n")
  })

  it("W16 equal states give an empty patch, and a repository inside the tree keeps its own files", async () => {
    const source = repository()
    mkdirSync(join(source, "vendor/lib"), { recursive: true })
    git(join(source, "vendor/lib"), "init", "-q")
    const fs = await provider(join(scratch(), "s"))
    const { layer } = await run(fs.importDirectory({ source }))
    const branch = await run(fs.fork(layer))
    expect(await run(fs.exportPatch({ from: layer, to: branch.id }))).toMatchObject({ files: [], ignoredChanges: 0 })
    await run(fs.applyTo(branch.id, [{ op: "write", path: "vendor/lib/x", bytes: "x" }]))
    expect(await run(fs.exportPatch({ from: layer, to: branch.id }))).toMatchObject({ files: [], ignoredChanges: 1 })
  })

  it("W3 an exported directory equals the imported one, and a target that holds something is refused untouched", async () => {
    const source = repository()
    const fs = await provider(join(scratch(), "s"))
    const { commit } = await run(fs.importDirectory({ source }))
    const target = join(scratch(), "out")
    await run(fs.exportDirectory(commit, target))
    expect(comparable(readTree(target))).toEqual(comparable(readTree(source)))
    expect(git(target, "status", "--porcelain", "--untracked-files=no")).toBe("")
    const before = comparable(readTree(target))
    expect(await failure(fs.exportDirectory(commit, target))).toMatchObject({ _tag: "ExportRefused", path: target })
    expect(comparable(readTree(target))).toEqual(before)
  })
})

describe("a missing tool", () => {
  it("W3 W16 an export without tar, or a patch without git, is Unavailable with the piece named, and nothing is left", async () => {
    const source = repository()
    const before = process.env["PATH"]
    const directory = join(scratch(), "s")
    process.env["PATH"] = "/nowhere"
    try {
      const fs = await provider(directory)
      const { layer, commit } = await run(fs.importDirectory({ source }))
      const branch = await run(fs.fork(layer))
      await run(fs.applyTo(branch.id, [{ op: "write", path: "x", bytes: "x" }]))
      const target = join(scratch(), "out")
      expect(await failure(fs.exportDirectory(commit, target))).toMatchObject({ _tag: "Unavailable", missing: ["tar"] })
      expect(existsSync(target)).toBe(false)
      expect(await failure(fs.exportPatch({ from: layer, to: branch.id }))).toMatchObject({
        _tag: "Unavailable",
        missing: ["git"]
      })
      expect(readdirSync(join(directory, "layerfs/work"))).toEqual([])
    } finally {
      process.env["PATH"] = before
    }
  })
})

describe("candidate", () => {
  it("W5 W6 the candidate's tree digest is the one computed from the files themselves", async () => {
    const source = repository()
    chmodSync(join(source, "run.sh"), 0o750)
    rmSync(join(source, ".git"), { recursive: true })
    unlinkSync(join(source, "tracked.log"))
    writeFileSync(join(source, "large"), Buffer.alloc(5 * 1024 * 1024, "large"))
    const fs = await provider(join(scratch(), "s"))
    const { commit, project, root } = await run(fs.importDirectory({ source }))
    const environment = sha256("environment")
    const candidate = await run(fs.candidate(commit, { environment, parent: null }))
    const entries = [...readTree(source)].map(([path, entry]) => ({
      path,
      type: entry.type as "file",
      mode: entry.mode,
      content:
        entry.type === "file"
          ? contentDigest(readFileSync(Buffer.concat([Buffer.from(`${source}/`), Buffer.from(path, "latin1")])))
          : null,
      target: entry.type === "symlink" ? entry.content : null,
      linkGroup: null
    }))
    expect(candidate).toMatchObject({ provider: "layerfs", project, commit, root, environment, parent: null })
    expect(candidate.treeDigest).toBe(treeDigest(entries))
    expect(await run(fs.candidate(commit, { environment, parent: null }))).toEqual(candidate)
  })
})
