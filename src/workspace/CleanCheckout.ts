/**
 * A clean checkout: a fresh clone of a repository at one commit, in a directory of its own, outside every workspace; where the
 * source had uncommitted work, submodules or nested repositories, with exactly those.
 * Promise: nothing that an attempt made is in it but what a patch puts there; the origin is only read; the directory is
 * gone when its scope ends. Rules: W16, E16, J2.
 */
import { chmod, mkdir, mkdtemp, readdir, rm } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { git, type ToolMissing, wasCutShort } from "../base/Command.ts"
import { crashPoint } from "../base/CrashPoint.ts"
import { errorFields } from "../base/CoppiceError.ts"
import { show } from "../base/PathBytes.ts"
import { identify } from "../base/ProcessIdentity.ts"
import type { SourceState } from "./SourceState.ts"

/** The repository could not be cloned at that commit. `detail` is git's own first line, without paths. */
export class CheckoutFailed extends Schema.TaggedError<CheckoutFailed>()("CheckoutFailed", {
  ...errorFields("CHECKOUT_FAILED"),
  /** Null where the checkout was there and a patch could not be tried. */
  commit: Schema.NullOr(Schema.String)
}) {}

/** `git apply` refused the patch; nothing of it was applied. */
export class PatchRefused extends Schema.TaggedError<PatchRefused>()("PatchRefused", {
  ...errorFields("PATCH_REFUSED"),
  detail: Schema.String
}) {}

const firstLine = (text: string): string => (text.split("\n")[0] ?? "").replace(/'?\/[^\s']+'?/g, "…").slice(0, 200)

const named = /^(?:checkout|verify|replay)-(\d+)-/

/** Removes the checkouts below `parent` whose process has died before it could. Those of living processes stay. */
export const sweepCheckouts = (parent: string): Effect.Effect<void> =>
  Effect.promise(async () => {
    for (const name of await readdir(parent).catch(() => [])) {
      const pid = named.exec(name)?.[1]
      if (pid === undefined || identify(Number(pid)) !== null) continue
      await removeCheckout(join(parent, name))
    }
  })

export interface CheckoutOptions {
  /** The repository that is cloned: the source's own directory. */
  readonly repository: string
  readonly commit: string
  readonly parent: string
  /** What it is for; part of its name, with this process's pid. */
  readonly purpose?: "checkout" | "verify" | "replay"
  /** Where the source stood beside that commit, as `readSourceState` read it into `stores`. */
  readonly standing?: { readonly state: SourceState; readonly stores: string }
}

const checkoutFailed = (commit: string, stderr: string) =>
  new CheckoutFailed({
    commit,
    message: `A clean checkout of ${commit} could not be made: ${firstLine(stderr)}`,
    remedy: "Check that the commit exists in the repository and that the disk has room."
  })

/** The steps that bring one repository to where it stood: its commit, then its uncommitted work as uncommitted work. */
const steps = (repository: string, directory: string, commit: string, state: string | null, store: string) => {
  const there = ["-C", directory, "-c", "core.hooksPath=/dev/null"]
  return [
    ["clone", "--quiet", "--no-hardlinks", "--no-checkout", repository, directory],
    ...(state === null
      ? [[...there, "checkout", "--quiet", "--detach", commit]]
      : [
          [...there, "fetch", "--quiet", "--no-tags", store, "refs/heads/state"],
          [...there, "checkout", "--quiet", "--detach", state],
          [...there, "reset", "--quiet", commit]
        ])
  ]
}

/** A fresh clone below `parent`, removed when the scope ends. Objects are copied, never shared by hard links. */
export const cleanCheckout = (
  options: CheckoutOptions
): Effect.Effect<string, CheckoutFailed | ToolMissing, Scope.Scope> =>
  Effect.gen(function* () {
    const { repository, commit, standing } = options
    const directory = yield* Effect.acquireRelease(
      Effect.promise(() => mkdtemp(join(options.parent, `${options.purpose ?? "checkout"}-${process.pid}-`))),
      (path) => Effect.promise(() => removeCheckout(path))
    )
    crashPoint("checkout.made")
    const parts = standing?.state.parts ?? [{ path: "", commit, state: null, store: "" }]
    for (const part of parts) {
      const inside = show(part.path).path
      const target = join(directory, inside)
      yield* Effect.promise(() => mkdir(target, { recursive: true }))
      const store = join(standing?.stores ?? "", part.store)
      for (const step of steps(join(repository, inside), target, part.commit, part.state, store)) {
        const result = yield* git(step)
        if (result.code !== 0) return yield* checkoutFailed(part.commit, result.stderr)
      }
    }
    crashPoint("checkout.cloned")
    return directory
  })

/** What commands made there may be without rights, which its owner can always take back. */
const removeCheckout = async (path: string): Promise<void> => {
  await rm(path, { recursive: true, force: true, maxRetries: 3 }).catch(async () => {
    await openUp(path)
    await rm(path, { recursive: true, force: true, maxRetries: 3 })
  })
}

const openUp = async (directory: string): Promise<void> => {
  await chmod(directory, 0o700)
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) await openUp(join(directory, entry.name))
  }
}

/** Applies a patch file in a checkout; all of it or nothing. An empty patch is refused by git and so is it here. */
export const applyPatch = (
  checkout: string,
  patchFile: string
): Effect.Effect<void, PatchRefused | CheckoutFailed | ToolMissing> =>
  git(["apply", "--whitespace=nowarn", patchFile], { cwd: checkout }).pipe(
    Effect.flatMap((result) => {
      if (result.code === 0) return Effect.sync(() => crashPoint("checkout.patched"))
      const detail = firstLine(result.stderr)
      return Effect.fail(
        wasCutShort(result)
          ? new CheckoutFailed({
              commit: null,
              message: `The patch could not be applied: ${detail}.`,
              remedy: "Repeat it; whether the patch applies was not found out."
            })
          : new PatchRefused({
              detail,
              message: "The patch does not apply to a clean checkout.",
              remedy: "Export the patch again against the commit that the checkout was made from."
            })
      )
    })
  )
