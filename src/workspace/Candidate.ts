/**
 * The identity of an immutable state that somebody may judge, hand over or accept.
 * Promise: the identity names content and environment, never a label: two candidates are the same state exactly when
 * `identity` is equal; a branch name proves nothing. Rules: W5, W6, E2, G75.
 */
import * as Schema from "effect/Schema"
import { type Digest, digestJson } from "../base/Digest.ts"

const DigestText = Schema.String.check(Schema.isPattern(/^sha256:[0-9a-f]{64}$/))

/** A candidate, as it is journaled and handed over. */
export const Candidate = Schema.Struct({
  provider: Schema.String,
  providerVersion: Schema.String,
  store: Schema.String,
  project: Schema.String,
  commit: Schema.String,
  /** The provider's own root. */
  root: DigestText,
  /** Provider-neutral (W6). */
  treeDigest: DigestText,
  /** The dimensions that the tree digest compares; digests of two profiles are never compared. */
  profile: Schema.String,
  /** Operating system, architecture, libc, toolchain and lockfiles, as one digest. */
  environment: DigestText,
  /** Identity of the candidate that this one grew from. */
  parent: Schema.NullOr(Schema.String)
})
export type Candidate = typeof Candidate.Type

/** The one digest over every field. */
export const identity = (candidate: Candidate): Digest => digestJson({ ...candidate })
