/** Directories by descriptor: where a path leads, whoever moves things meanwhile. Rules: W12, W13, W21, C18, C27. */
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { Descent } from "../../src/base/Descent.ts"
import { toBytes } from "../../src/base/PathBytes.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"

const roots: string[] = []
const scratch = (): string => {
  const root = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), "coppice-descent-")))
  roots.push(root)
  return root
}
afterEach(async () => {
  for (const root of roots.splice(0)) await removeTree(root)
})

const read = (descent: Descent, path: string): string => fs.readFileSync(toBytes(descent.to(path)), "utf8")
const openNow = (): number => fs.readdirSync("/proc/self/fd").length

describe.skipIf(process.platform !== "linux")("by descriptor", () => {
  it("W21 W13 C27 a directory that was swapped for a link leads nowhere; one that was entered before leads where it led", () => {
    const [root, outside] = [scratch(), scratch()]
    for (const [at, text] of [
      [join(root, "a/b"), "inside"],
      [join(root, "c/b"), "inside"],
      [join(outside, "b"), "outside"]
    ] as const) {
      fs.mkdirSync(at, { recursive: true })
      fs.writeFileSync(join(at, "f"), text)
    }
    const descent = new Descent(root)
    descent.enter("a")
    for (const name of ["a", "c"]) {
      fs.renameSync(join(root, name), join(root, `${name}-away`))
      fs.symlinkSync(outside, join(root, name))
    }
    expect(read(descent, "a/b/f")).toBe("inside")
    expect(() => read(descent, "c/b/f")).toThrow(/ENOTDIR|ELOOP/)
    descent.restart()
    expect(() => read(descent, "a/b/f")).toThrow(/ENOTDIR|ELOOP/)
    expect(read(descent, "a-away/b/f")).toBe("inside")
    descent.close()
  })

  it("W12 C18 a path of any depth is reached, in any order, with a bounded number of descriptors, and none is left", () => {
    const before = openNow()
    const descent = new Descent(scratch())
    const deep = "0123456789/".repeat(600)
    let at = ""
    for (const name of deep.split("/").slice(0, -1)) {
      fs.mkdirSync(toBytes(descent.to(at === "" ? name : `${at}/${name}`)))
      at = at === "" ? name : `${at}/${name}`
      fs.writeFileSync(toBytes(descent.to(`${at}/f`)), String(at.length))
    }
    expect(openNow()).toBeLessThan(before + 80)
    for (const levels of [600, 599, 1, 70, 71, 64, 65, 66, 600, 3]) {
      const path = at.slice(0, 11 * levels - 1)
      expect(read(descent, `${path}/f`)).toBe(String(path.length))
    }
    expect(() => descent.enter(`${at.slice(0, 1099)}/none`)).toThrow("ENOENT")
    expect(read(descent, `${at.slice(0, 1099)}/f`)).toBe("1099")
    descent.close()
    expect(openNow()).toBe(before)
  })
})
