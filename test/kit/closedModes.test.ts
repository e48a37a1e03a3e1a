/** Files that keep their own owner out, as an ordinary user. Rules: W6, W10, W16, L15; C17. */
import { expect, it } from "vitest"
import { runAsUser } from "../layerfs/asUser.ts"

it("K2 W6 W10 W16 L15 an ordinary user's files and directories of mode 000 are checkpointed, merged and exported with bytes and modes", async () => {
  const { code, stdout, stderr } = await runAsUser("../kit/closedModesProgram.ts")
  expect([code, stderr]).toEqual([0, ""])
  const kept = (secret: string) => [secret, "shut 0", "shut/in 0 ours", "shut2 100", "shut2/deep 400 deep", "t 200 t"]
  const seen = (secret: string) => ({
    outcome: "merged",
    kept: kept(secret),
    exported: kept(secret),
    unpacked: kept(secret),
    again: "unchanged",
    ok: true
  })
  // One side made the mode 600, the other one the content another.
  expect(JSON.parse(stdout)).toEqual({ "git-worktree": seen("secret 600 theirs"), layerfs: seen("secret 0 theirs") })
}, 60_000)
