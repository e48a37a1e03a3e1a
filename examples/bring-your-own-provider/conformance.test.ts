// node --test conformance.test.ts: the provider against the rules that every workspace provider keeps.
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import { test } from "node:test"
import { titleOf, workspaceConformance } from "coppice/testkit"
import { openWorkspaces } from "./provider.ts"

const scenarios = await workspaceConformance({
  create: async () => {
    // Not below /tmp, which is private inside a workspace.
    const place = await mkdtemp(join(process.env["CONFORMANCE_PLACE"] ?? homedir(), "tarballs-"))
    const [directory, store] = [join(place, "beside"), join(place, "store")]
    await mkdir(directory)
    return {
      directory,
      open: openWorkspaces({ store }),
      openCapped: (bytes) => openWorkspaces({ store, storeQuota: bytes }),
      worker: [process.execPath, join(import.meta.dirname, "worker.ts"), store],
      remove: () => rm(place, { recursive: true, force: true })
    }
  }
})

for (const scenario of scenarios) {
  test(titleOf(scenario), { skip: scenario.skip ?? false }, async () => {
    await scenario.run()
  })
}
