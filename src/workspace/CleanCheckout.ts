/**
 * A clean checkout: a fresh clone of a repository at one commit, in a directory of its own, outside every workspace.
 * Promise: nothing that an attempt made is in it but what a patch puts there; the origin is only read; the directory is
 * gone when its scope ends. Rules: W16, E16, J2.
 */
import { mkdtemp, readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { git, type ToolMissing } from "../base/Command.ts"
import { errorFields } from "../base/CoppiceError.ts"
import { identify } from "../base/ProcessIdentity.ts"

/** The repository could not be cloned at that commit. `detail` is git's own first line, without paths. */
export class CheckoutFailed extends Schema.TaggedError<CheckoutFailed>()("CheckoutFailed", {
  ...errorFields("CHECKOUT_FAILED"),
  commit: Schema.String
}) {}

/** `git apply` refused the patch; nothing of it was applied. */
export class PatchRefused extends Schema.TaggedError<PatchRefused>()("PatchRefused", {
  ...errorFields("PATCH_REFUSED"),
  detail: Schema.String
}) {}

const firstLine = (text: string): string => (text.split("\n")[0] ?? "").replace(/'?\/[^\s']+'?/g, "…").slice(0, 200)

/** The commit that a repository's HEAD names. */
export const headCommit = (repository: string): Effect.Effect<string, CheckoutFailed | ToolMissing> =>
  git(["rev-parse", "--verify", "HEAD^{commit}"], { cwd: repository }).pipe(
    Effect.flatMap((result) =>
      result.code === 0
        ? Effect.succeed(result.stdout.toString("utf8").trim())
        : Effect.fail(
            new CheckoutFailed({
              commit: "HEAD",
              message: `The source is not a git repository with a commit: ${firstLine(result.stderr)}`,
              remedy: "Run `git init`, then commit once, or name a repository that has a commit."
            })
          )
    )
  )

const named = /^(?:checkout|verify|replay)-(\d+)-/

/** Removes the checkouts below `parent` whose process has died before it could. Those of living processes stay. */
export const sweepCheckouts = (parent: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    for (const name of await readdir(parent).catch(() => [])) {
      const pid = named.exec(name)?.[1]
      if (pid === undefined || identify(Number(pid)) !== null) continue
      await rm(join(parent, name), { recursive: true, force: true, maxRetries: 3 })
    }
  })

/** A fresh clone below `parent`, removed when the scope ends. Objects are copied, never shared by hard links. */
export const cleanCheckout = (options: {
  readonly repository: string
  readonly commit: string
  readonly parent: string
  /** What it is for; part of its name, with this process's pid. */
  readonly purpose?: "checkout" | "verify" | "replay"
}): Effect.Effect<string, CheckoutFailed | ToolMissing, Scope.Scope> =>
  Effect.gen(function* () {
    const directory = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(options.parent, `${options.purpose ?? "checkout"}-${process.pid}-`))),
      (path) => Effect.promise(() => rm(path, { recursive: true, force: true, maxRetries: 3 }))
    )
    const steps: readonly (readonly string[])[] = [
      ["clone", "--quiet", "--no-hardlinks", "--no-checkout", options.repository, directory],
      ["-C", directory, "checkout", "--quiet", "--detach", options.commit]
    ]
    for (const step of steps) {
      const result = yield* git(step)
      if (result.code !== 0) {
        return yield* new CheckoutFailed({
          commit: options.commit,
          message: `A clean checkout of ${options.commit} could not be made: ${firstLine(result.stderr)}`,
          remedy: "Check that the commit exists in the repository and that the disk has room."
        })
      }
    }
    return directory
  })

/** Applies a patch file in a checkout; all of it or nothing. An empty patch is refused by git and so is it here. */
export const applyPatch = (checkout: string, patchFile: string): Effect.Effect<void, PatchRefused | ToolMissing> =>
  git(["apply", "--whitespace=nowarn", patchFile], { cwd: checkout }).pipe(
    Effect.flatMap((result) =>
      result.code === 0
        ? Effect.void
        : Effect.fail(
            new PatchRefused({
              detail: firstLine(result.stderr),
              message: "The patch does not apply to a clean checkout.",
              remedy: "Export the patch again against the commit that the checkout was made from."
            })
          )
    )
  )
