/** Workspaces whose base is served from the store: what they show, and what is left when somebody dies. As root; as an ordinary user: lazyUser.test.ts. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import type { Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import { oneFile } from "../oneFile.ts"
import {
  committed,
  type Files,
  failure,
  forkOf,
  type Ground,
  ground,
  groundIn,
  processesOf,
  run,
  sharedGround,
  shell,
  treeAt,
  using
} from "./projFixture.ts"

const lazy = { projection: "lazy" } as const

const threads = (): number => fs.readdirSync("/proc/self/task").length

/** Ends the connection of a served tree, as its server's end would: fusectl, in a mount namespace of its own (kernel: filesystems/fuse). */
const cutOff = (workspace: Workspace): void => {
  const holder = fs
    .readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .find((pid) => {
      try {
        return fs.readFileSync(`/proc/${pid}/mountinfo`, "utf8").includes(`${workspace.id}/lower`)
      } catch {
        return false
      }
    })
  const mounts = fs.readFileSync(`/proc/${holder}/mountinfo`, "utf8").split("\n")
  const device = mounts
    .find((line) => line.includes(`${workspace.id}/lower`))!
    .split(" ")[2]!
    .split(":")[1]!
  const control = "/sys/fs/fuse/connections"
  execFileSync("unshare", [
    "--mount",
    "sh",
    "-ec",
    `mount -t fusectl none ${control}; echo 1 > ${control}/${device}/abort`
  ])
}

const leftOf = async ({ provider }: Ground, branch: string) =>
  (await run(provider.left)).find((left) => left.branch === branch)

const files: Files = { a: "a\n", "d/b": "b\n", "d/c": "c\n", "e/f/g": "g\n" }
const shared = sharedGround(files)
const opened = async <A>(of: Ground, use: (workspace: Workspace) => Promise<A>): Promise<A> =>
  using(of.provider, await forkOf(of.provider, of.commit), lazy, use)

