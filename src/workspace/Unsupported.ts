/**
 * The answer to what a provider does not have.
 * Promise: the capability is named as the manifest and the contract name it, the remedy says what can be done instead, and
 * nothing was done. Rules: W1, W3.
 */
import * as Effect from "effect/Effect"
import { Unsupported } from "./WorkspaceError.ts"

/** Operations of W3 that a provider may lack, with what to do without them. */
const remedies = {
  importGit: "Check the repository out into a directory and give that to `importDirectory`.",
  merge: "Fork the newer head and apply the other side's patch there (`exportPatch`).",
  retire: "Leave the branch: it costs one row.",
  blame: "Read the commits of the path with `log`, and what each changed with `diff`.",
  exportBundle: "Export the state with `exportDirectory`.",
  importBundle: "Import the directory that the state was exported to with `importDirectory`.",
  compact: "Leave the store: what is kept is kept as it is.",
  collect: "Leave the store: nothing is ever freed from it; a new one can be made from an export."
} as const

export type LackingOperation = keyof typeof remedies

/** Fails with `Unsupported` for an operation. */
export const unsupported = (capability: LackingOperation): Effect.Effect<never, Unsupported> =>
  Effect.suspend(() =>
    Effect.fail(
      new Unsupported({
        message: `This workspace provider has no \`${capability}\`; its manifest says so.`,
        remedy: remedies[capability],
        capability
      })
    )
  )
