/** How workspaces end: closed, kept, interrupted, recovered, dropped. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it, vi } from "vitest"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { currentIdentity } from "../../src/base/ProcessIdentity.ts"
import type { WorkspaceRow } from "../../src/workspace/kit/RefStore.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import {
  committed,
  endedAtEnd,
  failure,
  forkOf,
  ground,
  holders,
  run,
  shell,
  treeAt,
  using,
  write
} from "./projFixture.ts"
import { oneFile } from "../oneFile.ts"

/** Rows of the workspaces, read and written beside the provider as another process would. */
const rowsOf = async <A>(store: string, use: (rows: readonly WorkspaceRow[]) => A): Promise<A> => {
  const beside = await openLayerStore({ store })
  try {
    return use(await beside.call("workspaces", { states: ["open", "kept", "closed", "discarded"] }))
  } finally {
    await beside.close()
  }
}
const changeRow = async (store: string, id: string, change: Partial<WorkspaceRow>): Promise<void> => {
  const beside = await openLayerStore({ store })
  await beside.call("updateWorkspace", { id, change })
  await beside.close()
}

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("W12 W23 changes without a checkpoint are kept at the end, listed, and recovered to a branch of their own", async () => {
    const { provider, commit, store } = await ground({ a: "a", b: "b" })
    const branch = await forkOf(provider, commit)
    const id = await using(provider, branch, { projection }, async (workspace) => {
      await shell(workspace, "echo first > a")
      await committed(workspace)
      await shell(workspace, "echo second > a; rm b; echo new > c")
      return workspace.id
    })
    const head = (await run(provider.branch(branch))).head
    expect(await run(provider.left)).toMatchObject([{ id, branch, state: "kept", projection, base: commit }])
    const recovered = await run(provider.recover(id))
    expect(recovered.checkpoint.outcome).toBe("committed")
    expect(await treeAt(provider, recovered.branch)).toEqual({ a: "second\n", c: "new\n" })
    expect((await run(provider.branch(branch))).head).toBe(head)
    expect(await run(provider.left)).toEqual([])
    expect(fs.readdirSync(join(store, "layerfs", "work"))).toEqual([])
    expect(await failure(provider.recover(id))).toMatchObject({ _tag: "RefNotFound" })
  })

  it("W10 W12 an id that stands for the checkpoint before the end is refused, and what was changed after it is kept", async () => {
    const { provider, commit } = await ground({ a: "a" })
    const branch = await forkOf(provider, commit)
    const id = await using(provider, branch, { projection }, async (workspace) => {
      await shell(workspace, "echo first > a")
      await run(workspace.checkpoint({ operationId: "op_saved" }))
      await shell(workspace, "echo second > a")
      return workspace.id
    })
    expect(await failure(provider.recover(id, { operationId: "op_saved" }))).toMatchObject({ _tag: "OperationUsed" })
    expect((await run(provider.left)).map((left) => left.id)).toEqual([id])
    const { branch: recovered } = await run(provider.recover(id, { operationId: "op_other" }))
    expect(await treeAt(provider, recovered)).toEqual({ a: "second\n" })
    expect(await run(provider.findOperation("op_other"))).toMatchObject({ state: "recorded" })
  })

  it("W12 C33 a discard is recorded with its reason, and follows no link out of the tree, whatever modes were left", async () => {
    const { provider, commit, store, root } = await ground({ a: "a" })
    const outside = join(root, "outside")
    write(outside, { "deep/file": "intact" })
    const leave = async (): Promise<string> =>
      using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
        await shell(
          workspace,
          `ln -s '${outside}' out; mkdir d; ln -s '${outside}/deep' d/out; chmod 000 d; echo x > a`
        )
        return workspace.id
      })
    const first = await leave()
    await run(provider.discardLeft(first, "not needed"))
    const second = await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
      await shell(workspace, `ln -s '${outside}' out; mkdir d; chmod 000 d`)
      await run(workspace.discard("wrong route"))
      expect(await failure(workspace.read("a"))).toMatchObject({ _tag: "WorkspaceClosed", state: "closed" })
      return workspace.id
    })
    expect(fs.readFileSync(join(outside, "deep/file"), "utf8")).toBe("intact")
    expect(fs.readdirSync(join(store, "layerfs", "work"))).toEqual([])
    const rows = await rowsOf(store, (found) => new Map(found.map((row) => [row.id, row])))
    expect(rows.get(first)).toMatchObject({ state: "discarded", note: "not needed" })
    expect(rows.get(second)).toMatchObject({ state: "discarded", note: "wrong route" })
    expect(await run(provider.left)).toEqual([])
  })
})

