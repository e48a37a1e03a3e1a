/**
 * The directory of kept states: one directory a state, named by its project and commit; in it `tree`, and a mark that is written last.
 * Promise: a name stands for a complete state or does not stand; whatever is being made or taken away has a name that tells whose it is, and
 * goes when that process has died; whoever changes a kept tree afterwards is seen. Rules: RL2, L8, L10, W12.
 */
import * as fs from "node:fs"
import { randomUUID } from "node:crypto"
import { dirname, join } from "node:path"
import { fromInput } from "../../src/base/PathBytes.ts"
import { isAliveIn } from "../../src/base/LifeSign.ts"
import { freshName } from "../../src/workspace/kit/Machine.ts"
import { makerOf } from "../../src/workspace/kit/WorkDirectory.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import type { Snapshot } from "../../src/workspace/kit/SnapshotBackend.ts"
import { openRoot } from "../../src/base/Descent.ts"
import { removeAny } from "./Subvolumes.ts"
import { runTool } from "./Tool.ts"

const nameOf = ({ project, commit }: Snapshot): string => `${project}.${commit}`

export const stateDirectory = (states: string, snapshot: Snapshot): string => join(states, nameOf(snapshot))

export const treeIn = (state: string): string => join(state, "tree")

const markIn = (state: string): string => join(state, "mark")

/** Says that everything in the tree is older. */
export const writeMark = (state: string): void => fs.writeFileSync(markIn(state), "", { flag: "wx", mode: 0o400 })

/**
 * True when nothing of the tree was changed since the mark was written, by the change times that only the kernel sets. False says only that
 * it may have been: a store that was copied is younger than its mark as well.
 */
export const isUntouched = async (state: string): Promise<boolean> => {
  let inside: number
  try {
    inside = openRoot(fromInput(state))
  } catch (error) {
    // Whoever makes a tree of it says so.
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return true
    throw error
  }
  try {
    const found: Buffer[] = []
    const argv = ["find", "tree", "-newercc", "mark", "-print", "-quit"]
    const onOutput = (piece: Buffer) => found.push(piece)
    const plain = await runTool(argv, { inside, onOutput })
    if (plain.code === 0 || process.getuid?.() === 0) return plain.code === 0 && found.length === 0
    const all = await runTool(argv, { inside, onOutput, mapped: true })
    return all.code === 0 && found.length === 0
  } finally {
    fs.closeSync(inside)
  }
}

/** Takes away a state, or what was to become one. */
export const removeState = async (state: string): Promise<void> => {
  await removeAny(fromInput(treeIn(state)))
  await removeTree(state)
}

/** A place for something that is not complete yet, or not any more. */
export const workingPlace = (states: string): string => join(states, freshName(randomUUID()))

/** States that stand. What dead processes were making or taking away is removed on the way. */
export const standing = async (states: string): Promise<readonly Snapshot[]> => {
  const found: Snapshot[] = []
  for (const name of await fs.promises.readdir(states)) {
    const maker = makerOf(join(states, name))
    if (name.startsWith(".")) {
      if (maker !== null && isAliveIn(dirname(states), maker) === false) await removeState(join(states, name))
      continue
    }
    const [project, commit, ...more] = name.split(".")
    if (project !== undefined && commit !== undefined && more.length === 0) found.push({ project, commit })
  }
  return found
}
