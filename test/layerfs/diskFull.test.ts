/** A store on a disk that fills up: typed failures, nothing acknowledged is lost, and the same call works once there is space. */
import { randomBytes } from "node:crypto"
import { mkdirSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import type { CheckpointOutcome, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, failure, forkOf, providerOn, run, scratch, treeAt, using } from "./projFixture.ts"
import { mayMount, type SmallDisk, smallDisk } from "./smallDisk.ts"

interface Ground {
  readonly disk: SmallDisk
  readonly source: string
  readonly provider: WorkspaceProvider
  readonly commit: string
}

const groundOn = async (bytes: number): Promise<Ground> => {
  const disk = smallDisk(bytes)
  atEnd(disk.remove)
  const source = join(scratch(), "source")
  mkdirSync(join(source, "d"), { recursive: true })
  for (let i = 0; i < 40; i += 1) writeFileSync(join(source, `d/f${i}`), randomBytes(10_000))
  const provider = await providerOn(join(disk.path, "store"))
  const { commit } = await run(provider.importDirectory({ source }))
  return { disk, source, provider, commit }
}

const full = ["FileSystemFailure", "StorageFailure"]

/** What a call on a full disk may end with, beside its value: an error that says what to do. */
const attempt = async <A, E>(effect: Effect.Effect<A, E>): Promise<A | undefined> => {
  const result = await run(Effect.result(effect))
  if (result._tag === "Success") return result.success
  const error = result.failure as { _tag: string; remedy: string; syscallCode?: string }
  expect(full, JSON.stringify(error)).toContain(error._tag)
  expect(error.remedy).toMatch(/[Ff]ree space/)
  return undefined
}

it.skipIf(!mayMount)(
  "W15 L8 L10 whatever is left on the disk, each call is whole or typed, and what was acknowledged is there and verifies",
  async () => {
    const { disk, source, provider, commit } = await groundOn(24 * 2 ** 20)
    const known = new Map<string, Record<string, string>>([[commit, await treeAt(provider, commit)]])
    for (const [round, left] of [0, 8_192, 65_536, 262_144, 1_048_576].entries()) {
      disk.leave(4 * 2 ** 20)
      const branch = await forkOf(provider, commit)
      const bytes = randomBytes(300_000)
      const operationId = `op_${round}`
      const edit = provider.applyTo(branch, [{ op: "write", path: "new", bytes }], { operationId })
      disk.leave(left)
      const written = await attempt(edit)
      await attempt(provider.importDirectory({ source, operationId: `import_${round}` }))
      await attempt(provider.fork(commit))
      await attempt(
        Effect.scoped(
          Effect.gen(function* () {
            const workspace = yield* provider.open(branch, { projection: round % 2 === 0 ? "overlay" : "copy" })
            yield* workspace.write("made", randomBytes(200_000))
            return yield* workspace.checkpoint({ operationId: `${operationId}_made` })
          })
        )
      )
      // Still full: reading and verifying go on.
      expect(await treeAt(provider, commit), `${left} bytes left`).toEqual(known.get(commit))
      expect(await run(provider.verify()), `${left} bytes left`).toMatchObject({ ok: true, damaged: [] })
      disk.leave(4 * 2 ** 20)
      const again: CheckpointOutcome = written ?? (await run(edit))
      expect(again.outcome).toBe("committed")
      for (const id of [operationId, `${operationId}_made`]) {
        const found = await run(provider.findOperation(id))
        if (found.state === "recorded") known.set(found.commit, await treeAt(provider, found.commit))
      }
      expect(Buffer.from(await run(provider.readAt(again.commit, "new"))).equals(bytes)).toBe(true)
      for (const workspace of await run(provider.left)) await run(provider.discardLeft(workspace.id, "seen"))
    }
    // Another process reads back all that was ever acknowledged.
    const other = await providerOn(join(disk.path, "store"))
    for (const [acknowledged, tree] of known) expect(await treeAt(other, acknowledged)).toEqual(tree)
    expect(await run(other.verify())).toMatchObject({ ok: true, damaged: [] })
    expect(known.size).toBeGreaterThan(5)
  }
)

it.skipIf(!mayMount)(
  "W15 W9 W12 an attempt that fills the disk sees ENOSPC itself; the capture says that there is no room, keeps the files, and works after space was made",
  async () => {
    const { disk, provider, commit } = await groundOn(24 * 2 ** 20)
    const branch = await forkOf(provider, commit)
    await using(provider, branch, { projection: "overlay" }, async (workspace) => {
      await run(workspace.write("mine", "small work"))
      const filled = await run(workspace.exec("cat /dev/urandom > huge"))
      expect(filled.stderr.text).toContain("No space left on device")
      expect(filled.exitCode).not.toBe(0)
      const refused = await failure(workspace.checkpoint({ operationId: "op_full" }))
      expect(full).toContain((refused as { _tag: string })._tag)
      expect((refused as { remedy: string }).remedy).toMatch(/[Ff]ree space/)
      expect(await run(provider.branch(branch))).toMatchObject({ head: commit })
      await run(workspace.remove("huge"))
      expect(await run(workspace.checkpoint({ operationId: "op_full" }))).toMatchObject({ outcome: "committed" })
    })
    expect(Buffer.from(await run(provider.readAt(branch, "mine"))).toString()).toBe("small work")
    // Closed on a full disk: kept, and recovered whole afterwards.
    const second = await forkOf(provider, branch)
    await using(provider, second, { projection: "overlay" }, async (workspace) => {
      await run(workspace.write("late", randomBytes(100_000)))
      disk.leave(0)
    })
    disk.leave(2 ** 20)
    const left = await run(provider.left)
    expect(left).toHaveLength(1)
    const { checkpoint } = await run(provider.recover(left[0]!.id))
    expect((await run(provider.readAt(checkpoint.commit, "late"))).length).toBe(100_000)
    expect(await run(provider.verify())).toMatchObject({ ok: true })
  }
)

it.skipIf(!mayMount)(
  "W15 L10 a layer that could not be written whole is never used: not by a base that ran out of space, not by an adopted upper",
  async () => {
    const { disk, provider, commit } = await groundOn(24 * 2 ** 20)
    const wanted = await treeAt(provider, commit)
    for (const left of [0, 65_536, 200_000, 400_000]) {
      disk.leave(left)
      const opened = await run(
        Effect.result(Effect.scoped(provider.open(await forkLater(), { projection: "overlay" })))
      )
      expect(opened._tag, `${left} bytes left`).toBe("Failure")
      disk.leave(4 * 2 ** 20)
    }
    const branch = await forkOf(provider, commit)
    await using(provider, branch, { projection: "overlay" }, async (workspace) => {
      expect((await run(workspace.changes)).length).toBe(0)
      const seen = await run(workspace.exec("cat d/* | sha256sum; ls d | wc -l"))
      expect(seen.stdout.text).toContain("40\n")
      await run(workspace.write("made", "made"))
      await run(workspace.checkpoint())
      disk.leave(0)
    })
    // The upper could not be adopted, or was: the next view of the commit is whole either way.
    disk.leave(4 * 2 ** 20)
    await using(provider, branch, { projection: "overlay" }, async (workspace) => {
      expect(await run(workspace.changes)).toEqual([])
      expect(Buffer.from(await run(workspace.read("made"))).toString()).toBe("made")
    })
    expect(await treeAt(provider, branch)).toEqual({ ...wanted, made: "made" })
    for (const workspace of await run(provider.left)) await run(provider.discardLeft(workspace.id, "seen"))
    expect(readdirSync(join(disk.path, "store/layerfs/work"))).toEqual([])

    async function forkLater(): Promise<string> {
      disk.leave(4 * 2 ** 20)
      const made = await forkOf(provider, commit)
      disk.leave(0)
      return made
    }
  }
)