describe.skipIf(!fs.existsSync("/dev/fuse") || process.getuid?.() !== 0)("lazy", () => {
  it("W2 W7 L14 L15 W22 a lazy workspace shows what an overlay over a written base shows, and its commits have the same roots", async () => {
    const of = await groundIn(await shared(), {
      a: "a\n",
      "d/e/f": "deep\n",
      empty: null,
      link: { link: "d/e/f" },
      dangling: { link: "nowhere" },
      hard: "one file\n",
      "d/hard too": { hard: "hard" },
      [`long/${"n".repeat(255)}`]: "long name\n",
      big: Buffer.alloc(3_000_000, "0123456789abcdef\n")
    })
    fs.writeFileSync(Buffer.concat([Buffer.from(join(of.origin, "d/")), Buffer.from([0xff, 0xfe, 0x41])]), "bytes\n")
    fs.chmodSync(join(of.origin, "a"), 0o751)
    fs.utimesSync(join(of.origin, "a"), 1, -2.5)
    execFileSync("truncate", ["-s", "2M", join(of.origin, "d/holes")])
    fs.appendFileSync(join(of.origin, "d/holes"), "end")
    let deep = of.origin
    for (let n = 0; n < 12; n += 1) fs.mkdirSync((deep = join(deep, "p".repeat(250))))
    fs.writeFileSync(join(deep, "bottom"), "bottom\n")
    const { commit } = await run(of.provider.importDirectory({ source: of.origin }))
    const look = `LC_ALL=C; export LC_ALL
      find . -mindepth 1 -type d -printf '%P %y %m %T@ %U %G\\n' -o -printf '%P %y %m %s %n %T@ %l %U %G %b\\n' | sort
      find . -type f -print0 | sort -z | xargs -0 sha256sum; stat -c %i hard 'd/hard too' | uniq | wc -l`
    const shown = async (projection: "lazy" | "overlay") =>
      using(of.provider, await forkOf(of.provider, commit), { projection }, async (workspace) => {
        const before = await shell(workspace, look)
        await shell(
          workspace,
          "rm d/e/f && mkdir new && echo n > new/n && echo more >> a && mv big bigger && rm -r empty; ln a second"
        )
        const now = await committed(workspace)
        return { before, root: (await run(of.provider.commit(now))).root, projection: workspace.projection }
      })
    const [served, written] = [await shown("lazy"), await shown("overlay")]
    expect(served.before.split("\n")).toEqual(written.before.split("\n"))
    expect(served.before).toMatch(/^hard f 644 9 2 /m)
    expect(served.root).toBe(written.root)
    expect([served.projection, written.projection]).toEqual(["lazy", "overlay"])
  })

  it("W2 W12 P4 nothing is written out for it, no other process sees the mount, and after the end there is no thread, mount or directory of it", async () => {
    const of = await ground(files)
    const before = threads()
    await opened(of, async (workspace) => {
      expect(await shell(workspace, "cat a d/b")).toBe("a\nb\n")
      expect(threads()).toBeGreaterThan(before)
      expect(fs.existsSync(join(of.store, "layerfs/cache/base"))).toBe(false)
      expect(fs.readFileSync("/proc/self/mountinfo", "utf8")).not.toContain("fuse.coppice")
    })
    expect(threads()).toBe(before)
    expect(fs.readdirSync(join(of.store, "layerfs/work"))).toEqual([])
  })

  it("W7 L1 a fork of its checkpoint, opened lazily, shows the new commit; its upper becomes no layer", async () => {
    const of = await ground(files)
    const branch = await forkOf(of.provider, of.commit)
    await using(of.provider, branch, lazy, async (workspace) => {
      await shell(workspace, "echo more >> a; rm -r d; mkdir d; echo new > d/new")
      await committed(workspace)
    })
    const look = (projection: "lazy" | "copy") =>
      forkOf(of.provider, branch).then((fork) =>
        using(of.provider, fork, { projection }, (workspace) => shell(workspace, "cat a d/*; find . | sort"))
      )
    expect(await look("lazy")).toBe(await look("copy"))
    expect(fs.existsSync(join(of.store, "layerfs/cache/delta"))).toBe(false)
  })

  it("L12 64 files are read at once from the main thread, beside synchronous reads, though four of Node's threads could wait for the server", async () => {
    const names = Array.from({ length: 64 }, (_, n) => `f${n}`)
    const of = await groundIn(
      await shared(),
      Object.fromEntries(names.map((name, n) => [name, Buffer.alloc(200_000, `${n} `)]))
    )
    await opened(of, async (workspace) => {
      const { path } = await run(workspace.visiblePath)
      const reading = names.map((name) => fs.promises.readFile(join(path, name)))
      const [first] = [fs.readFileSync(join(path, "f0"))]
      const read = await Promise.all(reading)
      expect(read.map((bytes) => bytes.length)).toEqual(names.map(() => 200_000))
      for (const [n, bytes] of read.entries()) expect(bytes.equals(Buffer.alloc(200_000, `${n} `))).toBe(true)
      expect(first.equals(read[0]!)).toBe(true)
    })
  })

  it("W4 L15 a program of more than 64 MiB is mapped and run from the mount, and read in pieces it is the same bytes", async () => {
    const of = await groundIn(await shared(), { a: "a" })
    fs.copyFileSync(process.execPath, join(of.origin, "node"))
    const { commit } = await run(of.provider.importDirectory({ source: of.origin }))
    const bytes = fs.readFileSync(process.execPath)
    expect(bytes.length).toBeGreaterThan(64 << 20)
    await opened({ ...of, commit }, async (workspace) => {
      expect(await shell(workspace, `./node -p '6 * 7'`)).toBe("42\n")
      const pieces = [0, 1, 4095, 524_287, 33_333_333, bytes.length - 5000].map((offset) => ({ offset, length: 4999 }))
      const program = `const fs = require("fs"); const fd = fs.openSync("node"); for (const { offset, length } of ${JSON.stringify(pieces)}) {
        const b = Buffer.alloc(length); fs.readSync(fd, b, 0, length, offset); console.log(require("crypto").createHash("sha256").update(b).digest("hex")) }`
      const { createHash } = await import("node:crypto")
      const sha = (part: Buffer): string => createHash("sha256").update(part).digest("hex")
      const expected = pieces.map(({ offset, length }) => sha(bytes.subarray(offset, offset + length)))
      const result = await run(workspace.exec(["./node", "-e", program]))
      expect(result.stdout.text.trim().split("\n")).toEqual(expected)
      expect((await shell(workspace, "sha256sum node")).split(" ")[0]).toBe(sha(bytes))
    })
  })

  it("W4 L15 a directory of 20,000 entries is listed whole and each is found, then changed in the middle", async () => {
    const of = await shared()
    const names = Array.from({ length: 20_000 }, (_, n) => `entry-${n}`)
    const wide = await groundIn(of, Object.fromEntries(names.map((name) => [`w/${name}`, name])))
    await opened(wide, async (workspace) => {
      expect(await shell(workspace, "ls w | wc -l; find w -type f | wc -l; ls -U w | sort -u | wc -l")).toBe(
        "20000\n20000\n20000\n"
      )
      expect(
        await shell(workspace, "cat w/entry-0 w/entry-19999 w/entry-777; cat w/none 2> /dev/null || echo none")
      ).toBe("entry-0entry-19999entry-777none\n")
      await shell(workspace, "rm w/entry-7; echo x > w/entry-8; echo y > w/more")
      const changes = await run(workspace.changes)
      expect(changes.map(({ path, kind }) => `${kind} ${path}`).toSorted()).toEqual([
        "added w/more",
        "modified w/entry-8",
        "removed w/entry-7"
      ])
    })
  })

  it("L10 a damaged object is EIO for its file and no wrong byte; other files stay readable, and verify names it", async () => {
    const noise = (seed: number): Buffer =>
      Buffer.from(Array.from({ length: 40_000 }, (_, n) => (Math.imul(n + seed, 2_654_435_761) >>> 13) & 0xff))
    const of = await ground({ one: noise(1), "d/two": noise(777), three: "small\n" })
    const packs = join(of.store, "layerfs/packs")
    const [pack] = fs.readdirSync(packs)
    const bytes = fs.readFileSync(join(packs, pack!))
    await opened(of, async (workspace) => {
      // Until one of the two does not read any more.
      for (let at = bytes.length - 2000; at > 64; at -= 5000) {
        fs.chmodSync(join(packs, pack!), 0o600)
        const file = fs.openSync(join(packs, pack!), "r+")
        fs.writeSync(file, Buffer.from([bytes[at]! ^ 0xff]), 0, 1, at)
        fs.closeSync(file)
      }
      const read = await run(workspace.exec("cat one d/two three > /dev/null"))
      expect(read.exitCode).toBe(1)
      expect(read.stderr.text).toContain("Input/output error")
      expect(await shell(workspace, "ls; echo still works > e; cat e")).toBe("d\none\nthree\nstill works\n")
    })
    const { damaged } = await run(of.provider.verify())
    expect(damaged.length).toBeGreaterThan(0)
  })

  it("L9 L12 W7 the store is compacted while files are still to be read: each reads as it was", async () => {
    const of = await ground(Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`f${n}`, `${n}\n`.repeat(3000)])))
    const branch = await forkOf(of.provider, of.commit)
    for (let n = 0; n < 10; n += 1)
      await run(of.provider.applyTo(branch, [{ op: "write", path: "f0", bytes: Buffer.from(`${n}`) }]))
    await opened(of, async (workspace) => {
      expect(await shell(workspace, "head -n 1 f0")).toBe("0\n")
      expect((await run(of.provider.compact())).complete).toBe(true)
      const sums = await shell(workspace, "for n in $(seq 0 39); do sort -u f$n; done")
      expect(sums).toBe(Array.from({ length: 40 }, (_, n) => `${n}\n`).join(""))
    })
  })

  it("W12 W23 L2 when nobody serves any more, commands get errors and no hang, calls say so, and recovery finds the work", async () => {
    const of = await shared()
    const before = threads()
    const branch = await forkOf(of.provider, of.commit)
    const id = await using(of.provider, branch, lazy, async (workspace) => {
      await shell(workspace, "echo work > made; cat a > /dev/null")
      cutOff(workspace)
      const ended = await run(Effect.result(workspace.exec("ls d/; cat e/f/g; echo $?")))
      if (ended._tag === "Success") expect(ended.success.stdout.text).not.toContain("g\n")
      else expect(ended.failure).toMatchObject({ _tag: "WorkspaceClosed", state: "interrupted" })
      expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "WorkspaceClosed", state: "interrupted" })
      expect(await failure(workspace.exec("true"))).toMatchObject({ _tag: "WorkspaceClosed" })
      return workspace.id
    })
    expect(threads()).toBe(before)
    expect(await leftOf(of, branch)).toMatchObject({ id, state: "kept", projection: "lazy" })
    const { branch: recovered, checkpoint } = await run(of.provider.recover(id))
    expect(checkpoint.outcome).toBe("committed")
    expect(await treeAt(of.provider, recovered)).toEqual({ ...(await treeAt(of.provider, of.commit)), made: "work\n" })
    expect([await leftOf(of, branch), threads()]).toEqual([undefined, before])
  })

  it("W12 W23 S23 the holder is killed: the call says so, the server ends with the workspace, and the work is recovered", async () => {
    const of = await shared()
    const before = threads()
    const id = await opened(of, async (workspace) => {
      await shell(workspace, "echo work > made")
      const running = run(Effect.result(workspace.exec("sleep 1000")))
      const [holder] = processesOf(workspace.id).filter((line) => line.includes("mounts"))
      process.kill(Number(holder!.split(" ")[0]), "SIGKILL")
      expect(await running).toMatchObject({ _tag: "Failure" })
      expect(await failure(workspace.read("a"))).toMatchObject({ _tag: "WorkspaceClosed", state: "interrupted" })
      return workspace.id
    })
    expect(threads()).toBe(before)
    expect((await run(of.provider.recover(id))).checkpoint.outcome).toBe("committed")
  })

  it("S23 W12 W23 the SDK's process is killed: nothing of the workspace runs or is mounted, and its work is recovered", async () => {
    const of = await shared()
    const branch = await forkOf(of.provider, of.commit)
    const child = spawn(
      process.execPath,
      [await oneFile(join(import.meta.dirname, "projVictim.ts")), of.store, branch, "lazy"],
      {
        stdio: ["ignore", "pipe", "inherit"]
      }
    )
    const [said] = (await once(child.stdout, "data")) as [Buffer]
    const pids = JSON.parse(said.toString()) as number[]
    expect(pids.length).toBeGreaterThan(3)
    child.kill("SIGKILL")
    await once(child, "close")
    const alive = (): number[] => pids.filter((pid) => fs.existsSync(`/proc/${pid}/ns/pid`))
    while (alive().length > 0) await new Promise((resolve) => setTimeout(resolve, 5))
    while (processesOf(of.root).length > 0) await new Promise((resolve) => setTimeout(resolve, 5))
    const left = await leftOf(of, branch)
    expect(left).toMatchObject({ state: "interrupted", projection: "lazy" })
    const { branch: recovered } = await run(of.provider.recover(left!.id))
    expect(Buffer.from(await run(of.provider.readAt(recovered, "made"))).toString()).toBe("inside\n")
  })

  it("S23 W12 a process that ends by process.exit() in an open workspace does end, though a thread of it waits in the kernel", async () => {
    const of = await shared()
    const victim = await oneFile(join(import.meta.dirname, "projVictim.ts"))
    const branch = await forkOf(of.provider, of.commit)
    const { status, stderr } = spawnSync(process.execPath, [victim, of.store, branch, "exit"], {
      encoding: "utf8",
      timeout: 50_000
    })
    expect([status, stderr]).toEqual([3, ""])
    const left = await leftOf(of, branch)
    expect(left).toMatchObject({ state: "interrupted", projection: "lazy" })
    await run(of.provider.discardLeft(left!.id, "test"))
  })
})
