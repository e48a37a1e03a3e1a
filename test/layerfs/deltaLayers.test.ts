/** What a commit needs above another one's layers: exactly its tree, at the cost of the difference. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { seededRandom } from "../seededRandom.ts"
import { committed, forkOf, ground, run, scratch, shell, using } from "./projFixture.ts"

/** Everything that can be seen of a tree but its own root: types, modes, times, links, contents. */
const listing = String.raw`find . -mindepth 1 -printf '%P %y %m %T@ %n %l\n' | sort; find . -type f -links +1 -printf '%i %P\n' | sort -k2 | awk '{ if (!($1 in g)) g[$1] = $2; print g[$1], $2 }'; find . -type f -exec sha256sum {} + | sort`

/** Counts no link of a directory: an overlay gives each one 1. */
const seen = (text: string): string[] => text.split("\n").map((line) => line.replace(/^(\S* d \d+ \S+) \d+/, "$1"))

const exported = async (provider: WorkspaceProvider, commit: string): Promise<string[]> => {
  const target = join(scratch(), "out")
  await run(provider.exportDirectory(commit, target))
  return seen(execFileSync("sh", ["-c", listing], { cwd: target, encoding: "utf8" }))
}
const shown = async (provider: WorkspaceProvider, commit: string): Promise<string[]> =>
  using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) =>
    seen(await shell(workspace, listing))
  )

const layers = (store: string, kind: "base" | "delta"): string[] => {
  const at = join(store, "layerfs/cache", kind)
  return fs.existsSync(at) ? fs.readdirSync(at).filter((name) => !/\.(?:ok|size|at)$/.test(name)) : []
}

const script = (random: (below: number) => number): string => {
  const pick = (names: readonly string[]): string => names[random(names.length)]!
  const path = (): string =>
    [pick(["a", "b"]), pick(["x", "y", "z"]), pick(["1", "2", "3"])].slice(0, 1 + random(3)).join("/")
  const line = (): string => {
    const [p, q] = [path(), path()]
    return pick([
      `mkdir -p ${p}`,
      `mkdir -p $(dirname ${p}) && echo ${random(1e6)} > ${p}`,
      `rm -rf ${p}`,
      `rm -rf ${p}; mkdir -p ${p}/deep && echo ${random(1e6)} > ${p}/deep/file`,
      `mv -T ${p} ${q}`,
      `ln -f ${p} ${p}.hard`,
      `ln -sfn ${q} ${p}.soft`,
      `chmod ${pick(["600", "755", "444", "711"])} ${p}`,
      `touch -d @${random(1e9)}.123456789 ${p}`,
      `echo more >> ${p}.hard`
    ])
  }
  return `${Array.from({ length: 1 + random(6) }, () => `(${line()}) 2> /dev/null`).join("\n")}\ntrue`
}

it("L15 L14 W7 W22 whatever lies between two commits, the delta above the first one's layers shows the second: modes, times, links and contents", async () => {
  const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 100_000)
  console.log(`seed ${seed}`)
  const random = seededRandom(seed)
  const { provider, store, commit } = await ground({
    "a/x/1": "one",
    "a/y/2": "two",
    "a/y/2.hard": { hard: "a/y/2" },
    b: null
  })
  const commits = [commit]
  const branch = await forkOf(provider, commit)
  const alone = [
    "touch -d @1000000000.5 a/x/1",
    "ln a/y/2 b/third",
    "chmod 711 a/x",
    "rm a/y/2",
    "ln -sfn x a/s",
    "mkdir -p a/e/f"
  ]
  for (const next of [...alone, ...Array.from({ length: 12 }, () => script(random))]) {
    // Through a copy: no upper becomes a layer, every delta comes from the store.
    await using(provider, branch, { projection: "copy" }, async (workspace) => {
      await shell(workspace, next)
      const outcome = await run(workspace.checkpoint({ keepTimes: true }))
      if (outcome.outcome === "committed") commits.push(outcome.commit)
    })
  }
  expect(await shown(provider, commit)).toEqual(await exported(provider, commit))
  // From the first one's tree, then from the parent's layers.
  for (const wanted of [commits.at(-1)!, ...commits.slice(1)]) {
    expect(await shown(provider, wanted), `seed ${seed}`).toEqual(await exported(provider, wanted))
  }
  expect(layers(store, "base").length).toBe(1)
  expect(layers(store, "delta").length).toBe(commits.length - 1)
}, 120_000)

