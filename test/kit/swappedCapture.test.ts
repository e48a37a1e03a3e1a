/** A capture beside a process that swaps a directory for a link out of the tree, at each of its steps. */
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { toBytes } from "../../src/base/PathBytes.ts"
import { CommitTree } from "../../src/workspace/kit/CommitTree.ts"
import { harvest, type HarvestInput } from "../../src/workspace/kit/Harvest.ts"
import { PlacedFiles } from "../../src/workspace/kit/PlacedFiles.ts"
import { scratch, write } from "../layerfs/projFixture.ts"

const files = (prefix: string, text: string) =>
  Object.fromEntries(Array.from({ length: 150 }, (_, n) => [`${prefix}/f${n}`, text]))

const root = { path: "", name: "", type: "directory", mode: 0o755, mtimeNs: 0n, size: 0 } as const
const nothing = new CommitTree([{ ...root, id: null, target: null, linkGroup: null }])

/** Captures a fresh tree and reads what it found; before step `at`, `d/e` becomes a link to other files of the same names, and more. */
const captured = (kind: HarvestInput["kind"], at: number): { readonly steps: number; readonly outcome: string } => {
  const directory = scratch()
  const tree = join(directory, "tree")
  write(tree, { ...files("d/e", "inside"), ...files("z", "inside") })
  write(join(directory, "outside"), { ...files(".", "outside"), secret: "outside" })
  const swap = (): void => {
    fs.renameSync(join(tree, "d/e"), join(tree, "d/parked"))
    fs.symlinkSync(join(directory, "outside"), join(tree, "d/e"))
  }
  const input: HarvestInput =
    kind === "scan" ? { kind, tree, snapshot: join(directory, "snapshot") } : { kind, upper: tree, merged: tree }
  const descriptors = (): number => fs.readdirSync("/proc/self/fd").length
  const before = descriptors()
  const placed = new PlacedFiles()
  let steps = 0
  const step = (): void => {
    if (steps === at) swap()
    steps += 1
  }
  try {
    const walk = harvest(input, nothing)
    let found = walk.next()
    for (; found.done !== true; found = walk.next()) step()
    for (const change of found.value.changes) {
      expect(change.path).not.toMatch(/secret/)
      if (change.op !== "putFile" || !("file" in change.content)) continue
      step()
      expect(fs.readFileSync(toBytes(placed.at(change.content)), "utf8"), change.path).toBe("inside")
    }
    return { steps, outcome: "whole" }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === undefined) throw error
    return { steps, outcome: code }
  } finally {
    placed.close()
    expect(descriptors()).toBe(before)
  }
}

it.each(["scan", "overlay"] as const)(
  "W21 C27 %s: whatever step it meets, no byte and no name of outside is in the capture: it is right, or it fails",
  (kind) => {
    const { steps, outcome } = captured(kind, -1)
    expect([outcome, steps > 300]).toEqual(["whole", true])
    const outcomes = new Set<string>()
    // Three steps of the walk, and the readings of files before, in and behind the directory.
    for (const at of [0, 1, 2, 3, 4, 5, 80, 170, 290]) outcomes.add(captured(kind, at).outcome)
    expect([...outcomes].every((code) => ["whole", "ENOTDIR", "ELOOP", "ENOENT"].includes(code))).toBe(true)
    expect(outcomes.has("whole")).toBe(true)
    expect(outcomes.size).toBeGreaterThan(1)
  },
  120_000
)