describe("overlay", () => {
  it("W23 the row names holder, layers, options and kernel while the workspace is open; a live one is nobody's to recover", async () => {
    const { provider, commit, store } = await ground({ a: "a" })
    await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
      const row = await rowsOf(store, (rows) => rows.find((found) => found.id === workspace.id)!)
      expect(row).toMatchObject({ state: "open", base: commit, projection: "overlay", mountPath: workspace.path })
      expect(row.kernel).toBe(fs.readFileSync("/proc/sys/kernel/osrelease", "utf8").trim())
      expect(row.mountOptions).toContain("userxattr,lowerdir=base/")
      expect(row.lowers.length).toBe(1)
      expect(holders().map((line) => Number(line.split(" ")[0]))).toContain(row.holderPid)
      expect(await run(provider.left)).toEqual([])
      expect(await failure(provider.recover(workspace.id))).toMatchObject({ _tag: "RefNotFound" })
      expect(await failure(provider.discardLeft(workspace.id, "no"))).toMatchObject({ _tag: "RefNotFound" })
    })
  })

  it("W12 W23 a holder that dies under the workspace interrupts it: typed, kept, recoverable", async () => {
    const { provider, commit, store } = await ground({ a: "a" })
    const branch = await forkOf(provider, commit)
    const id = await using(provider, branch, { projection: "overlay" }, async (workspace) => {
      await shell(workspace, "echo changed > a")
      const row = await rowsOf(store, (rows) => rows.find((found) => found.id === workspace.id)!)
      process.kill(row.holderPid!, "SIGKILL")
      for (let tries = 0; tries < 2000 && holders().length > 0; tries += 1) {
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      expect(await failure(workspace.exec("true"))).toMatchObject({ _tag: "WorkspaceClosed", state: "interrupted" })
      expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "WorkspaceClosed", state: "interrupted" })
      // Whoever opened it is there still and ends it: until then it is nobody else's to take, also on the way of a plain close.
      expect(await run(provider.left)).toEqual([])
      expect(await failure(provider.discardLeft(workspace.id, "no"))).toMatchObject({ _tag: "RefNotFound" })
      return workspace.id
    })
    expect((await run(provider.left)).map((left) => left.id)).toEqual([id])
    const recovered = await run(provider.recover(id))
    expect(await treeAt(provider, recovered.branch)).toEqual({ a: "changed\n" })
  })

  it("W23 other kernel, other options or a missing layer is WorkspaceUnreadable, and nothing is deleted", async () => {
    const { provider, commit, store } = await ground({ a: "a" })
    const id = await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
      await shell(workspace, "echo changed > a")
      return workspace.id
    })
    const row = await rowsOf(store, (rows) => rows.find((found) => found.id === id)!)
    const upper = join(store, "layerfs", "work", id, "upper", "a")
    const others: Partial<WorkspaceRow>[] = [
      { kernel: "2.6.32" },
      { mountOptions: row.mountOptions.replace("userxattr", "redirect_dir=on") },
      { lowers: ["delta/none", ...row.lowers] }
    ]
    for (const change of others) {
      await changeRow(store, id, change)
      expect(await failure(provider.recover(id)), JSON.stringify(change)).toMatchObject({ _tag: "WorkspaceUnreadable" })
      expect(fs.readFileSync(upper, "utf8")).toBe("changed\n")
      expect((await run(provider.left)).map((left) => left.id)).toEqual([id])
      await changeRow(store, id, { kernel: row.kernel, mountOptions: row.mountOptions, lowers: row.lowers })
    }
    expect((await run(provider.recover(id))).checkpoint.outcome).toBe("committed")
  })

  it.each(["emptied", "of an earlier boot"])(
    "W23 L10 what a workspace on deltas kept is recovered when the cache was %s: its layers are made again under their names",
    async (how) => {
      const { provider, commit, store } = await ground({ a: "a", "d/x": "x", "d/y": "y" })
      const branch = await forkOf(provider, commit)
      for (const change of ["rm d/x; echo 1 > one", "rm -r d; echo d > d; mkdir e; echo 2 > e/two"]) {
        await using(provider, branch, {}, async (workspace) => {
          await shell(workspace, change)
          await committed(workspace)
        })
      }
      const id = await using(provider, branch, {}, async (workspace) => {
        await shell(workspace, "rm one; echo 3 > e/three")
        return workspace.id
      })
      const cache = join(store, "layerfs/cache")
      if (how === "emptied") await removeTree(cache)
      else {
        for (const kind of ["base", "delta"])
          for (const name of fs.readdirSync(join(cache, kind)).filter((found) => found.endsWith(".ok"))) {
            const mark = JSON.parse(fs.readFileSync(join(cache, kind, name), "utf8"))
            fs.writeFileSync(join(cache, kind, name), JSON.stringify({ ...mark, boot: "earlier" }))
          }
      }
      expect((await rowsOf(store, (rows) => rows.find((row) => row.id === id)))?.lowers.length).toBe(3)
      const recovered = await run(provider.recover(id))
      expect(recovered.checkpoint.outcome).toBe("committed")
      expect(await treeAt(provider, recovered.branch)).toEqual({
        a: "a",
        d: "d\n",
        "e/": "",
        "e/two": "2\n",
        "e/three": "3\n"
      })
    }
  )

  it("L10 W7 a fork from an attempt's checkpoint is ready from its layer; a cache that was lost or half made is rebuilt", async () => {
    const { provider, commit, store } = await ground({ "d/x": "x", "d/y": "y", z: "z" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, { projection: "overlay" }, async (workspace) => {
      await shell(workspace, "rm d/x; echo new > d/n; rm z; mkdir z; echo in > z/in")
      await committed(workspace)
    })
    const cache = join(store, "layerfs", "cache")
    const head = (await run(provider.branch(branch))).head
    const layers = (kind: string): string[] =>
      fs.readdirSync(join(cache, kind)).filter((name) => !/\.(?:ok|at|size)$/.test(name))
    const bases = (): string[] => layers("base")
    expect(layers("delta").map((name) => name.split(".")[0])).toEqual([head])
    expect(bases().length).toBe(1)
    const look = async (): Promise<string> =>
      using(provider, await forkOf(provider, branch), { projection: "overlay" }, (workspace) =>
        shell(workspace, "find . -mindepth 1 | sort; cat d/n z/in d/y; stat -c %Y d z")
      )
    const fromLayer = await look()
    expect(fromLayer.startsWith("./d\n./d/n\n./d/y\n./z\n./z/in\nnew\nin\ny")).toBe(true)
    // No base directory of the new commit was needed.
    expect(bases().length).toBe(1)
    await removeTree(join(cache, "delta"))
    expect(await look()).toBe(fromLayer)
    expect([bases().length, layers("delta").length]).toEqual([1, 1])
    // A directory without its mark is from before a crash: whatever it holds, nobody mounts it.
    for (const kind of ["base", "delta"]) {
      for (const name of layers(kind)) {
        fs.unlinkSync(join(cache, kind, `${name}.ok`))
        fs.writeFileSync(join(cache, kind, name, "poison"), "poison")
      }
    }
    expect(await look()).toBe(fromLayer)
  })

  it("L8 W12 whatever a removal left that was killed is swept: with its owner, empty, or without an owner where the row is closed", async () => {
    const { provider, commit, store } = await ground({ a: "a" })
    const work = join(store, "layerfs", "work")
    const closed = await using(provider, await forkOf(provider, commit), { projection: "copy" }, async ({ id }) => id)
    write(join(work, closed), { "tree/a": "a" })
    fs.mkdirSync(join(work, "wsp_empty"))
    // Of this one nobody knows anything: it is not ours to take.
    write(join(work, "wsp_unknown"), { "tree/a": "a" })
    expect(await run(provider.left)).toEqual([])
    expect(fs.readdirSync(work)).toEqual(["wsp_unknown"])

    const big = join(work, "wsp_big")
    const names = Array.from({ length: 5000 }, (_, n) => `tree/${n}`)
    const program = `import { removeTree } from ${JSON.stringify(new URL("../../src/workspace/kit/RemoveTree.ts", import.meta.url).href)}; await removeTree(${JSON.stringify(big)})`
    for (let partly = false; !partly; ) {
      write(big, { owner: "", ...Object.fromEntries(names.map((name) => [name, "x"])) })
      const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "ignore" })
      const ended = once(child, "exit")
      const left = (): number => {
        try {
          return fs.readdirSync(join(big, "tree")).length
        } catch {
          return 0
        }
      }
      while (child.exitCode === null && left() === names.length) await new Promise((resolve) => setImmediate(resolve))
      child.kill("SIGKILL")
      await ended
      partly = left() > 0
    }
    expect(fs.readdirSync(big).sort()).toEqual(["owner", "tree"])
  })

  it("W2 the probe names overlay, lazy and copy as available here", async () => {
    const { provider } = await ground({ a: "a" })
    const probe = await run(provider.probe)
    expect(probe.ready).toBe(true)
    expect(probe.projections.map(({ projection, available }) => [projection, available])).toEqual([
      ["overlay", true],
      ["lazy", true],
      ["copy", true]
    ])
  })

  it.each(["workspace.made", "workspace.closed", "workspace.adopted"])(
    "L8 W12 W23 a process killed at %s leaves no row without its files, and no directory after the next opening",
    async (point) => {
      const { provider, commit, store } = await ground({ a: "a" })
      const branch = await forkOf(provider, commit)
      const victim = await oneFile(join(import.meta.dirname, "projVictim.ts"))
      const killed = spawnSync(process.execPath, [victim, store, branch, "close"], {
        encoding: "utf8",
        env: { ...process.env, COPPICE_CRASH_AT: point }
      })
      expect([killed.signal, killed.stderr]).toEqual(["SIGKILL", ""])
      expect(fs.readdirSync(join(store, "layerfs", "work")).length).toBe(1)
      expect(await run(provider.left)).toEqual([])
      expect(fs.readdirSync(join(store, "layerfs", "work"))).toEqual([])
      const saved = await run(provider.findOperation("op-close"))
      expect(saved.state).toBe(point === "workspace.made" ? "absent" : "recorded")
      if (saved.state === "recorded") expect(await treeAt(provider, branch)).toEqual({ a: "a", made: "inside\n" })
      // A directory whose maker lives is left alone: it is a workspace on its way.
      const own = join(store, "layerfs", "work", "wsp_on-its-way")
      fs.mkdirSync(own)
      fs.writeFileSync(join(own, "owner"), JSON.stringify(currentIdentity()))
      expect(await run(provider.left)).toEqual([])
      expect(fs.existsSync(own)).toBe(true)
    }
  )

  it("W2 W12 an open that fails on the way leaves no process, row or directory behind", async () => {
    const { provider, commit, store } = await ground({ a: "a" })
    const branch = await forkOf(provider, commit)
    const missing = await failure(Effect.scoped(provider.open("brn_none")))
    expect(missing).toMatchObject({ _tag: "RefNotFound" })
    const error = await failure(Effect.scoped(provider.open(branch, { mountPath: join(store, "..", "nowhere", "x") })))
    expect(error).toMatchObject({ _tag: "MountPathUnavailable" })
    expect(fs.readdirSync(join(store, "layerfs", "work"))).toEqual([])
    expect(await run(provider.left)).toEqual([])
    expect(holders()).toEqual([])
  })
})

