/**
 * The workspace suite as an ordinary user without any privilege, over each provider that says it needs none.
 * Each scenario once: again on a fork of a fork it runs as root. Promise: what is left out is what needs root (a disk of its own) or what the manifest does not declare. Rules: K1 to K4, W1, W2.
 */
import { describe, expect, it, onTestFinished } from "vitest"
import { runAsUser } from "../layerfs/asUser.ts"
import type { ScenarioResult } from "./runScenarios.ts"
import { diskOf, lackOfKind, type WorkspaceKind } from "./workspaceKinds.ts"

/** One of each provider; the others differ in what root or the file system does. `npm run conformance` runs them all, as any user. */
const kinds: readonly WorkspaceKind[] = ["layerfs-lazy", "git-worktree", "reflink-xfs"]

describe.each(kinds)("%s", (kind) => {
  it("K1 K2 K3 K4 W1 W2 the suite passes as an ordinary user", async (context) => {
    const lack = lackOfKind(kind)
    if (lack !== null) return context.skip(lack)
    const disk = diskOf(kind)
    onTestFinished(disk.remove)
    const { code, stdout, stderr } = await runAsUser("../testkit/programs/workspaces.ts", [
      "run",
      kind,
      disk.path,
      "once"
    ])
    expect(stderr).toBe("")
    expect(code).toBe(0)
    const results = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as ScenarioResult)
    expect(results.filter(({ outcome }) => outcome === "failed")).toEqual([])
    expect(results.filter(({ outcome }) => outcome === "passed").length).toBeGreaterThan(50)
    const named = (text: string) => results.find(({ scenario }) => scenario.includes(text))
    expect(named("without any privilege")?.outcome).toBe("passed")
    expect(named("a full disk is told")).toMatchObject({ outcome: "skipped", reason: "no small disk is given" })
  }, 1_800_000)
})
