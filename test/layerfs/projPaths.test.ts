/** Direct calls on an open workspace: bytes, paths that try to leave, rivals that swap names, batches. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Beneath } from "../../src/workspace/kit/Beneath.ts"
import { compileGlob } from "../../src/workspace/kit/Glob.ts"
import * as Direct from "../../src/workspace/kit/DirectCalls.ts"
import { grepLines } from "../../src/workspace/kit/Grep.ts"
import { partsOf } from "../../src/workspace/kit/GrepParts.ts"
import type { GrepMatch, Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import {
  atEnd,
  endedAtEnd,
  failure,
  forkOf,
  ground,
  processesOf,
  run,
  scratch,
  sharedGround,
  shell,
  using,
  write
} from "./projFixture.ts"

const shared = sharedGround({
  f: "f",
  "dir/g": "g",
  "dir/deep/h": "hello\nworld\n",
  link: { link: "dir/g" },
  dangling: { link: "nowhere" },
  up: { link: "../outside" },
  escape: { link: "/etc/hostname" },
  "dir/back": { link: "../f" },
  loop: { link: "loop" }
})
const withWorkspace = async (use: (workspace: Workspace, root: string) => Promise<void>): Promise<void> => {
  const { provider, commit, root } = await shared()
  await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
    await use(workspace, root)
    await run(workspace.discard("test"))
  })
}
const text = async (workspace: Workspace, path: string): Promise<string> =>
  Buffer.from(await run(workspace.read(path))).toString()

describe("calls", () => {
  it("W4 read, write, splice, edit, list, stat, glob, grep, copy, move, remove do what they say, byte-exact", () =>
    withWorkspace(async (workspace) => {
      await run(workspace.write("new/deep/file", Uint8Array.from([0, 255, 10]), { mode: 0o750 }))
      expect([...(await run(workspace.read("new/deep/file")))]).toEqual([0, 255, 10])
      expect((await run(workspace.stat("new/deep/file"))).mode).toBe(0o750)
      await run(workspace.write("s", "0123456789"))
      await run(workspace.splice("s", 2, 3, Buffer.from("abcdef")))
      expect(await text(workspace, "s")).toBe("01abcdef56789")
      await run(workspace.splice("s", 2, 6, Buffer.from("")))
      expect(await text(workspace, "s")).toBe("0156789")
      expect(await failure(workspace.splice("s", 6, 2, Buffer.from("")))).toMatchObject({
        reason: "outOfBounds",
        size: 7
      })
      await run(workspace.edit("dir/deep/h", "world", "there"))
      expect(await text(workspace, "dir/deep/h")).toBe("hello\nthere\n")
      expect(await failure(workspace.edit("dir/deep/h", "absent", "x"))).toMatchObject({
        _tag: "EditRefused",
        matches: 0
      })
      expect(await failure(workspace.edit("dir/deep/h", "e", "x"))).toMatchObject({ _tag: "EditRefused", matches: 3 })
      expect((await run(workspace.list("dir"))).map((entry) => entry.path)).toEqual(["dir/back", "dir/deep", "dir/g"])
      expect(await run(workspace.stat("link"))).toMatchObject({ type: "symlink", target: { path: "dir/g" } })
      expect((await run(workspace.glob("**/{g,h}"))).map((found) => found.path)).toEqual(["dir/deep/h", "dir/g"])
      expect(await run(workspace.grep(/^the/))).toEqual([{ path: "dir/deep/h", line: 2, text: "there" }])
      expect(await run(workspace.grep(/./, { limit: 2 }))).toHaveLength(2)
      await run(workspace.copy("dir", "copied"))
      expect(await shell(workspace, "cat copied/back; readlink copied/back")).toBe("f../f\n")
      expect(await failure(workspace.copy("f", "s"))).toMatchObject({ reason: "exists" })
      expect(await failure(workspace.copy("dir", "dir/inside"))).toMatchObject({ reason: "invalid" })
      await run(workspace.move("copied/deep", "moved"))
      expect(await text(workspace, "moved/h")).toBe("hello\nthere\n")
      await run(workspace.remove("dir"))
      expect(await failure(workspace.read("dir/g"))).toMatchObject({ _tag: "PathError", reason: "notFound" })
      expect(await text(workspace, "f")).toBe("f")
      expect(await failure(workspace.remove(""))).toMatchObject({ reason: "invalid" })
      expect(await failure(workspace.read("f/x"))).toMatchObject({ reason: "notADirectory" })
      expect(await failure(workspace.read("moved"))).toMatchObject({ reason: "notAFile" })
    }))

  it("W4 W21 a path that ends like a directory's names nothing else, and a mode that is none is refused, with nothing made", () =>
    withWorkspace(async (workspace) => {
      await run(workspace.apply([{ op: "symlink", path: "todir", target: "dir" }]))
      for (const path of ["f/", "f/.", "dir/../f/"]) {
        expect(await failure(workspace.read(path)), path).toMatchObject({ reason: "notADirectory" })
        expect(await failure(workspace.write(path, "x")), path).toMatchObject({ _tag: "PathError" })
        expect(await failure(workspace.remove(path)), path).toMatchObject({ reason: "notADirectory" })
      }
      expect(await failure(workspace.write("new/", "x"))).toMatchObject({ reason: "notAFile" })
      expect(await failure(workspace.copy("f", "new/"))).toMatchObject({ reason: "notADirectory" })
      expect(await failure(workspace.move("f", "new/"))).toMatchObject({ reason: "notADirectory" })
      expect(await failure(workspace.remove("todir/"))).toMatchObject({ reason: "notADirectory" })
      expect((await run(workspace.list("todir/"))).map(({ path }) => path)).toEqual(["dir/back", "dir/deep", "dir/g"])
      for (const mode of [0o10000, -1, 1.5, Number.NaN]) {
        const refused = { _tag: "PathError", reason: "invalidMode" }
        expect(await failure(workspace.write("f", "changed", { mode }))).toMatchObject(refused)
        for (const op of ["mkdir", "chmod"] as const) {
          expect(await failure(workspace.apply([{ op, path: op === "mkdir" ? "made" : "f", mode }]))).toMatchObject(
            refused
          )
        }
      }
      expect(Buffer.from(await run(workspace.read("f"))).toString()).toBe("f")
      expect((await run(workspace.changes)).map(({ path }) => path)).toEqual(["todir"])
    }))

  it("C3 200 concurrent writes under 5 parents that do not exist yet all succeed", () =>
    withWorkspace(async (workspace) => {
      const writes = Array.from({ length: 200 }, (_, i) => workspace.write(`p${i % 5}/q/${i}`, String(i)))
      await run(Effect.all(writes, { concurrency: "unbounded" }))
      expect((await run(workspace.glob("p*/q/*"))).length).toBe(200)
      expect(await text(workspace, "p4/q/199")).toBe("199")
    }))

  it("C4 chains of 1 and 40 links are followed, 41 is ELOOP; dangling and cyclic links are told apart", () =>
    withWorkspace(async (workspace) => {
      await shell(workspace, "ln -s f c1; for i in $(seq 2 41); do ln -s c$((i - 1)) c$i; done")
      expect(await text(workspace, "c1")).toBe("f")
      expect(await text(workspace, "c40")).toBe("f")
      expect(await failure(workspace.read("c41"))).toMatchObject({ _tag: "PathError", reason: "loop" })
      expect(await failure(workspace.read("loop"))).toMatchObject({ reason: "loop" })
      expect(await failure(workspace.read("dangling"))).toMatchObject({ reason: "notFound" })
      expect(await text(workspace, "dir/back")).toBe("f")
    }))

  it("W21 an absolute link below the mount path is rebased; any other absolute one, and .. above the root, is OutsideWorkspace", () =>
    withWorkspace(async (workspace, root) => {
      const outside = join(root, "outside")
      write(outside, { victim: "intact" })
      await shell(
        workspace,
        `ln -s '${workspace.path}/dir' inner; ln -s '${outside}' out; ln -s '${workspace.path}-not' near`
      )
      expect(await text(workspace, "inner/g")).toBe("g")
      expect(await text(workspace, `${workspace.path}/dir/g`)).toBe("g")
      for (const path of ["out/victim", "escape", "up/victim", "../f", "dir/../../f", "/etc/hostname", "near/x"]) {
        expect(await failure(workspace.read(path)), path).toMatchObject({ _tag: "OutsideWorkspace" })
        expect(await failure(workspace.write(path, "owned")), path).toMatchObject({ _tag: "OutsideWorkspace" })
      }
      for (const call of [
        workspace.remove("out/victim"),
        workspace.move("f", "out/f"),
        workspace.copy("f", "out/f"),
        workspace.copy("out/victim", "stolen"),
        workspace.splice("out/victim", 0, 1, Buffer.from("X"))
      ]) {
        expect(await failure(call)).toMatchObject({ _tag: "OutsideWorkspace" })
      }
      expect(fs.readdirSync(outside)).toEqual(["victim"])
      expect(fs.readFileSync(join(outside, "victim"), "utf8")).toBe("intact")
      expect(await failure(workspace.read("a\0b"))).toMatchObject({ reason: "invalid" })
    }))

  it("C27 links, fifos and special names are no way out: a fifo does not block, a removed link keeps its target", () =>
    withWorkspace(async (workspace, root) => {
      const outside = join(root, "outside-2")
      write(outside, { victim: "intact" })
      await shell(workspace, `mkfifo pipe; ln -s '${outside}' out`)
      expect(await failure(workspace.read("pipe"))).toMatchObject({ reason: "notAFile" })
      expect(await failure(workspace.write("pipe", "x"))).toMatchObject({ reason: "notAFile" })
      await run(workspace.remove("out"))
      expect(fs.readFileSync(join(outside, "victim"), "utf8")).toBe("intact")
    }))
})

