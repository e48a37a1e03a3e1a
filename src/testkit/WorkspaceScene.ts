/**
 * What a scenario of the workspace suite works with: a store of its own, sources, branches to work on, and looks at what came of it.
 * Promise: whatever was opened or started is ended; a refusal without a code or a remedy fails the scenario. Rules: K1 to K4.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { mkdirSync, realpathSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { type Digest, sha256 } from "../base/Digest.ts"
import type {
  CheckpointOptions,
  CheckpointOutcome,
  ImportReceipt,
  Manifest,
  OpenOptions,
  Workspace,
  WorkspaceProvider
} from "../workspace/WorkspaceProvider.ts"
import { refusalOf } from "./AuthorityWorker.ts"
import { lookProgram } from "./InsidePrograms.ts"
import { type Files, writeFiles } from "./SourceFiles.ts"
import { lookAt, type LookedAt, type Tree } from "./TreeLook.ts"
import type { OpenProvider, PlaceUnderTest, WorkspaceUnderTest } from "./WorkspaceUnderTest.ts"
import { startWorkspaceWorker, type WorkspaceCallEnd, type WorkspaceWorker } from "./WorkspaceWorker.ts"

/** The fields of a refusal, as they travel. */
type Refused = ReturnType<typeof refusalOf>

/** A branch to work on, and what it holds. */
interface Worked {
  readonly source: string
  readonly receipt: ImportReceipt
  readonly branch: string
  /** The branch's head, which holds the source's tree. */
  readonly head: string
}

export interface WorkspaceScene {
  readonly place: PlaceUnderTest
  /** What the provider declares, with what is known to hold under the options of this run. */
  readonly manifest: Manifest
  readonly provider: WorkspaceProvider
  /** What goes into every `open` of this run. */
  readonly options: OpenOptions
  /** Names at the root of a workspace that are the provider's. */
  readonly apart: readonly string[]
  readonly fuzz: { readonly seed: number; readonly rounds: number }
  /** True when branches to work on are forks of forks. */
  readonly deep: boolean
  /** Runs an effect that must succeed. */
  readonly run: <A, E>(effect: Effect.Effect<A, E>) => Promise<A>
  /** Runs an effect that must be refused with one of these codes. */
  readonly refused: (codes: string | readonly string[], effect: Effect.Effect<unknown, unknown>) => Promise<Refused>
  /** Closes the provider and opens it again, with another opening when one is given. */
  readonly reopen: (as?: OpenProvider) => Promise<void>
  readonly close: () => Promise<void>
  /** The provider over another store, open until the scenario ends. */
  readonly another: () => Promise<WorkspaceProvider>
  /** A fresh directory beside the store. */
  readonly directory: (name: string) => string
  /** A branch to work on, of these files or of a source that is there already. */
  readonly branchOn: (files: Files | string) => Promise<Worked>
  /** Opens a workspace, uses it, and closes it. */
  readonly using: <A>(branch: string, use: (workspace: Workspace) => Promise<A>, options?: OpenOptions) => Promise<A>
  readonly worker: () => Promise<WorkspaceWorker>
  /** What else ends with the scenario. */
  readonly atEnd: (end: () => unknown) => void
  /** Puts something into the transcript, which other providers must come to as well. */
  readonly note: (value: unknown) => void
}

const fresh = (place: PlaceUnderTest): ((name: string) => string) => {
  let last = 0
  return (name) => {
    last += 1
    const path = join(realpathSync(place.directory), `${name}-${last}`)
    mkdirSync(path)
    return path
  }
}

const succeed = async <A, E>(effect: Effect.Effect<A, E>): Promise<A> => {
  const end = await Effect.runPromise(Effect.result(effect))
  if (end._tag === "Success") return end.success
  const { code, message, remedy, ...fields } = refusalOf(end.failure)
  throw new assert.AssertionError({
    message: `Refused: ${code}, ${String(message)} ${String(remedy)} ${JSON.stringify(fields)}`
  })
}

