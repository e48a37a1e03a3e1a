/** The workspace suite over git-worktree, and over the kit with the plainest backend. Rules: K1 to K4, W1. */
import * as Effect from "effect/Effect"
import { expect, test } from "vitest"
import { suiteOver, underOf } from "./suiteOver.ts"

await suiteOver(["git-worktree", "kit-copies"], ["kit-copies"])

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
