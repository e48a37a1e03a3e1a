/** What a checkpoint found and no tree can hold, as its outcome tells it. Rules: W8, W10. */
import { show } from "../../base/PathBytes.ts"
import type { SkippedEntries } from "../WorkspaceValues.ts"
import type { Skipped } from "./Harvest.ts"

/** Entries named at most: an attempt may have made millions. */
const namedEntries = 1000

export const listedSkipped = (skipped: readonly Skipped[]): SkippedEntries => {
  if (skipped.length === 0) return {}
  const named = skipped.slice(0, namedEntries).map(({ path, what }) => ({ ...show(path), reason: what }))
  return { skipped: named, skippedTotal: skipped.length }
}