/** Opens a scene over a place; `end` ends everything in it. */
export const openWorkspaceScene = async (
  under: WorkspaceUnderTest,
  place: PlaceUnderTest,
  deep: boolean
): Promise<{
  readonly scene: WorkspaceScene
  readonly notes: readonly unknown[]
  readonly end: () => Promise<void>
}> => {
  const directory = fresh(place)
  const ends: (() => unknown)[] = []
  const notes: unknown[] = []
  let scope: Scope.Closeable | undefined
  let provider: WorkspaceProvider | undefined
  const close = async (): Promise<void> => {
    const closing = scope
    scope = undefined
    provider = undefined
    if (closing !== undefined) await Effect.runPromise(Scope.close(closing, Exit.void))
  }
  const open = async (as: OpenProvider = place.open): Promise<WorkspaceProvider> => {
    scope = await Effect.runPromise(Scope.make())
    provider = await Effect.runPromise(Scope.provide(as, scope))
    return provider
  }
  const manifest = { ...(await succeed((await open()).manifest)), ...under.holds }
  const scene: WorkspaceScene = {
    place,
    manifest,
    get provider() {
      assert.ok(provider !== undefined, "the provider is closed")
      return provider
    },
    options: under.options ?? {},
    apart: under.apart ?? [],
    fuzz: { seed: under.fuzz?.seed ?? Date.now() % 2 ** 31, rounds: under.fuzz?.rounds ?? 6 },
    deep,
    run: succeed,
    refused: async (codes, effect) => {
      const end = await Effect.runPromise(Effect.result(effect))
      const wanted = [codes].flat()
      assert.ok(end._tag === "Failure", `expected the refusal ${wanted.join(" or ")}, and it was done`)
      const refusal = refusalOf(end.failure)
      assert.ok(
        wanted.includes(refusal.code),
        `${refusal.code} instead of ${wanted.join(" or ")}: ${refusal["message"]}`
      )
      assert.match(String(refusal["remedy"]), /\S/, `${refusal.code} has no remedy`)
      return refusal
    },
    reopen: async (as) => {
      await close()
      await open(as)
    },
    close,
    another: async () => {
      const elsewhere = await under.create()
      ends.push(elsewhere.remove)
      const apartScope = await Effect.runPromise(Scope.make())
      ends.push(() => Effect.runPromise(Scope.close(apartScope, Exit.void)))
      return Effect.runPromise(Scope.provide(elsewhere.open, apartScope))
    },
    directory,
    branchOn: async (files) => {
      const source = typeof files === "string" ? files : directory("source")
      if (typeof files !== "string") writeFiles(source, files)
      const receipt = await succeed(scene.provider.importDirectory({ source }))
      const { id, head } = await succeed(scene.provider.fork(receipt.layer))
      return deep ? { source, receipt, ...(await forkedTwice(scene, id)) } : { source, receipt, branch: id, head }
    },
    using: (branch, use, options) =>
      succeed(
        Effect.scoped(
          Effect.flatMap(scene.provider.open(branch, { ...under.options, ...options }), (workspace) =>
            Effect.promise(() => use(workspace))
          )
        )
      ),
    worker: async () => {
      const worker = await startWorkspaceWorker(place.worker!)
      ends.push(() => worker.kill())
      return worker
    },
    atEnd: (end) => void ends.push(end),
    note: (value) => void notes.push(value)
  }
  return {
    scene,
    notes,
    end: async () => {
      try {
        for (const end of ends.toReversed()) await end()
      } finally {
        await close()
      }
    }
  }
}

