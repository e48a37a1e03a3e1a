/**
 * What `git merge-tree --write-tree -z` prints, as values.
 * Promise: every conflicted entry and every message, paths as bytes. Rules: GW2, K2; git-merge-tree(1), "OUTPUT".
 */
import type { TreePath } from "../../src/base/PathBytes.ts"
import { fromKept, stateRoot } from "./StatePath.ts"

export interface Stage {
  readonly path: TreePath
  readonly id: string
  readonly isLink: boolean
  /** 1 the base, 2 ours, 3 theirs. */
  readonly stage: number
}

interface Message {
  readonly paths: readonly TreePath[]
  /** For example `CONFLICT (modify/delete)`. */
  readonly type: string
}

export interface MergeOutput {
  /** The merged tree. */
  readonly tree: string
  readonly stages: readonly Stage[]
  readonly messages: readonly Message[]
}

const pathOf = (kept: string): TreePath => fromKept(stateRoot + kept)

const unknownOutput = (): Error => new Error("git merge-tree prints what is not known here")

export const readMergeOutput = (output: Buffer): MergeOutput => {
  const fields = output.toString("latin1").split("\0")
  const [tree = ""] = fields
  if (!/^[0-9a-f]{40,64}$/.test(tree) || fields.length < 2) throw unknownOutput()
  const stages: Stage[] = []
  const messages: Message[] = []
  let at = 1
  for (; at < fields.length && fields[at] !== ""; at += 1) {
    const [, mode, id, stage, path] = /^(\d+) ([0-9a-f]+) ([123])\t(.+)$/s.exec(fields[at]!) ?? []
    if (path === undefined) throw unknownOutput()
    stages.push({ path: pathOf(path), id: id!, isLink: mode === "120000", stage: Number(stage) })
  }
  at += 1
  while (at < fields.length - 1) {
    const count = Number(fields[at])
    const paths = fields.slice(at + 1, at + 1 + count).map(pathOf)
    messages.push({ paths, type: fields[at + 1 + count] ?? "" })
    at += count + 3
  }
  return { tree, stages, messages }
}
