/**
 * Artifacts that show a cost, and what is known of them now.
 * Promise: the amount stands in the ledger and nowhere else; an artifact that is missing, damaged or of other work is reported
 * for as long as it is so, changes no sum and admits nothing. Governance reads no file: whoever keeps the artifacts hands in a
 * reader. Rules: G51, G54; C57.
 */
import * as Effect from "effect/Effect"
import { toUsd } from "./Field.ts"
import { rows } from "./Handler.ts"
import type { Load } from "./Module.ts"

/** A recorded cost that names an artifact. */
export interface SpendArtifact {
  readonly reservation: string
  readonly effectId: string
  readonly turn: string | null
  /** What the spend named as its evidence, or null. */
  readonly evidence: string | null
  /** Digest of the turn's saved result, or null. */
  readonly digest: string | null
  /** The amount in the ledger; null while it is owed. */
  readonly usd: number | null
}

/**
 * `missing`: there is none where it should be. `unreadable`: it cannot be opened. `notUtf8`, `malformed` (cut short, no JSON),
 * `shape` (another kind of value, such as `[]` or `null`): it says nothing. `otherWork`: it is of another turn or effect.
 * `altered`: it is well formed, and not what was recorded.
 */
export type ArtifactFault = "missing" | "unreadable" | "notUtf8" | "malformed" | "shape" | "otherWork" | "altered"

/** Reads artifacts; handed in by whoever keeps them. */
export interface SpendArtifacts {
  readonly check: (artifact: SpendArtifact) => Effect.Effect<ArtifactFault | null>
}

export interface UnreadableEvidence extends Pick<SpendArtifact, "reservation" | "effectId" | "turn"> {
  readonly fault: ArtifactFault
}

/** The costs of a goal that name an artifact, oldest first. */
export function* loadArtifacts(goal: string): Load<readonly SpendArtifact[]> {
  const found = yield* rows(
    "SELECT r.id, r.effect_id, r.turn, r.evidence, r.spent_usd_micros, t.result FROM reservation r " +
      "LEFT JOIN turn t ON t.reservation = r.id " +
      "WHERE r.goal = ? AND r.state IN ('spent', 'owed') AND (r.evidence IS NOT NULL OR t.result IS NOT NULL) " +
      "ORDER BY r.reserved_at, r.id",
    goal
  )
  return found
    .map((row) => ({
      reservation: String(row["id"]),
      effectId: String(row["effect_id"]),
      turn: row["turn"] as string | null,
      evidence: row["evidence"] as string | null,
      digest:
        row["result"] === null
          ? null
          : (JSON.parse(String(row["result"])) as { readonly digest: string | null }).digest,
      usd: row["spent_usd_micros"] === null ? null : toUsd(Number(row["spent_usd_micros"]))
    }))
    .filter((artifact) => artifact.evidence !== null || artifact.digest !== null)
}

export const checkArtifacts = (
  artifacts: readonly SpendArtifact[],
  reader: SpendArtifacts
): Effect.Effect<readonly UnreadableEvidence[]> =>
  Effect.map(
    Effect.forEach(artifacts, (artifact) => reader.check(artifact), { concurrency: 8 }),
    (faults) =>
      artifacts.flatMap(({ reservation, effectId, turn }, index) => {
        const fault = faults[index] ?? null
        return fault === null ? [] : [{ reservation, effectId, turn, fault }]
      })
  )
