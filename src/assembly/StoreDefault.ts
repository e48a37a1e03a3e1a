/**
 * Where a store lies when the application does not say.
 * Promise: `$XDG_STATE_HOME` or `~/.local/state`, then `coppice/<hash of the project's real path>`; without a home it must
 * be given; never inside the project that will be imported. Rules: 01 "On disk"; W13.
 */
import { realpathSync } from "node:fs"
import { isAbsolute, join, resolve, sep } from "node:path"
import * as Effect from "effect/Effect"
import { sha256 } from "../base/Digest.ts"
import { realPathOf } from "../base/RealPath.ts"
import { StoreLocation } from "../workspace/WorkspaceError.ts"

const realOrNothing = (path: string): string | undefined => {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

/** The user's state directory. As the XDG specification says, an empty or relative path counts as not set. */
const stateHome = (): string | undefined => {
  const given = process.env["XDG_STATE_HOME"] ?? ""
  if (isAbsolute(given)) return given
  const home = process.env["HOME"] ?? ""
  return isAbsolute(home) ? join(home, ".local", "state") : undefined
}

/** The store's directory for a project, or `StoreLocation` with what to do. Makes nothing. */
export const storeDirectory = (options: {
  readonly store?: string | undefined
  readonly project?: string | undefined
}): Effect.Effect<string, StoreLocation> =>
  Effect.suspend(() => {
    const project = realOrNothing(options.project ?? process.cwd())
    if (project === undefined) {
      return Effect.fail(
        new StoreLocation({
          path: options.project ?? "",
          message: "The project that the store is for does not exist.",
          remedy: "Pass the directory of an existing project."
        })
      )
    }
    const home = stateHome()
    const directory =
      options.store ?? (home === undefined ? undefined : join(home, "coppice", sha256(project).slice(7, 7 + 32)))
    if (directory === undefined) {
      return Effect.fail(
        new StoreLocation({
          path: "",
          message: "There is no home directory, so the store has no default place.",
          remedy: "Set XDG_STATE_HOME or HOME, or pass `store` to the preset."
        })
      )
    }
    const real = realPathOf(resolve(directory))
    if (options.project !== undefined && (real === project || real.startsWith(project + sep))) {
      return Effect.fail(
        new StoreLocation({
          path: directory,
          message: "The store would lie inside the project that it is to hold.",
          remedy: "Pass a `store` outside the project's directory."
        })
      )
    }
    return Effect.succeed(real)
  })
