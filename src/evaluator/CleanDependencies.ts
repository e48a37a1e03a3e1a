/**
 * Clean dependencies for clean checkouts: installed once for each state of the files that decide them, then copied.
 * Promise: what is copied came from an install in a clean checkout of the base, before any candidate's patch was there; a
 * candidate that changes a deciding file gets an install of its own; a half-made copy is never used. Rules: E12 (a read-only dependency
 * cache may be shared), E16.
 */
import { cp, mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { run } from "../base/Command.ts"
import { crashPoint } from "../base/CrashPoint.ts"
import { digestJson, sha256 } from "../base/Digest.ts"
import { identify } from "../base/ProcessIdentity.ts"

export interface DependencySpec {
  /** Installs everything, in a clean checkout. */
  readonly install: readonly [string, ...string[]]
  /** The files whose contents decide what is installed: manifests and lockfiles, by their paths in the checkout. */
  readonly decidedBy: readonly string[]
  /** The directories that the install makes, by their paths in the checkout. */
  readonly directories: readonly string[]
}

/** How a checkout came to its dependencies. */
export type Provision = "installed" | "copied" | "failed"

/** What decides an install in this checkout, as one digest of the deciding files; a missing file counts as missing. */
export const dependencyKey = (spec: DependencySpec, checkout: string): Effect.Effect<string> =>
  Effect.promise(async () => {
    const files: Record<string, string | null> = {}
    for (const path of spec.decidedBy) {
      const bytes = await readFile(join(checkout, path)).catch(() => null)
      files[path] = bytes === null ? null : sha256(bytes)
    }
    return digestJson({ install: spec.install, directories: spec.directories, files }).slice(7, 39)
  })

/** Takes the dependencies out of a checkout again. */
export const removeDependencies = (spec: DependencySpec, checkout: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    for (const directory of spec.directories) await rm(join(checkout, directory), { recursive: true, force: true })
  })

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false
  )

/** Not broken off: what an interruption leaves running would write behind the back of whoever cleans up. */
const step = <A>(make: () => Promise<A>): Effect.Effect<A> => Effect.uninterruptible(Effect.promise(make))

/** `cp -a` with reflinks where the file system has them; Node's own copy where there is no such program. */
const copyTree = (from: string, to: string): Effect.Effect<void> =>
  run(["cp", "-a", "--reflink=auto", "--no-target-directory", from, to]).pipe(
    Effect.flatMap((result) => (result.code === 0 ? Effect.void : Effect.fail(result))),
    Effect.catch(() =>
      step(async () => {
        await rm(to, { recursive: true, force: true })
        await cp(from, to, { recursive: true, verbatimSymlinks: true, preserveTimestamps: true })
      })
    )
  )

/** Installs under way, by template: whoever comes second waits for the first instead of installing beside it. */
const underWay = new Map<string, Deferred.Deferred<void>>()

/**
 * Gives `checkout` its dependencies. `install` runs the spec's command in it and says whether that worked.
 * Templates lie below `scratch/clean/` and belong to the run that made them.
 */
export const provideDependencies = <E, R>(
  spec: DependencySpec,
  checkout: string,
  scratch: string,
  install: Effect.Effect<boolean, E, R>
): Effect.Effect<Provision, E, R> =>
  Effect.gen(function* () {
    const template = join(scratch, "clean", yield* dependencyKey(spec, checkout))
    let installed = yield* Effect.promise(() => exists(template))
    // Whoever waited for an install that failed is alone again, and may meet others who waited too.
    for (let other = underWay.get(template); !installed && other !== undefined; other = underWay.get(template)) {
      yield* Deferred.await(other)
      installed = yield* Effect.promise(() => exists(template))
    }
    if (installed) {
      for (const directory of spec.directories) {
        const from = join(template, directory)
        if (!(yield* Effect.promise(() => exists(from)))) continue
        yield* Effect.promise(() => mkdir(dirname(join(checkout, directory)), { recursive: true }))
        yield* copyTree(from, join(checkout, directory))
      }
      return "copied" as const
    }
    const mine = Deferred.makeUnsafe<void>()
    underWay.set(template, mine)
    const half = `${template}.${process.pid}.half`
    const removeHalf = (): Promise<void> => rm(half, { recursive: true, force: true, maxRetries: 3 })
    const made = Effect.gen(function* () {
      if (!(yield* install)) return "failed" as const
      yield* step(removeHalf)
      for (const directory of spec.directories) {
        const from = join(checkout, directory)
        if (!(yield* Effect.promise(() => exists(from)))) continue
        yield* step(() => mkdir(dirname(join(half, directory)), { recursive: true }))
        yield* copyTree(from, join(half, directory))
      }
      crashPoint("dependencies.copied")
      // Another process may have been quicker; its template is as good.
      yield* step(() => rename(half, template).catch(removeHalf))
      return "installed" as const
    })
    return yield* Effect.ensuring(
      made,
      // Interrupted, it leaves no half either; those of killed processes are swept.
      Effect.flatMap(Effect.promise(removeHalf), () => {
        underWay.delete(template)
        return Deferred.succeed(mine, undefined)
      })
    )
  })

/** Removes half-made templates of processes that have ended. Those of living processes stay. */
export const sweepDependencies = (scratch: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    const clean = join(scratch, "clean")
    for (const name of await readdir(clean).catch(() => [])) {
      const pid = /\.(\d+)\.half$/.exec(name)?.[1]
      if (pid === undefined || identify(Number(pid)) !== null) continue
      await rm(join(clean, name), { recursive: true, force: true, maxRetries: 3 })
    }
  })
