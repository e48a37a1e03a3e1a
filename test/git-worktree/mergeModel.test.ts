/** Random merges against a model of entries. Rules: K2, W10, GW2; 04 L4. The seed is printed. */
import { expect, it } from "vitest"
import type { FileOperation, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { seededRandom } from "../seededRandom.ts"
import { forkOf, imported, repository, run } from "./ground.ts"

interface Entry {
  readonly text: string
  readonly mode: number
}
type Tree = ReadonlyMap<string, Entry>

const names = ["a", "b", "c/d", "c/e", "f/g/h", "i"]
const modes = [0o644, 0o600, 0o755, 0o640]

/** What a merge of entries comes to: the tree, or the paths in conflict by kind. */
const merge = (base: Tree, ours: Tree, theirs: Tree) => {
  const merged = new Map<string, Entry>()
  const conflicts: string[] = []
  for (const name of names) {
    const [b, o, t] = [base.get(name), ours.get(name), theirs.get(name)]
    const same = (x: Entry | undefined, y: Entry | undefined): boolean => x?.text === y?.text && x?.mode === y?.mode
    if (o === undefined || t === undefined) {
      const there = o ?? t
      if (b === undefined) {
        if (there !== undefined) merged.set(name, there)
      } else if (there !== undefined && !same(there, b)) conflicts.push(`${name} editDelete`)
      continue
    }
    const pick = <A>(x: A | undefined, y: A, z: A): A | undefined => (y === z || z === x ? y : y === x ? z : undefined)
    const text = pick(b?.text, o.text, t.text)
    const mode = pick(b?.mode, o.mode, t.mode)
    if (text === undefined) conflicts.push(`${name} ${b === undefined ? "addAdd" : "content"}`)
    if (mode === undefined) conflicts.push(`${name} mode`)
    if (text !== undefined && mode !== undefined) merged.set(name, { text, mode })
  }
  return { merged, conflicts: conflicts.toSorted() }
}

it("K2 W10 GW2 random merges come to what a model of entries says, conflict by conflict", async () => {
  const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
  console.log(`seed ${seed}`)
  const below = seededRandom(seed)
  const random = (): number => below(2 ** 30) / 2 ** 30
  const pick = <A>(of: readonly A[]): A => of[below(of.length)]!
  // Nothing is like anything else: no rename is seen.
  const text = (): string => `${Array.from({ length: 8 }, () => below(2 ** 30).toString(36)).join(" ")}\n`
  const { provider, receipt } = await imported(repository({ kept: "kept\n" }))

  const commit = async (branch: string, from: Tree, to: Tree): Promise<void> => {
    const operations: FileOperation[] = names.flatMap((name): FileOperation[] => {
      const [x, y] = [from.get(name), to.get(name)]
      if (y === undefined) return x === undefined ? [] : [{ op: "remove", path: name }]
      if (x?.text !== y.text) return [{ op: "write", path: name, bytes: y.text, mode: y.mode }]
      return x.mode === y.mode ? [] : [{ op: "chmod", path: name, mode: y.mode }]
    })
    if (operations.length > 0) await run(provider.applyTo(branch, operations))
  }
  const readBack = async (from: WorkspaceProvider, branch: string): Promise<Tree> => {
    const found = new Map<string, Entry>()
    const { paths } = await run(from.globAt(branch, "**"))
    for (const { path } of paths) {
      const stat = await run(from.statAt(branch, path))
      if (stat.type !== "file" || path === "kept") continue
      found.set(path, { text: Buffer.from(await run(from.readAt(branch, path))).toString(), mode: stat.mode })
    }
    return found
  }

  for (let round = 0; round < 12; round += 1) {
    const base: Tree = new Map(
      names.filter(() => random() < 0.7).map((name) => [name, { text: text(), mode: pick(modes) }])
    )
    const change = (shared: Tree): Tree => {
      const tree = new Map(base)
      for (const name of names) {
        const what = random()
        const now = tree.get(name)
        if (what < 0.45) continue
        if (what < 0.55) tree.delete(name)
        else if (what < 0.7 && now !== undefined) tree.set(name, { ...now, mode: pick(modes) })
        else if (what < 0.8 && shared.get(name) !== undefined) tree.set(name, shared.get(name)!)
        else tree.set(name, { text: text(), mode: now?.mode ?? pick(modes) })
      }
      return tree
    }
    const shared: Tree = new Map(names.map((name) => [name, { text: text(), mode: pick(modes) }]))
    const [ours, theirs] = [change(shared), change(shared)]
    const grown = await forkOf(provider, receipt.layer)
    await commit(grown, new Map(), base)
    const [one, other] = [await forkOf(provider, grown), await forkOf(provider, grown)]
    await commit(one, base, ours)
    await commit(other, base, theirs)
    const expected = merge(base, ours, theirs)
    const outcome = await run(provider.merge(other, one))
    if (outcome.outcome === "conflict") {
      expect([round, outcome.conflicts.map(({ path, kind }) => `${path} ${kind}`).toSorted()]).toEqual([
        round,
        expected.conflicts
      ])
    } else {
      expect([round, expected.conflicts]).toEqual([round, []])
      expect([round, await readBack(provider, one)]).toEqual([round, expected.merged])
    }
  }
}, 300_000)
