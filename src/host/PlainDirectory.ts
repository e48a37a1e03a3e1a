/**
 * A turn environment over a plain directory: what the minimal preset runs turns in.
 * Promise: processes start inside the directory, with an allow-listed environment, held by the strongest process tree of
 * this machine; files are not isolated, and the guarantee says so (`isolation: "none"`). Rules: S20, S23, S51, W4.
 */
import { realpath, stat } from "node:fs/promises"
import { isAbsolute, join, relative } from "node:path"
import * as Effect from "effect/Effect"
import { childEnvironment } from "../base/ChildEnvironment.ts"
import { guaranteeOf, type Hold, spawnTree, strongestHold } from "../base/ProcessTree.ts"
import { SpawnFailed } from "../base/Spawn.ts"
import type { TurnEnvironment } from "./TurnEnvironment.ts"

export { networkVariables } from "../base/ChildEnvironment.ts"

export interface PlainDirectoryOptions {
  /** Names of variables of this process that are passed on beside the allow-listed ones. */
  readonly passEnv?: readonly string[]
  /** How process trees are held; the strongest that works here when absent. */
  readonly hold?: Hold
}

const outside = (path: string): boolean => path === ".." || path.startsWith("../") || isAbsolute(path)

/** The real path of `cwd` below `root`, or a typed refusal: a link may not lead a process out of its directory. */
const directoryInside = (root: string, cwd: string, program: string): Effect.Effect<string, SpawnFailed> =>
  Effect.tryPromise({
    try: async () => {
      const from = await realpath(root)
      const path = await realpath(join(from, cwd))
      if (isAbsolute(cwd) || outside(relative(from, path)) || !(await stat(path)).isDirectory())
        throw new Error("outside")
      return path
    },
    catch: () =>
      new SpawnFailed({
        message: "The working directory is not a directory inside the environment",
        remedy: "Create it first, and give `cwd` relative to the root of the environment.",
        program
      })
  })

/**
 * The environment whose root is the directory at the absolute path `path`. Nothing is checked or started until `spawn`,
 * which fails with `SpawnFailed` when the directory or the program is missing.
 */
export const plainDirectory = (path: string, options: PlainDirectoryOptions = {}): TurnEnvironment => ({
  root: path,
  guarantee: Effect.map(options.hold === undefined ? strongestHold : Effect.succeed(options.hold), (hold) =>
    guaranteeOf(hold)
  ),
  spawn: (argv, spawnOptions = {}) =>
    Effect.gen(function* () {
      const cwd = yield* directoryInside(path, spawnOptions.cwd ?? "", argv[0])
      return yield* spawnTree(argv, {
        cwd,
        env: childEnvironment(process.env, options.passEnv, spawnOptions.env),
        ...(options.hold === undefined ? {} : { hold: options.hold })
      })
    })
})
