/** The same workspaces as an ordinary user without any privilege. */
import * as fs from "node:fs"
import { describe, expect, it } from "vitest"
import { runAsUser } from "./asUser.ts"

describe("an ordinary user", () => {
  it("W2 W4 W13 W17 W19 C14 C17 S23 opens, runs, checkpoints and is isolated by overlay, lazy and copy, mode 000 made inside included", async () => {
    // A writable file system where only root may go, as other programs of a machine have them: out of this user's reach.
    const elsewhere = `mount -t tmpfs -o mode=700 none /opt && mkdir /opt/deep && mount -t tmpfs none /opt/deep && exec "$@"`
    const before = process.getuid!() === 0 ? ["unshare", "--mount", "sh", "-c", elsewhere, "sh"] : []
    const { code, stdout, stderr, uid, home } = await runAsUser("projUserProgram.ts", [], before)
    expect(stderr).toBe("")
    expect(code).toBe(0)
    const seen = JSON.parse(stdout) as Record<string, unknown>
    expect(seen["probe"]).toEqual([
      { projection: "overlay", available: true, missing: [] },
      { projection: "lazy", available: true, missing: [] },
      { projection: "copy", available: true, missing: [] }
    ])
    // W13: what this user may not read is listed and left as it is; the import goes on.
    expect(seen["unread"]).toEqual(["skippedUnreadable closed", "skippedUnreadable shut"])
    const expected = {
      level: "enforced",
      path: true,
      id: `0 ${uid}`,
      // An exit code and not a byte of content.
      key: expect.stringMatching(/^\d+$/),
      held: expect.stringMatching(/^\d+$/),
      store: expect.stringMatching(/^\d+$/),
      lift: "0 refused",
      nested: "0 refused",
      device: "0 refused",
      changed: "0 ok",
      outcome: "committed",
      quiesced: [false, true],
      gone: true,
      origin: "f"
    }
    for (const projection of ["overlay", "lazy", "copy"]) {
      expect(seen[projection], projection).toMatchObject(expected)
      expect((seen[projection] as { outside: string }).outside, projection).not.toBe("0")
      expect(seen[`${projection}Tree`], projection).toEqual(["new\n", "g", 0, "secret\n"])
      expect(seen[`${projection}Again`], projection).toEqual(["new\ng0\n", "unchanged", 0])
    }
    expect(seen["direct"]).toEqual(["f\nh\nshut\nfh", 1])
    expect(seen["left"]).toEqual([])
    expect(seen["work"]).toEqual([])
    expect(fs.existsSync(home)).toBe(false)
  })
})
