/** Workspaces whose base is served, as an ordinary user: by a process of its own. */
import { existsSync } from "node:fs"
import { expect, it } from "vitest"
import { runAsUser } from "./asUser.ts"

it.skipIf(!existsSync("/dev/fuse"))(
  "W2 W12 W17 W23 S23 P4 as an ordinary user a process serves that nothing inside sees; killed, nothing hangs and the work is recovered; a pool has one ready; none outlives the SDK",
  async () => {
    const { code, stdout, stderr } = await runAsUser("lazyUserProgram.ts")
    expect([code, stderr]).toEqual([0, ""])
    const interrupted = { _tag: "WorkspaceClosed", state: "interrupted" }
    const seen = JSON.parse(stdout)
    // Inside: the holder's own, and those of the command.
    expect(seen.open).toEqual([1, expect.stringMatching(/^a\n[2-6]\n$/)])
    expect(seen.running === 1 || seen.running._tag === interrupted._tag).toBe(true)
    expect(seen).toMatchObject({
      checkpoint: interrupted,
      left: [[true, "kept", "lazy"]],
      recovered: ["committed", "work\n"],
      after: [0, []],
      pool: {
        first: { before: 0, read: "a\n", level: "enforced" },
        second: { before: 1, kept: true, read: "a\n", level: "enforced" },
        // What stood ready for a lazy one goes when its holder is taken for another.
        other: { before: 1, read: "a\n", level: "enforced" },
        standing: 1
      },
      end: 0,
      killed: ["SIGKILL", true, true, "interrupted", "inside\n"]
    })
  },
  120_000
)
