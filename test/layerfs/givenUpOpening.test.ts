/** Openings, exports, and captures of an open workspace that their caller gives up. Rules: W9, W10, W12, W14, W19, L2, L10. */
import * as fs from "node:fs"
import { join } from "node:path"
import { setImmediate as turn } from "node:timers/promises"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describe, expect, it } from "vitest"
import { Database } from "../../src/sqlite/Database.ts"
import type { Progress } from "../../src/workspace/WorkspaceProvider.ts"
import { forkOf, type Ground, ground, run, shell, using } from "./projFixture.ts"

/** More than the pipe to tar takes at once: when the first file lies there, the rest is not on its way yet. */
const many = Object.fromEntries(Array.from({ length: 2400 }, (_, n) => [`d${n % 60}/f${n}`, `${n} `.repeat(4000)]))

/** Waits until `seen` answers something. */
const until = async <A>(seen: () => A | undefined): Promise<A> => {
  for (;;) {
    const found = seen()
    if (found !== undefined) return found
    await turn()
  }
}
const namesIn = (at: string): readonly string[] => (fs.existsSync(at) ? fs.readdirSync(at) : [])
const begun = (directory: string) => () =>
  namesIn(directory).some((name) => namesIn(join(directory, name)).length > 0) ? true : undefined

const rows = ({ store }: Ground): number => {
  const db = Database.open(join(store, "layerfs/index.db"), { readOnly: true })
  try {
    return Number(db.get("SELECT count(*) AS n FROM workspaces")!["n"])
  } finally {
    db.close()
  }
}

