/** Names of one file through a merge. Rules: W22, K2, W10; 04 L4. */
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { forkOf, imported, repository, run, shell, using } from "./ground.ts"

const lines = (...changed: readonly string[]): string => {
  const all = Array.from({ length: 20 }, (_, n) => changed.find((line) => line.startsWith(`${n} `)) ?? `${n} base`)
  return `${all.join("\n")}\n`
}

/** In the base `d/a`, `d/b` and `e` are one file; `single` and `twin` are two of the same content. */
const merged = async (ours: string, theirs: string) => {
  const source = repository({ single: "single\n", "d/a": lines() }, { twin: "single\n" })
  for (const name of ["d/b", "e"]) fs.linkSync(join(source, "d/a"), join(source, name))
  const { provider, receipt } = await imported(source)
  const branches: string[] = []
  for (const command of [ours, theirs]) {
    const branch = await forkOf(provider, receipt.layer)
    await using(provider, branch, async (workspace) => {
      await shell(workspace, command)
      expect((await run(workspace.checkpoint({}))).outcome).toBe("committed")
    })
    branches.push(branch)
  }
  const outcome = await run(provider.merge(branches[1]!, branches[0]!))
  if (outcome.outcome === "conflict") return outcome.conflicts.map(({ kind, path }) => `${kind} ${path}`)
  return using(provider, branches[0]!, async (workspace) => {
    expect((await run(workspace.changes)).length).toBe(0)
    const listed = await shell(workspace, "find . -path ./.git -prune -o -type f -printf '%i %m %P\\n' | sort -k 3")
    const groups = new Map<string, string[]>()
    for (const line of listed.trim().split("\n")) {
      const [inode, mode, path] = line.split(" ") as [string, string, string]
      groups.set(inode, [...(groups.get(inode) ?? []), `${path} ${mode}`])
    }
    const shown: Record<string, string> = {}
    for (const names of groups.values())
      shown[names.join(", ")] = await shell(workspace, `cat ${names[0]!.split(" ")[0]}`)
    return shown
  })
}

const twin = { "twin 644": "single\n" }
const single = { "single 644": "single\n", ...twin }
const whole = "d/a 644, d/b 644, e 644"

const cases: readonly (readonly [what: string, ours: string, theirs: string, comesTo: unknown])[] = [
  [
    "an edit in place on one side is that of all names",
    "echo more >> single",
    "sed 's/^3 base$/3 theirs/' d/a > t; cat t > d/a; rm t",
    { [whole]: lines("3 theirs"), "single 644": "single\nmore\n", ...twin }
  ],
  [
    "edits in place on both sides, lines apart, are merged into one file",
    "sed 's/^3 base$/3 ours/' e > t; cat t > e; rm t",
    "sed 's/^17 base$/17 theirs/' e > t; cat t > e; rm t",
    { [whole]: lines("3 ours", "17 theirs"), ...single }
  ],
  [
    "a name that one side adds gets what the other one made of the file, content and mode",
    "echo last >> e; chmod 600 e",
    "ln e another",
    { "another 600, d/a 600, d/b 600, e 600": `${lines()}last\n`, ...single }
  ],
  [
    "a name that one side renames stays a name",
    "echo last >> e",
    "mv d/a moved",
    { "d/b 644, e 644, moved 644": `${lines()}last\n`, ...single }
  ],
  [
    "a name that one side removes is gone, the others stay one",
    "echo last >> single",
    "rm d/a",
    { "d/b 644, e 644": lines(), "single 644": "single\nlast\n", ...twin }
  ],
  [
    "a file that one side made of a name is a file of its own, with the same content too",
    "echo last >> single",
    "cp -p d/a t; mv t d/a",
    { "d/a 644": lines(), "d/b 644, e 644": lines(), "single 644": "single\nlast\n", ...twin }
  ],
  [
    "a name that one side gave to the file gets what the other one made of that",
    "echo last >> e",
    "ln -f e single",
    { "d/a 644, d/b 644, e 644, single 644": `${lines()}last\n`, ...twin }
  ],
  [
    "files that one side made one, and the other changed apart, are a conflict",
    "ln -f single twin",
    "echo theirs >> single; echo other >> twin",
    ["link twin"]
  ],
  [
    "a name that one side gave to another file, whose content the other side changed, is a conflict",
    "ln -f single e",
    "echo theirs >> d/a",
    ["content e"]
  ]
]

it.each(cases)("W22 K2 L4 hard links in a merge: %s", async (_, ours, theirs, expected) => {
  expect(await merged(ours, theirs)).toEqual(expected)
})
