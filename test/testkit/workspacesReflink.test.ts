/** The workspace suite over reflink, on btrfs and on XFS. Rules: K1 to K4, W1, RL1. */
import * as Effect from "effect/Effect"
import { expect, test } from "vitest"
import { suiteOver, underOf } from "./suiteOver.ts"
import { lackOfKind } from "./workspaceKinds.ts"

await suiteOver(["reflink-btrfs", "reflink-xfs"], ["reflink-xfs"])

test("W1 RL1 clones say of themselves that a fork copies nothing and that hard links and times are kept", async (context) => {
  const lack = lackOfKind("reflink-xfs")
  if (lack !== null) return context.skip(lack)
  const { open, remove } = await underOf("reflink-xfs").create()
  const manifest = await Effect.runPromise(
    Effect.scoped(Effect.flatMap(open, (provider) => provider.manifest))
  ).finally(remove)
  expect(manifest).toMatchObject({
    provider: "reflink",
    copyFreeFork: true,
    hardLinks: "preserved",
    nanosecondMtimes: true
  })
})
