/**
 * Makes what git wrote survive a power cut: git flushes its files, and nobody flushes the directories in which they appear.
 * Promise: after `flushRepository` the packs and the reference of a keep are on the disk. Rules: L8, GW2; fsync(2).
 */
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { syncDirectory } from "../../src/workspace/kit/StoreDirectory.ts"

/** `refs` are loose references that were just written. */
export const flushRepository = (repository: string, refs: readonly string[]): void => {
  const directories = new Set([repository, join(repository, "objects/pack")])
  for (const ref of refs) {
    for (let at = dirname(join(repository, ref)); at.length > repository.length; at = dirname(at)) directories.add(at)
  }
  for (const directory of directories) if (existsSync(directory)) syncDirectory(directory)
}