it("W12 W23 what a killed process left is listed and recovered where nobody reaps orphans, as under the first process of many containers", async () => {
  const { provider, commit, store } = await ground({ a: "a" })
  const branch = await forkOf(provider, commit)
  const program = await oneFile(join(import.meta.dirname, "projVictim.ts"))
  // A subreaper that never waits (prctl(2), PR_SET_CHILD_SUBREAPER): whatever ends below it stays as a zombie.
  const idle = `import ctypes, subprocess, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.Popen(sys.argv[1:])
time.sleep(1000)`
  const reaper = spawn("python3", ["-c", idle, process.execPath, program, store, branch], {
    stdio: ["ignore", "pipe", "inherit"]
  })
  endedAtEnd(reaper)
  await once(reaper.stdout, "data")
  const children = (): readonly number[] =>
    fs.readFileSync(`/proc/${reaper.pid}/task/${reaper.pid}/children`, "utf8").trim().split(" ").map(Number)
  const [victim] = children()
  process.kill(victim!, "SIGKILL")
  await vi.waitUntil(() => children().length > 1, { timeout: 60_000 })
  const left = await run(provider.left)
  expect(left).toMatchObject([{ state: "interrupted", branch }])
  expect(children()).toContain(victim)
  const recovered = await run(provider.recover(left[0]!.id))
  expect(await treeAt(provider, recovered.branch)).toEqual({ a: "a", made: "inside\n" })
}, 120_000)
