/** Cases from the field at the level of a workspace: holes, moves of base directories, floods, arguments that are none. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import type { FileOperation, Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import { failure, forkOf, processesOf, run, scratch, sharedGround, shell, treeAt, using } from "./projFixture.ts"

const files = { "src/deep/a": "a", "src/b": "b", "other/c": "c", f: "f" }
const shared = sharedGround(files)

const random = (seed: number): ((below: number) => number) => {
  let state = seed >>> 0
  return (below) => {
    // Mulberry32.
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("C2 C1 a file that is truncated up and down, written behind its end and spliced is what a buffer says, here and in the commit", async () => {
    const { provider, commit } = await shared()
    const branch = await forkOf(provider, commit)
    const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
    console.log(`projCases ${projection} seed ${seed}`)
    const next = random(seed)
    await using(provider, branch, { projection }, async (workspace) => {
      await shell(
        workspace,
        "truncate -s 10000 holes && printf Z | dd of=holes bs=1 seek=9000 conv=notrunc status=none"
      )
      let model = Buffer.alloc(10_000)
      model[9000] = 0x5a
      const holds = async () => Buffer.from(await run(workspace.read("holes"))).equals(model)
      expect(await holds()).toBe(true)
      for (let i = 0; i < 40; i += 1) {
        const kind = next(4)
        if (kind === 0) {
          const size = next(40_000)
          await shell(workspace, `truncate -s ${size} holes`)
          model = Buffer.concat([model.subarray(0, size), Buffer.alloc(Math.max(0, size - model.length))])
        } else if (kind === 1) {
          const at = next(50_000)
          await shell(
            workspace,
            `printf '${"q".repeat(1 + next(9))}' > /tmp/q; dd if=/tmp/q of=holes bs=1 seek=${at} conv=notrunc status=none`
          )
          const bytes = Buffer.from(await shell(workspace, "cat /tmp/q"))
          const longer = Buffer.alloc(Math.max(model.length, at + bytes.length))
          model.copy(longer)
          bytes.copy(longer, at)
          model = longer
        } else if (kind === 2) {
          const offset = next(model.length + 1)
          const count = next(model.length - offset + 1)
          const bytes = Buffer.alloc(next(3000), next(256))
          await run(workspace.splice("holes", offset, count, bytes))
          model = Buffer.concat([model.subarray(0, offset), bytes, model.subarray(offset + count)])
        } else {
          model = Buffer.alloc(next(20_000), next(256))
          await run(workspace.write("holes", model))
        }
        expect(await holds(), `seed ${seed}, step ${i}`).toBe(true)
        if (i % 10 !== 9) continue
        await run(workspace.checkpoint())
        expect(Buffer.from(await run(provider.readAt(branch, "holes"))).equals(model), `seed ${seed}, step ${i}`).toBe(
          true
        )
      }
    })
  })
})

describe("times beyond what a store counts to", () => {
  it("L15 W8 a file dated after the year 2262 is imported, checkpointed and forked with the last time that is counted, and its work is kept", async () => {
    const { provider, commit } = await shared()
    const branch = await forkOf(provider, commit)
    const made = await using(provider, branch, {}, async (workspace) => {
      await shell(
        workspace,
        "echo work > precious && touch -d 2300-01-01T00:00:00 precious . && mkdir far && touch -d 2400-01-01T00:00:00 far"
      )
      const outcome = await run(workspace.checkpoint())
      expect(outcome.outcome).toBe("committed")
      expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
      return outcome
    })
    expect(Buffer.from(await run(provider.readAt(branch, "precious"))).toString()).toBe("work\n")
    const last = String(2n ** 63n - 1n)
    expect((await run(provider.statAt(branch, "precious"))).mtimeNs).toBe(last)
    await using(
      provider,
      await forkOf(provider, (made as { readonly commit: string }).commit),
      {},
      async (workspace) => {
        expect(await shell(workspace, "cat precious")).toBe("work\n")
      }
    )
    const source = scratch()
    fs.writeFileSync(join(source, "a"), "a")
    execFileSync("touch", ["-d", "2300-01-01T00:00:00", join(source, "a"), source])
    const receipt = await run(provider.importDirectory({ source }))
    expect((await run(provider.importDirectory({ source }))).root).toBe(receipt.root)
    expect((await run(provider.statAt(receipt.commit, "a"))).mtimeNs).toBe(last)
  })
})

describe("C14 moving a base directory", () => {
  const python = `import os; os.rename("src", "moved")`
  const ways: Readonly<Record<string, (workspace: Workspace) => Promise<boolean>>> = {
    mv: async (workspace) => (await run(workspace.exec("mv src moved"))).exitCode === 0,
    move: async (workspace) => (await run(Effect.result(workspace.move("src", "moved"))))._tag === "Success",
    "rename(2)": async (workspace) => (await run(workspace.exec(["python3", "-c", python]))).exitCode === 0,
    "git mv": async (workspace) => {
      const script = "git init -q . && git add . && git mv src moved && rm -rf .git"
      return (await run(workspace.exec(script))).exitCode === 0
    }
  }
  const moved = {
    "moved/deep/a": "a",
    "moved/b": "b",
    "other/c": "c",
    f: "f",
    "moved/": "",
    "moved/deep/": "",
    "other/": ""
  }

  it.each(Object.entries(ways))(
    "C14 by %s: works, or is EXDEV as the manifest declares, and works in ownDirs and in a copy",
    async (name, way) => {
      const { provider, commit } = await shared()
      expect((await run(provider.manifest)).renameDirectory).toBe("copyOnly")
      for (const [options, works] of [
        [{ projection: "overlay" }, name === "mv" || name === "move"],
        [{ projection: "overlay", ownDirs: ["src", "src/**"] }, true],
        [{ projection: "copy" }, true]
      ] as const) {
        const branch = await forkOf(provider, commit)
        await using(provider, branch, options, async (workspace) => {
          expect(await way(workspace), JSON.stringify(options)).toBe(works)
          if (works) await run(workspace.checkpoint())
          else await run(workspace.discard("the move is declared not to work here"))
        })
        if (works) expect(await treeAt(provider, branch), JSON.stringify(options)).toEqual(moved)
      }
    }
  )
})

describe("C90 a command without bounds", () => {
  it("C90 W9 W4 floods a gigabyte and leaves a child with the pipe: bounded in memory, heard to its end, the child is gone with the workspace", async () => {
    const { provider, commit } = await shared()
    await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
      const before = process.memoryUsage().rss
      const flooded = await run(workspace.exec("head -c 1073741824 /dev/zero; sleep 86397 & exit 3"))
      expect(flooded).toMatchObject({ exitCode: 3, timedOut: false, pipeHeldByChild: true })
      expect([flooded.stdout.totalBytes, flooded.stdout.bytes.length]).toEqual([2 ** 30, 2 ** 20])
      expect(process.memoryUsage().rss - before).toBeLessThan(300 * 2 ** 20)
      expect(processesOf("sleep 86397")).toHaveLength(1)
    })
    expect(processesOf("sleep 86397")).toEqual([])
  })

  it("C90 W9 W19 starts 2,000 processes that leave its session: they stand still together, and end with a kill or a time limit", async () => {
    const { provider, commit } = await shared()
    const script = `import os, time
for i in range(2000):
    if os.fork() == 0:
        os.setsid()
        time.sleep(86396)
open("started", "w").close()
while True: os.write(1, b"x" * 65536)`
    await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
      const gone = await run(
        Effect.scoped(
          Effect.gen(function* () {
            const many = yield* workspace.start(["/usr/bin/python3", "-c", script])
            many.stdout.resume()
            while ((yield* workspace.glob("started")).length === 0) yield* Effect.sleep(5)
            expect(yield* Effect.flip(workspace.checkpoint())).toMatchObject({ _tag: "ProcessesRunning" })
            const held = yield* workspace.checkpoint({ quiesce: true })
            expect(held).toMatchObject({ outcome: "committed", live: false })
            expect((held as { readonly quiesced: number }).quiesced).toBeGreaterThan(2000)
            yield* many.kill({ graceMs: 0 })
            return yield* many.provenGone
          })
        )
      )
      expect(gone).toBe(true)
      expect(processesOf("time.sleep(86396)")).toEqual([])
      const limited = await run(workspace.exec(["/usr/bin/python3", "-c", script], { timeLimitMs: 500 }))
      expect(limited.timedOut).toBe(true)
      expect(processesOf("time.sleep(86396)")).toEqual([])
    })
    // Thousands of processes are slow to start beside other tests.
  }, 240_000)
})

it("W4 arguments that are none are refused by type and change nothing, in a workspace and on a branch", async () => {
  const { provider, commit } = await shared()
  const branch = await forkOf(provider, commit)
  const none = undefined as never
  await using(provider, branch, { projection: "overlay" }, async (workspace) => {
    const calls: readonly Effect.Effect<unknown, unknown>[] = [
      workspace.write("f", none),
      workspace.write(none, "x"),
      workspace.write("f", 7 as never),
      workspace.splice("f", 0, 0, none),
      workspace.edit("f", none, "x"),
      workspace.edit("f", "f", none),
      workspace.copy("f", none),
      workspace.move(none, "g"),
      workspace.remove(none),
      workspace.read(none),
      workspace.stat(none),
      workspace.list(none),
      workspace.apply([{ op: "write", path: "f" } as never]),
      workspace.apply([{ op: "write", path: "g", bytes: "g" }, none]),
      workspace.apply([{ op: "symlink", path: "l" } as never])
    ]
    for (const [i, call] of calls.entries())
      expect(await failure(call), `call ${i}`).toMatchObject({ _tag: "PathError", reason: "invalid" })
    expect(await run(workspace.changes)).toEqual([])
  })
  const batches = [[{ op: "write", path: "f" }], [{ op: "copy", from: "f" }], [{ op: "none", path: "f" }], [none]]
  for (const batch of batches) {
    expect(await failure(provider.applyTo(branch, batch as unknown as FileOperation[]))).toMatchObject({
      _tag: "PathError",
      reason: "invalid"
    })
  }
  expect(await run(provider.branch(branch))).toMatchObject({ head: commit })
})
