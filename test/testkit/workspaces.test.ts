/** The workspace suite over LayerFS, and what a scenario says that cannot be run. Rules: K1 to K4, W1. */
import { assert, test } from "vitest"
import { workspaceConformance } from "../../src/testkit/index.ts"
import { suiteOver, underOf } from "./suiteOver.ts"

// A served base is read and copied up by other code, and is an overlay for all else; as an ordinary user all of it runs (workspacesUser.test.ts).
await suiteOver(["layerfs-overlay", "layerfs-lazy", "layerfs-copy"], ["layerfs-lazy"], {
  "layerfs-lazy": ["L10", "L15", "C9", "C12", "C13", "C14", "C18", "W19"]
})

test("W1 a scenario that cannot be run says why, and running it all the same fails with that", async () => {
  const { create, options } = underOf("layerfs-copy")
  const poor = {
    create: async () => {
      const { directory, open, remove } = await create()
      return { directory, open, remove }
    },
    ...(options === undefined ? {} : { options })
  }
  const skipped = (await workspaceConformance(poor)).filter((scenario) => scenario.skip !== null)
  const reasons = new Set(skipped.map((scenario) => scenario.skip))
  for (const reason of [
    "no small disk is given",
    "no worker program is given",
    "there is no way to alter stored bytes",
    "the store cannot be opened with a cap",
    "the manifest says xattrs: false, and this is about true"
  ]) {
    assert.isTrue(reasons.has(reason), reason)
  }
  for (const scenario of skipped) {
    const error = await scenario.run().then(
      () => undefined,
      (thrown: Error) => thrown
    )
    assert.include(error?.message, scenario.skip!)
  }
})