describe("given up", () => {
  it("W9 W12 L2 a copy, or a command on one, that is given up while the tree is written stops there: no workspace comes of it, and nothing is left", async () => {
    const made = await ground(many)
    const { provider, store, commit } = made
    const branch = await forkOf(provider, commit)
    const work = join(store, "layerfs/work")
    const calls = [
      Effect.asVoid(Effect.scoped(provider.open(branch, { projection: "copy" }))),
      Effect.asVoid(provider.execOn(branch, "true", { projection: "copy" }))
    ]
    for (const call of calls) {
      const fiber = Effect.runFork(call)
      const tree = await until(() =>
        namesIn(work)
          .map((name) => join(work, name, "tree"))
          .find((at) => namesIn(at).length > 0)
      )
      await run(Fiber.interrupt(fiber))
      expect(fs.existsSync(tree)).toBe(false)
      expect(namesIn(work)).toEqual([])
      // The row of a workspace stands once its tree is complete.
      expect(rows(made)).toBe(0)
    }
    const whole = await run(provider.execOn(branch, "test $(ls d1 | wc -l) = 40", { projection: "copy" }))
    expect(whole.result.exitCode).toBe(0)
  })

  it("W9 W12 L10 a base that nobody waits for any more is taken back; one that somebody else waits for is made for him", async () => {
    const made = await ground(many)
    const { provider, store, commit } = made
    const branch = await forkOf(provider, commit)
    const bases = join(store, "layerfs/cache/base")
    const open = () => Effect.runFork(Effect.scoped(Effect.asVoid(provider.open(branch, { projection: "overlay" }))))

    const both = [open(), open()]
    await until(begun(bases))
    await run(Effect.all(both.map(Fiber.interrupt), { concurrency: "unbounded" }))
    expect(namesIn(bases)).toEqual([])

    const alone = open()
    const waiting = using(provider, branch, { projection: "overlay" }, (workspace) => shell(workspace, "ls d1 | wc -l"))
    // Each has a hold on the layer before it waits for it.
    await until(() => (namesIn(join(store, "layerfs/cache/lease")).length === 2 ? true : undefined))
    await until(begun(bases))
    const of = (): readonly number[] => namesIn(bases).map((name) => fs.statSync(join(bases, name)).ino)
    const before = of()
    await run(Fiber.interrupt(alone))
    // Given up by the one, on its way for the other.
    expect(of()).toEqual(before)
    expect((await waiting).trim()).toBe("40")
    expect(rows(made)).toBe(1)

    const next = await using(provider, branch, { projection: "overlay" }, (workspace) => shell(workspace, "ls | wc -l"))
    expect(next.trim()).toBe("60")
  })

  it("W9 W12 C14 an opening that is given up while its own directories are copied ends the copying and leaves nothing", async () => {
    const made = await ground(Object.fromEntries(Object.entries(many).map(([path, text]) => [`own/${path}`, text])))
    const { provider, store, commit } = made
    const branch = await forkOf(provider, commit)
    const work = join(store, "layerfs/work")
    const open = { projection: "overlay", ownDirs: ["own"] } as const
    const fiber = Effect.runFork(Effect.scoped(Effect.asVoid(provider.open(branch, open))))
    await until(() =>
      namesIn(work)
        .map((name) => join(work, name, "upper"))
        .find((at) => namesIn(at).some((name) => name.startsWith(".coppice-own-")))
    )
    await run(Fiber.interrupt(fiber))
    expect(namesIn(work)).toEqual([])
    expect(await run(provider.left)).toEqual([])
    const whole = await using(provider, branch, open, (workspace) => shell(workspace, "mv own other; ls other | wc -l"))
    expect(whole.trim()).toBe("60")
  })

  it("W14 W9 W12 whoever waits for one base hears how far it is; a listener that throws ends its own opening and leaves nothing of it", async () => {
    const made = await ground(many)
    const { provider, store, commit } = made
    const branch = await forkOf(provider, commit)
    const heard: Progress[][] = [[], [], []]
    const open = (n: number, projection: "overlay" | "copy") =>
      Effect.scoped(
        provider.open(branch, {
          projection,
          onProgress: (progress) => {
            heard[n]!.push(progress)
            if (n > 0) throw new Error("a listener's own")
          }
        })
      )
    const waiting = Effect.runPromise(open(0, "overlay"))
    const throwing = await Promise.allSettled(
      [1, 2].map((n) => Effect.runPromise(open(n, n === 1 ? "overlay" : "copy")))
    )
    expect(throwing.map((one) => (one.status === "rejected" ? (one.reason as Error).message : "opened"))).toEqual([
      "a listener's own",
      "a listener's own"
    ])
    expect((await waiting).projection).toBe("overlay")
    const last = heard[0]!.at(-1)!
    expect(last).toMatchObject({ phase: "materialise", files: 2400, totalFiles: 2400 })
    expect(heard.map(({ length }) => Math.min(length, 2))).toEqual([2, 1, 1])
    expect(namesIn(join(store, "layerfs/work"))).toEqual([])
    expect(rows(made)).toBe(1)

    const seen: Progress[] = []
    await run(Effect.scoped(provider.open(branch, { projection: "overlay", onProgress: (one) => void seen.push(one) })))
    expect(seen).toEqual([])
  })

  it("W9 W12 one that comes while a base is taken back waits for that, and gets its own", async () => {
    const { provider, store, commit } = await ground(many)
    const branch = await forkOf(provider, commit)
    const open = () => Effect.runFork(Effect.scoped(Effect.asVoid(provider.open(branch, { projection: "overlay" }))))
    const first = open()
    await until(begun(join(store, "layerfs/cache/base")))
    const ending = run(Fiber.interrupt(first))
    const opened = await using(provider, branch, { projection: "overlay" }, (workspace) =>
      shell(workspace, "ls d9 | wc -l")
    )
    await ending
    expect(opened.trim()).toBe("40")
  })

  it("W9 W14 an export that is given up takes back what it wrote, of many files and of a large one", async () => {
    const { provider, root, commit } = await ground({ ...many, large: Buffer.alloc(64 * 1024 * 1024, 7) })
    for (const target of [join(root, "out"), join(root, "empty")]) {
      if (target.endsWith("empty")) fs.mkdirSync(target)
      let told = 0
      const fiber = Effect.runFork(
        provider.exportDirectory(commit, target, {
          onProgress: ({ files }) => {
            told = files
          }
        })
      )
      await until(() => (told > 0 ? true : undefined))
      await run(Fiber.interrupt(fiber))
      expect(told).toBeLessThan(2401)
      expect(namesIn(target)).toEqual([])
      expect(fs.existsSync(target)).toBe(target.endsWith("empty"))
    }
  })

  it.each(["overlay", "copy"] as const)(
    "W9 W10 W19 a capture of an open %s that is given up keeps nothing: what was stopped for it goes on, and the next one has everything",
    async (projection) => {
      const { provider, store, commit } = await ground({ seed: "seed" })
      const branch = await forkOf(provider, commit)
      await run(provider.applyTo(await forkOf(provider, commit), [{ op: "write", path: "first", bytes: "first" }]))
      const packs = join(store, "layerfs/packs")
      const packed = (): number => namesIn(packs).reduce((sum, name) => sum + fs.statSync(join(packs, name)).size, 0)
      const bytes = packed()
      await using(provider, branch, { projection }, async (workspace) => {
        await shell(workspace, "head -c 67108864 /dev/urandom > large")
        const beats = async (): Promise<number> => (await run(workspace.read("beat"))).length
        const capture = async (): Promise<void> => {
          while (!(await run(Effect.isSuccess(workspace.stat("beat"))))) await turn()
          const operationId = "op_given_up"
          const calls = [
            Effect.asVoid(workspace.changes),
            Effect.asVoid(workspace.checkpoint({ quiesce: true, operationId })),
            Effect.asVoid(workspace.checkpoint({ allowLive: true, operationId }))
          ]
          for (const call of calls) {
            const fiber = Effect.runFork(call)
            await until(() => (packed() > bytes + 1024 * 1024 ? true : undefined))
            await run(Fiber.interrupt(fiber))
            expect(packed()).toBe(bytes)
            expect(await run(provider.findOperation(operationId))).toEqual({ state: "absent" })
            expect((await run(provider.branch(branch))).head).toBe(commit)
            const before = await beats()
            while ((await beats()) === before) await turn()
          }
          expect(await run(workspace.checkpoint({ quiesce: true, operationId }))).toMatchObject({
            outcome: "committed",
            changedPaths: 2
          })
        }
        const beating = workspace.start(["sh", "-c", "while :; do printf . >> beat; sleep 0.01; done"])
        await run(Effect.scoped(Effect.andThen(beating, Effect.promise(capture))))
      })
    }
  )
})