describe("apply", () => {
  it("W4 a batch is applied in order", () =>
    withWorkspace(async (workspace) => {
      await run(
        workspace.apply([
          { op: "mkdir", path: "m" },
          { op: "write", path: "m/a", bytes: "one" },
          { op: "edit", path: "m/a", find: "one", replace: "two" },
          { op: "move", from: "f", to: "m/f" },
          { op: "copy", from: "m/a", to: "m/b" },
          { op: "symlink", path: "m/l", target: "a" },
          { op: "chmod", path: "m/b", mode: 0o600 },
          { op: "remove", path: "dir" }
        ])
      )
      expect(await shell(workspace, "cat m/a m/b m/l m/f; stat -c %a m/b; ls -d dir 2>&1 | grep -c cannot")).toBe(
        "twotwotwof600\n1\n"
      )
    }))

  it("W4 W21 a refused step undoes the whole batch, names its index, and writes nothing outside", () =>
    withWorkspace(async (workspace) => {
      const look = `find . -printf '%y %m %p %l\\n' | sort; cat f dir/g dir/deep/h`
      const before = await shell(workspace, look)
      const steps = [
        { op: "write", path: "f", bytes: "changed" },
        { op: "write", path: "brand/new/file", bytes: "n" },
        { op: "remove", path: "dir" },
        { op: "move", from: "link", to: "elsewhere/link" },
        { op: "chmod", path: "f", mode: 0o600 }
      ] as const
      const refused = await failure(
        workspace.apply([...steps, { op: "edit", path: "f", find: "not there", replace: "x" }])
      )
      expect(refused).toMatchObject({ _tag: "EditRefused", index: 5, matches: 0 })
      expect(await shell(workspace, look)).toBe(before)
      expect(await failure(workspace.apply([...steps, { op: "write", path: "escape", bytes: "x" }]))).toMatchObject({
        _tag: "OutsideWorkspace"
      })
      expect(await shell(workspace, look)).toBe(before)
    }))
})

