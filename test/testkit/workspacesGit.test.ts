/**
 * The workspace suite over git-worktree. Rules: K1 to K4, W1.
 * The kit with a plain backend passes it from the packed package (test/house/package.test.ts) and by `npm run conformance -- --provider copies`.
 */
import * as Effect from "effect/Effect"
import { expect, test } from "vitest"
import { suiteOver, underOf } from "./suiteOver.ts"

await suiteOver(["git-worktree"])

test("W1 GW1 GW2 a worktree says of itself that it merges with a list of conflicts, lies where git put it, and keeps ignored files", async () => {
  const { open, remove } = await underOf("git-worktree").create()
  const manifest = await Effect.runPromise(
    Effect.scoped(Effect.flatMap(open, (provider) => provider.manifest))
  ).finally(remove)
  const merges = { merge: true, conflictReport: true }
  expect(manifest).toMatchObject({
    provider: "git-worktree",
    ...merges,
    mountAtChosenPath: false,
    keepsIgnoredFiles: true
  })
})
