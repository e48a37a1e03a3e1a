/**
 * The identity of an immutable state that somebody may judge, hand over or accept.
 * Promise: the identity names content and environment, never a label: two candidates are the same state exactly when
 * `identity` is equal; a branch name proves nothing. Rules: W5, W6, W20, E2, G75.
 */
import * as Schema from "effect/Schema"
import { type Digest, digestJson } from "../base/Digest.ts"
import { CandidateRefused, EnvironmentMismatch } from "./WorkspaceError.ts"

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

/** A branch is to be opened as the state that a candidate names. */
export interface CandidateOpening {
  readonly candidate: Candidate
  /** `environmentDigest` of the environment here, read with the declarations that the candidate's was read with. */
  readonly environment?: Digest | undefined
  /** The candidate's environment digest: says that another environment is meant to be used. */
  readonly allowEnvironment?: Digest | undefined
}

/**
 * What speaks against opening `head` as a candidate: another tree, or another environment that the caller did not name. An
 * environment that nobody read is not the same (W20).
 */
export const checkOpening = (
  { candidate, environment, allowEnvironment }: CandidateOpening,
  head: { readonly commit: string; readonly root: string }
): CandidateRefused | EnvironmentMismatch | undefined => {
  if (head.root !== candidate.root) {
    return new CandidateRefused({
      message: "The branch does not stand on the candidate: its head holds another tree.",
      remedy: "Fork the candidate's commit and open that branch.",
      reason: "otherTree",
      commit: head.commit
    })
  }
  if (environment === candidate.environment || allowEnvironment === candidate.environment) return undefined
  return new EnvironmentMismatch({
    message:
      environment === undefined
        ? "The candidate names the environment that it was made in, and the environment here was not given."
        : "The candidate was made in another environment than the one here.",
    remedy:
      "Read the environment here with the same declarations and pass it as `environment`; or name the candidate's own digest in `allowEnvironment` to open it all the same.",
    candidate: identity(candidate),
    expected: candidate.environment,
    actual: environment ?? null
  })
}

/** The one digest over every field. */
export const identity = (candidate: Candidate): Digest => digestJson({ ...candidate })
