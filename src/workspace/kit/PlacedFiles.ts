/**
 * Files of a list of changes, each found below the directory that it was seen in.
 * Promise: a directory on the way that somebody swaps for a link meanwhile leads nowhere: the call on the file fails with ENOTDIR or ELOOP. Rules: W21, C27.
 *
 * The way by descriptors costs about 3 us of processor time an entry: 13.6 against 10.4 us, a scan of 305,000 entries, two runs.
 */
import { Descent } from "../../base/Descent.ts"
import type { TreePath } from "../../base/PathBytes.ts"

export class PlacedFiles {
  readonly #descents = new Map<TreePath, Descent>()

  /** A path that means the file, until the next one is asked for. Throws Node's errors. */
  at({ file, root }: { readonly file: TreePath; readonly root?: TreePath }): TreePath {
    return root === undefined ? file : this.below(root).to(file.slice(root.length + 1))
  }

  /** Opened at the first question, and closed with the others. */
  below(root: TreePath): Descent {
    const known = this.#descents.get(root)
    if (known !== undefined) return known
    const descent = new Descent(root)
    this.#descents.set(root, descent)
    return descent
  }

  close(): void {
    for (const descent of this.#descents.values()) descent.close()
    this.#descents.clear()
  }
}
