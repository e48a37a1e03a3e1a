/** The provider as an ordinary user. Rules: GW1, GW2, W1, W17; C36. */
import { expect, it } from "vitest"
import { runAsUser } from "../layerfs/asUser.ts"

it("GW1 GW2 W1 W17 C36 an ordinary user imports, opens, commits inside, checkpoints, merges and exports, and the origin cannot be written from inside", async () => {
  const { code, stdout, stderr } = await runAsUser("../git-worktree/programs/asUser.ts")
  expect([code, stderr]).toEqual([0, ""])
  expect(JSON.parse(stdout)).toEqual({
    first: { exitCode: 0, said: "?? untracked\ndenied\n", stderr: "", outcome: "committed", origin: true },
    second: { exitCode: 0, said: "", stderr: "", outcome: "committed", origin: true },
    outcome: "merged",
    ok: true,
    files: ["a\n", "b\n", "c\n"],
    status: "?? untracked\n",
    worktrees: 2
  })
}, 120_000)