describe("a rival that swaps names", () => {
  let outside: string
  beforeAll(() => {
    outside = fs.mkdtempSync("/var/tmp/coppice-proj-victim-")
    write(outside, { file: "intact", sub: null })
  })
  afterAll(() => fs.rmSync(outside, { recursive: true }))

  it("C27 W21 a process that keeps swapping a directory for a link out of the tree never wins a read, write, list or remove", async () => {
    const root = scratch()
    const tree = join(root, "tree")
    write(tree, { "d/file": "inside", "keep/file": "inside" })
    // Directly on Beneath, so that the link's target is really reachable for this process.
    const program = `
const fs = require("node:fs")
process.chdir(${JSON.stringify(tree)})
fs.symlinkSync(${JSON.stringify(outside)}, "evil")
const rename = (from, to) => { try { fs.renameSync(from, to) } catch {} }
for (;;) {
  rename("d", "parked"); rename("evil", "d"); rename("d", "evil"); rename("parked", "d")
  // A write that met no d has made one of its own, and the renames no longer fit: back to the first position.
  // Another write may make files in it meanwhile: then the removal fails, and the next turn tries again.
  if (fs.existsSync("parked")) { try { fs.rmSync("d", { recursive: true, force: true }) } catch {} rename("parked", "d") }
  try { fs.symlinkSync(${JSON.stringify(outside)}, "evil") } catch {}
}`
    const { spawn } = await import("node:child_process")
    const rival = endedAtEnd(spawn(process.execPath, ["-e", program], { stdio: "ignore" }))
    const descriptor = fs.openSync(tree, "r")
    atEnd(() => fs.closeSync(descriptor))
    const beneath = new Beneath(descriptor, root)
    const outcomes: Record<string, number> = {}
    const seen = async (what: string, call: () => unknown): Promise<void> => {
      let outcome: string
      try {
        const value = await call()
        outcome = `${what} ${Buffer.isBuffer(value) ? value.toString() : "done"}`
      } catch (error) {
        const { reason, _tag } = error as { reason?: string; _tag?: string }
        expect(_tag, String(error)).toMatch(/PathError|OutsideWorkspace/)
        outcome = `${what} ${reason ?? _tag}`
      }
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
    }
    // Bounded by what must be met, and by nothing else: both faces of the swap have to be seen, however late the rival gets its turn.
    const met = (): boolean => outcomes["read inside"] !== undefined && outcomes["read OutsideWorkspace"] !== undefined
    for (let round = 0; round <= 300 || !met(); round += 1) {
      await seen("read", () => Direct.readFile(beneath, "d/file"))
      await seen("write", () => Direct.writeFile(beneath, "d/file", "inside"))
      await seen("list", () => expect(Direct.list(beneath, "d").map((e) => e.path)).not.toContain("d/sub"))
      await seen("create", () => Direct.writeFile(beneath, `d/new${round % 7}`, "inside"))
      await seen("remove", () => Direct.remove(beneath, `d/new${round % 7}`))
      expect(rival.exitCode, "the rival swaps to the end").toBeNull()
      // The calls above are synchronous: the rival's end would be heard of in no other way.
      if (round % 100 === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    rival.kill("SIGKILL")
    expect(outcomes["read inside"]).toBeGreaterThan(0)
    expect(outcomes["read OutsideWorkspace"]).toBeGreaterThan(0)
    expect(outcomes["read intact"]).toBeUndefined()
    expect(fs.readFileSync(join(outside, "file"), "utf8")).toBe("intact")
    expect(fs.readdirSync(outside).sort()).toEqual(["file", "sub"])
    expect(processesOf("nothing-of-ours")).toEqual([])
  })
})

it("W4 L12 a grep whose pattern backtracks for ever is stopped by name, and the caller's own thread goes on meanwhile", async () => {
  const { provider, commit } = await ground({ slow: `${"a".repeat(60)}!\n`, other: "aa\n" })
  await using(provider, await forkOf(provider, commit), { projection: "copy" }, async (workspace) => {
    let turns = 0
    const turning = setInterval(() => {
      turns += 1
    }, 5)
    const error = await failure(workspace.grep(/^(a+)+$/))
    clearInterval(turning)
    expect(error).toMatchObject({ _tag: "PatternTooSlow", path: "slow" })
    expect(turns).toBeGreaterThan(20)
    expect(await run(workspace.grep(/^aa$/))).toEqual([{ path: "other", line: 1, text: "aa" }])
  })
})

it("W4 L3 a file above 2 GiB is searched like any other: lines at its beginning, in its middle and behind its hole, up to the limit", async () => {
  const { provider, commit } = await ground({ a: "needle a\n", z: "needle z\n" })
  await using(provider, await forkOf(provider, commit), { projection: "copy" }, async (workspace) => {
    const begin = `needle 1\n${"hay\n".repeat(2999)}`
    // Two lines that are longer than a part: the second begins beyond what is read at once, and is all of the hole.
    const long = `${"x".repeat(20_000_000)} needle\n`
    const at = 2 ** 31 + 5
    await run(workspace.write("large", begin))
    const end = "\nneedle end\nlast needle"
    await shell(
      workspace,
      `head -c 20000000 /dev/zero | tr '\\0' x >> large; echo ' needle' >> large; truncate -s ${at} large`
    )
    await shell(workspace, `printf '${end.replaceAll("\n", "\\n")}' >> large`)
    expect((await run(workspace.stat("large"))).size).toBe(at + end.length)
    const found = (matches: readonly GrepMatch[]) =>
      matches.map(({ path, line, text }) => `${path}:${line} ${text.length < 100 ? text : text.length}`)
    const all = ["a:1 needle a", "large:1 needle 1", `large:3001 ${long.length - 1}`, "large:3003 needle end"]
    expect(found(await run(workspace.grep(/needle/)))).toEqual([...all, "large:3004 last needle", "z:1 needle z"])
    expect(found(await run(workspace.grep(/needle/, { limit: 3 })))).toEqual(all.slice(0, 3))
    await run(workspace.splice("large", 0, 1, Buffer.from([0])))
    expect(found(await run(workspace.grep(/needle/)))).toEqual(["a:1 needle a", "z:1 needle z"])
    await run(workspace.discard("looked"))
  })
}, 60_000)

it("W4 lines that go on for longer than anybody looks at count as one, and those behind them have their numbers", async () => {
  const place = join(scratch(), "long")
  const line = Buffer.alloc(90_000_000, "x")
  fs.writeFileSync(place, Buffer.concat([Buffer.from("1\n"), line, Buffer.from("\n3\n4\n"), line]))
  const descriptor = fs.openSync(place, "r")
  const told: [number, number][] = []
  const lines: string[] = []
  for await (const { bytes, before } of partsOf(descriptor)) {
    told.push([before, bytes.length])
    grepLines(/^.$/, bytes, 0, (at, text) => lines.push(`${before + at} ${text}`) > 0)
  }
  fs.closeSync(descriptor)
  expect(lines).toEqual(["1 1", "3 3", "4 4"])
  for (const [, length] of told) expect(length).toBeLessThan(85_000_000)
  expect(told.at(-1)![0]).toBe(4)
})

describe("glob", () => {
  it("W4 patterns match whole paths: star within a name, double star across names, classes, alternatives, literal dots", () => {
    const match = (pattern: string, path: string): boolean => compileGlob(pattern)(path)
    expect(match("*.ts", "a.ts")).toBe(true)
    expect(match("*.ts", "d/a.ts")).toBe(false)
    expect(match("**/*.ts", "a.ts")).toBe(true)
    expect(match("**/*.ts", "d/e/a.ts")).toBe(true)
    expect(match("src/**", "src/a/b")).toBe(true)
    expect(match("src/**", "srcx/a")).toBe(false)
    expect(match("a.c", "abc")).toBe(false)
    expect(match("[!a]b", "cb")).toBe(true)
    expect(match("[!a]b", "ab")).toBe(false)
    expect(match("{a,b*}/c?", "bxx/cd")).toBe(true)
    expect(match("{a", "{a")).toBe(false)
  })
})
