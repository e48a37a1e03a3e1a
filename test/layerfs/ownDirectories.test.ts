/** Directories that a workspace owns from the start, with hard links across them. */
import { once } from "node:events"
import { existsSync, mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { execFileSync, spawn } from "node:child_process"
import { describe, expect, it, vi } from "vitest"
import { endedAtEnd, forkOf, ground, providerOn, run, scratch, shell, treeAt, using, write } from "./projFixture.ts"

const odd = 'it\'s $(x) "q"\n`y`'
const projections = ["overlay", ...(existsSync("/dev/fuse") ? (["lazy"] as const) : [])] as const
const ownDirs = ["src", "src/deep/**", "pkg/in", "absent"]

/** Everything as it looks: of a directory, an overlay does not know the links. */
const look = `find . -mindepth 1 \\( -type d -printf '%P d %m %T@\\0' -o -printf '%P %y %m %T@ %n %l\\0' \\) | sort -z | tr '\\0\\n' '\\n?'`
/** Names that ought to be one file and are not. */
const same = `for f in src/deep/b lib/x/c "$PWD/top"; do [ src/a -ef "$f" ] || echo "$f"; done; [ pkg/in/y -ef pkg/z ] || echo pkg`

const imported = async () => {
  const root = scratch()
  const origin = join(root, "origin")
  mkdirSync(origin)
  write(origin, {
    "src/a": "one\n",
    "src/deep/b": { hard: "src/a" },
    "src/alone": "alone\n",
    "src.coppice-own/kept": "kept\n",
    "lib/x/c": { hard: "src/a" },
    top: { hard: "src/a" },
    "pkg/in/y": "two\n",
    "pkg/z": { hard: "pkg/in/y" },
    [`src/${odd}`]: "odd\n",
    [`lib/${odd}/in`]: { hard: `src/${odd}` },
    "lib/l": { link: "../src/a" }
  })
  execFileSync("find", [origin, "-depth", "-exec", "touch", "-h", "-d", "2001-02-03 04:05:06.123456789", "{}", "+"])
  const provider = await providerOn(join(root, "store"))
  const { commit } = await run(provider.importDirectory({ source: origin }))
  return { provider, branch: await forkOf(provider, commit) }
}

describe.each(projections)("%s", (projection) => {
  it("C14 W22 L15 W8 hard links across the edge of an owned directory stay links, times stay, and owning alone is no change", async () => {
    const { provider, branch } = await imported()
    const before = await using(provider, branch, { projection }, (workspace) => shell(workspace, look))
    await using(provider, branch, { projection, ownDirs }, async (workspace) => {
      const after = await shell(workspace, look)
      expect(after).toBe(before)
      expect(await shell(workspace, same)).toBe("")
      expect(await run(workspace.changes)).toEqual([])
      expect(await run(workspace.checkpoint({ keepTimes: true }))).toMatchObject({ outcome: "unchanged" })
      await shell(workspace, `printf more >> lib/x/c; python3 -c 'import os; os.rename("pkg/in", "pkg/out")'`)
      expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "committed", linkSplit: [] })
    })
    const tree = await treeAt(provider, branch)
    for (const name of ["src/a", "src/deep/b", "lib/x/c", "top"]) expect(tree[name]).toBe("one\nmore")
    expect([tree["pkg/out/y"], tree["pkg/z"]]).toEqual(["two\n", "two\n"])
    await using(provider, branch, { projection }, async (workspace) => {
      expect(await shell(workspace, "[ pkg/out/y -ef pkg/z ] && [ src/a -ef top ]")).toBe("")
    })
  })

  it("L15 W22 a group of which some names were made one new file and one was not touched is listed as split; removed names are none", async () => {
    const { provider, branch } = await imported()
    await using(provider, branch, { projection }, async (workspace) => {
      await shell(workspace, "printf new > t; mv t src/a; ln -f src/a src/deep/b; ln -f src/a lib/x/c")
      expect(await run(workspace.checkpoint())).toMatchObject({
        outcome: "committed",
        linkSplit: [{ path: "lib/x/c" }]
      })
    })
  })

  it("L15 W22 a group whose other names were removed or replaced is not listed as split", async () => {
    const { provider, branch } = await imported()
    await using(provider, branch, { projection }, async (workspace) => {
      await shell(workspace, "printf new > t; mv t src/a; ln -f src/a src/deep/b; rm -r lib/x; rm top; ln -s x top")
      expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "committed", linkSplit: [] })
    })
  })
})

it("W12 W23 C14 what was killed while it took its directories had no work in it: nothing of the base is missing in what is recovered", async () => {
  const files = Object.fromEntries(Array.from({ length: 3000 }, (_, n) => [`own/d${n % 30}/f${n}`, String(n)]))
  const { provider, store, commit } = await ground(files)
  for (const end of ["recover", "discardLeft"] as const) {
    const branch = await forkOf(provider, commit)
    const victim = spawn(process.execPath, [join(import.meta.dirname, "projVictim.ts"), store, branch, "own"], {
      stdio: "ignore"
    })
    endedAtEnd(victim)
    const work = join(store, "layerfs/work")
    const taking = () =>
      readdirSync(work).flatMap((name) =>
        existsSync(join(work, name, "owning")) ? [join(work, name, "upper")] : []
      )[0]
    await vi.waitUntil(() => existsSync(taking() ?? "") && readdirSync(taking()!).some((name) => name !== "own"), {
      interval: 1,
      timeout: 60_000
    })
    victim.kill("SIGKILL")
    await once(victim, "exit")
    const [left] = await run(provider.left)
    expect(left).toMatchObject({ state: "interrupted", branch })
    if (end === "discardLeft") await run(provider.discardLeft(left!.id, "not wanted"))
    else {
      const recovered = await run(provider.recover(left!.id))
      expect(recovered.checkpoint).toMatchObject({ outcome: "unchanged", commit })
      expect((await run(provider.branch(recovered.branch))).head).toBe(commit)
    }
    expect([await run(provider.left), readdirSync(work)]).toEqual([[], []])
  }
  const kept = await using(provider, await forkOf(provider, commit), { ownDirs: ["own"] }, async (workspace) => {
    await shell(workspace, "mv own/d1 own/moved")
    return workspace.id
  })
  expect((await run(provider.recover(kept))).checkpoint.outcome).toBe("committed")
})
