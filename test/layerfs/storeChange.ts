/** Changes and paths as the store takes them; free of any test runner, so that child processes may use it. */
import type { LayerStore } from "../../providers/layerfs/LayerStore.ts"
import type { CommitRow } from "../../src/workspace/kit/RefStore.ts"
import type { TreeChange } from "../../src/workspace/kit/Tree.ts"

/** Bytes of a path as the tree has them: latin1. */
export const latin = (text: string): string => Buffer.from(text, "utf8").toString("latin1")

export const put = (path: string, text: string | Buffer, mode = 0o644): TreeChange => ({
  op: "putFile",
  path,
  mode,
  mtimeNs: 1_700_000_000_123_456_789n,
  content: { bytes: Buffer.from(text) }
})

/** Every commit that a ref grew from, newest first. */
export const logOf = async (store: LayerStore, ref: string): Promise<readonly CommitRow[]> => {
  const found: CommitRow[] = []
  for (let after: string | undefined; ; ) {
    const page = await store.call("log", { refs: [ref], path: null, after })
    found.push(...page.commits)
    if (page.next === null) return found
    after = page.next
  }
}

/** The n-th edit of a file of 2 MiB: now in place, now longer, now shorter; always the same one. */
export const spliceOf = (n: number): { offset: number; deleteCount: number; bytes: Uint8Array } => ({
  offset: (n * 611_953) % 1_500_000,
  deleteCount: [10, 0, 30_000][n % 3]!,
  bytes: Buffer.alloc([10, 20_000, 1][n % 3]!, `edit ${n} `)
})
