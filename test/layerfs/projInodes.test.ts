import { expect, it } from "vitest"
import { ground, run } from "./projFixture.ts"
import * as Effect from "effect/Effect"

/** Opens, hard-links and writes a base file through descriptors that stay open, and says what the kernel showed. */
const look = `
const fs = require("node:fs")
const fd = fs.openSync("base.txt", "r")
const before = [fs.fstatSync(fd).ino, fs.statSync("base.txt").ino]
fs.linkSync("base.txt", "second.txt")
const w = fs.openSync("base.txt", "a")
fs.writeSync(w, " and more")
const after = [fs.fstatSync(fd).ino, fs.statSync("base.txt").ino, fs.fstatSync(w).ino]
const text = (name) => fs.readFileSync(name, "utf8")
console.log(JSON.stringify({ before, after, text: text("base.txt"), second: text("second.txt") }))
`

for (const projection of ["overlay", "copy"] as const) {
  it(`C9 [${projection}] open, hard-link and write a base file: no name is lost, and the inode is stable where the manifest says so`, async () => {
    const { provider, commit } = await ground({ "base.txt": "base" })
    const manifest = await run(provider.manifest)
    const branch = await run(provider.fork(commit))
    await run(
      Effect.scoped(
        Effect.gen(function* () {
          const workspace = yield* provider.open(branch.id, { projection })
          const result = yield* workspace.exec([process.execPath, "-e", look])
          expect(result.stderr.text).toBe("")
          const seen = JSON.parse(result.stdout.text)
          expect(seen.text).toBe("base and more")
          // A link made inside joins the two names, whatever the layer below.
          expect(seen.second).toBe("base and more")
          expect(seen.after[1]).toBe(seen.after[2])
          const stable = seen.before[1] === seen.after[1]
          // The manifest speaks for the overlay, which `auto` takes; a copy is always stable.
          if (projection === "copy" || manifest.stableInodes) expect(stable).toBe(true)
          else expect(manifest).toMatchObject({ stableInodes: false, hardLinks: "splitOnWrite" })
          const saved = yield* workspace.checkpoint()
          expect(saved.outcome).toBe("committed")
        })
      )
    )
    const stats = await run(provider.listAt(branch.id, ""))
    expect(stats.map(({ path, size }) => [path, size])).toEqual([
      ["base.txt", 13],
      ["second.txt", 13]
    ])
  })
}
