/** An attempt that writes by absolute path into the main checkout: kept out where isolation is on, named where it is off. */
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { forkOf, ground, run, using } from "./projFixture.ts"

const files = { "src/a": "a", "src/b": "b", f: "f" }

const reading = (root: string): string[] =>
  ["src/a", "src/b", "f"].map((name) => fs.readFileSync(join(root, name), "utf8"))

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("C36 W17 with isolation on the checkout and the held-out tests keep every byte, wherever the workspace is mounted, and no sentinel is needed", async () => {
    const { provider, commit, origin, root } = await ground(files)
    const held = join(root, "held")
    fs.mkdirSync(held)
    fs.writeFileSync(join(held, "test"), "expected")
    for (const mountPath of [origin, "/mnt"]) {
      const branch = await forkOf(provider, commit)
      await using(provider, branch, { projection, mountPath, hide: [held] }, async (workspace) => {
        expect(workspace.isolation.level).toBe("enforced")
        const script = `echo bad > '${origin}/src/a'; rm -rf '${origin}/src/b'; echo bad > '${held}/test'; echo bad > '${held}/new'; true`
        await run(workspace.exec(script))
        expect(await run(workspace.sentinels)).toBe(null)
        await run(workspace.discard("seen"))
      })
      expect(reading(origin)).toEqual(["a", "b", "f"])
      expect(fs.readdirSync(held)).toEqual(["test"])
      expect(fs.readFileSync(join(held, "test"), "utf8")).toBe("expected")
    }
  })

  it("C36 W17 with isolation off each path that was written, added, removed or swapped outside is named, and reading names nothing", async () => {
    const { provider, commit, origin, root } = await ground(files)
    const held = join(root, "held")
    fs.mkdirSync(held)
    fs.writeFileSync(join(held, "test"), "expected")
    const branch = await forkOf(provider, commit)
    const options = { projection, isolation: "off", mountPath: "/mnt", hide: [held] } as const
    await using(provider, branch, options, async (workspace) => {
      expect(workspace.isolation.level).not.toBe("enforced")
      await run(workspace.exec(`cat '${origin}'/src/* '${held}/test'; echo mine > f`))
      expect(await run(workspace.sentinels)).toEqual({ watched: [origin, held], partial: false, changed: [] })
      // The same bytes with the old times put back: only the kernel's own clock tells.
      const stamp = `cp -p '${held}/test' /tmp/coppice-stamp; printf expecteX > '${held}/test'; touch -r /tmp/coppice-stamp '${held}/test'; rm /tmp/coppice-stamp`
      await run(
        workspace.exec(`echo bad > '${origin}/src/a'; rm '${origin}/src/b'; echo new > '${origin}/new'; ${stamp}`)
      )
      const report = await run(workspace.sentinels)
      expect(report?.changed).toEqual([
        { path: held + "/test", kind: "modified" },
        { path: origin, kind: "modified" },
        { path: `${origin}/new`, kind: "added" },
        { path: `${origin}/src`, kind: "modified" },
        { path: `${origin}/src/a`, kind: "modified" },
        { path: `${origin}/src/b`, kind: "removed" }
      ])
      await run(workspace.discard("seen"))
    })
  })
})