/** A fork of a fork with the same tree: things came and went on the way, and the branch between goes on by itself. */
const forkedTwice = async (scene: WorkspaceScene, first: string) => {
  const passing = "passing by"
  await scene.using(first, async (workspace) => {
    await scene.run(workspace.write(`${passing}/inside`, "came"))
    await committed(scene, workspace)
  })
  const between = await scene.run(scene.provider.fork(first))
  await scene.using(between.id, async (workspace) => {
    await scene.run(workspace.remove(passing))
    await committed(scene, workspace)
  })
  const { id, head } = await scene.run(scene.provider.fork(between.id))
  await scene.using(between.id, async (workspace) => {
    await scene.run(workspace.write("of the branch between", "not to be seen"))
    await committed(scene, workspace)
  })
  return { branch: id, head }
}

/** The commit that a checkpoint makes; anything else fails. */
export const committed = async (
  scene: WorkspaceScene,
  workspace: Workspace,
  options?: CheckpointOptions
): Promise<CheckpointOutcome & { readonly outcome: "committed" }> => {
  const outcome = await scene.run(workspace.checkpoint(options))
  assert.ok(outcome.outcome === "committed", `the checkpoint was ${outcome.outcome}, and there were changes`)
  return outcome
}

/** Runs a command that must succeed, and gives its standard output. */
export const inside = async (
  scene: WorkspaceScene,
  workspace: Workspace,
  command: readonly [string, ...string[]] | string,
  stdin?: string
): Promise<string> => {
  const result = await scene.run(workspace.exec(command, stdin === undefined ? {} : { stdin }))
  assert.equal(result.exitCode, 0, `exit ${result.exitCode}: ${result.stderr.text}${result.stdout.text}`)
  assert.ok(!result.stdout.truncated, "the output was cut")
  return result.stdout.text
}

/** Runs a Node program inside. */
export const nodeInside = (scene: WorkspaceScene, workspace: Workspace, program: string, stdin?: string) =>
  inside(scene, workspace, [process.execPath, "-e", program], stdin)

/** The same program in a plain directory. */
export const nodeBeside = (directory: string, program: string, stdin = ""): string =>
  execFileSync(process.execPath, ["-e", program], {
    cwd: directory,
    input: stdin,
    encoding: "utf8",
    maxBuffer: 2 ** 26
  })

type Row = readonly [string, LookedAt["type"], number, number, string, Digest | null, string | null]

/** The tree as a process inside sees it, without what is the provider's; hard links are not told from inside (W22). */
export const lookInside = async (scene: WorkspaceScene, workspace: Workspace): Promise<Tree> => {
  const rows = JSON.parse(await nodeInside(scene, workspace, lookProgram)) as Row[]
  const isApart = (path: string): boolean => scene.apart.some((name) => path === name || path.startsWith(`${name}/`))
  const own = rows.filter(([path]) => !isApart(path))
  return new Map(
    own.map(([path, type, mode, size, mtimeNs, content, target]) => [
      path,
      { type, mode, size, mtimeNs, content, target, linkGroup: null }
    ])
  )
}

/** The tree of a ref, exported and looked at. */
export const lookAtRef = async (scene: WorkspaceScene, ref: string): Promise<Tree> => {
  const target = scene.directory("export")
  await scene.run(scene.provider.exportDirectory(ref, target))
  return lookAt(target)
}

/** A file's text at a ref. */
export const textAt = async (scene: WorkspaceScene, ref: string, path: string): Promise<string> =>
  Buffer.from(await scene.run(scene.provider.readAt(ref, path))).toString()

/** The answer of a worker's call that must succeed. */
export const answered = (end: WorkspaceCallEnd): unknown => {
  assert.ok("ok" in end, `refused: ${JSON.stringify(end)}`)
  return end.ok
}

/** The head of a branch. */
export const headOf = async (scene: WorkspaceScene, branch: string): Promise<string> =>
  (await scene.run(scene.provider.branch(branch))).head

/** Puts the provider-neutral digest of a ref into the transcript: others come to the same under the same profile (W6). */
export const noteDigest = async (scene: WorkspaceScene, ref: string): Promise<void> => {
  const options = { environment: sha256("here"), parent: null }
  const { profile, treeDigest } = await scene.run(scene.provider.candidate(ref, options))
  scene.note({ profile, treeDigest })
}