it("L1 L2 L11 fifty checkpoints deep, and beside them by direct calls, a fork opens without a copy of the tree, on at most eight layers", async () => {
  const megabytes = 8
  const { provider, commit, store } = await ground({ large: Buffer.alloc(megabytes * 2 ** 20, "x"), "src/0": "0" })
  const branch = await forkOf(provider, commit)
  for (let depth = 1; depth <= 50; depth += 1) {
    if (depth % 3 === 0) await run(provider.applyTo(branch, [{ op: "write", path: "src/direct", bytes: `${depth}` }]))
    else {
      await using(provider, branch, { projection: "overlay" }, async (workspace) => {
        await shell(workspace, `echo ${depth} > src/${depth}; rm -f src/${depth - 10}`)
        await committed(workspace)
      })
    }
  }
  const { head } = await run(provider.branch(branch))
  const fork = await forkOf(provider, head)
  const beside = await openLayerStore({ store })
  await using(provider, fork, { projection: "overlay" }, async (workspace) => {
    const [row] = await beside.call("workspaces", { states: ["open"] })
    expect(row!.lowers.length).toBeLessThanOrEqual(8)
    expect(await shell(workspace, "cat src/50 src/direct; wc -c < large")).toBe(`50\n48${megabytes * 2 ** 20}\n`)
  })
  await beside.close()
  expect(await shown(provider, head)).toEqual(await exported(provider, head))
  expect(layers(store, "base").length).toBe(1)
  expect((await run(provider.stats)).cache!.bytes).toBeLessThan((megabytes + 2) * 2 ** 20)
}, 120_000)

it("L1 a delta that would hold more than is worth it is not begun, and nothing of it is written", async () => {
  const { provider, commit, store, root } = await ground({ a: "a", b: "b", c: "c" })
  const branch = await forkOf(provider, commit)
  const operations = ["a", "b", "d"].map((path) => ({ op: "write" as const, path, bytes: "new" }))
  await run(provider.applyTo(branch, operations))
  const { head } = await run(provider.branch(branch))
  const beside = await openLayerStore({ store })
  const delta = (limit: number, name: string): Promise<boolean> =>
    beside.call("materialiseDelta", { commit: head, below: commit, target: join(root, name), limit })
  expect([await delta(3, "small"), await delta(4, "large")]).toEqual([false, true])
  expect([fs.existsSync(join(root, "small")), fs.readdirSync(join(root, "large"))]).toEqual([false, ["a", "b", "d"]])
  await beside.close()
})

it.each([
  "echo more >> g/2",
  "rm g/1",
  "rm g/2",
  "rm -r h",
  "rm -r h; echo file > h",
  "cp -p g/2 t; cat t > g/2; touch -r t g/2; rm t; echo other > other",
  "ln lone g/5"
])(
  "W22 L15 after `%s` the next workspace shows a hard-link group as its commit has it, link counts too, over an adopted layer or one from the store",
  async (change) => {
    const { provider, commit, store } = await ground({
      "g/1": "one\n",
      "g/2": { hard: "g/1" },
      "g/3": { hard: "g/1" },
      "h/i/4": { hard: "g/1" },
      "h/i/j": "alone",
      lone: "lone\n"
    })
    for (const projection of ["overlay", "copy"] as const) {
      const branch = await forkOf(provider, commit)
      const head = await using(provider, branch, { projection }, async (workspace) => {
        await shell(workspace, change)
        return committed(workspace)
      })
      // Where no name of the group was touched, the upper itself becomes the layer; one from the store is made when it is asked for.
      expect(layers(store, "delta").filter((name) => name.startsWith(head)).length).toBe(
        projection === "overlay" && change.startsWith("ln lone") ? 1 : 0
      )
      expect(await shown(provider, head)).toEqual(await exported(provider, head))
    }
  }
)
