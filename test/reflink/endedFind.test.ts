/** A `find` that is ended from outside while a source is cloned. Rules: W13, K3. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { directoriesOf, doubtful } from "../../providers/reflink/Swaps.ts"
import { scratch } from "../layerfs/projFixture.ts"

it("W13 K3 of a find that is ended nothing is taken: no entry of a directory that was moved passes unseen", async () => {
  const root = scratch()
  const tree = join(root, "tree")
  for (const name of ["a", "b", "c"]) {
    fs.mkdirSync(join(tree, name), { recursive: true })
    fs.writeFileSync(join(tree, name, "f"), name)
  }
  const { signal } = new AbortController()
  const descriptor = fs.openSync(tree, "r")
  const path = process.env["PATH"]
  try {
    const nothing = new Map<string, string>()
    const whole = await directoriesOf(descriptor, signal)
    expect([...whole.keys()].toSorted()).toEqual(["", "a", "b", "c"])
    expect(await doubtful(descriptor, nothing, whole, signal)).toHaveLength(3)
    const real = execFileSync("sh", ["-c", "command -v find"], { encoding: "utf8" }).trim()
    fs.writeFileSync(join(root, "find"), `#!/bin/sh\n${real} "$@" | head -c 30\nkill -9 $$\n`, { mode: 0o755 })
    process.env["PATH"] = `${root}:${path}`
    const ended = { code: "EINTR", syscall: "readdir" }
    await expect(directoriesOf(descriptor, signal)).rejects.toMatchObject(ended)
    await expect(doubtful(descriptor, nothing, whole, signal)).rejects.toMatchObject(ended)
  } finally {
    process.env["PATH"] = path
    fs.closeSync(descriptor)
  }
})
