/**
 * The port through which an open place asks whether whoever drives it may still change it.
 * Promise: asked anew before every mutating call and every checkpoint, nothing is remembered; "no" and "it cannot be known"
 * are two answers. Rules: W18, P7. The session supplies one over a lease (`leaseGuard`); a workspace asks it.
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "./CoppiceError.ts"

/**
 * The caller's authority has ended: its lease was taken over, released or ran out. The call was refused and the branch has not
 * moved. What the workspace held beyond its last checkpoint stands in `quarantine`; null when there was nothing, or when it
 * could not be committed: then the workspace is listed by `left`. Final for this workspace.
 * Remedy: stop, claim the work again, and open the branch anew.
 */
export class AuthorityLost extends Schema.TaggedError<AuthorityLost>()("AuthorityLost", {
  ...errorFields("AUTHORITY_LOST"),
  /** What held it, for example `lease on todo_1, epoch 3`. */
  authority: Schema.String,
  why: Schema.String,
  /** Filled in by the workspace that asked. */
  workspace: Schema.NullOr(Schema.String),
  quarantine: Schema.NullOr(Schema.Struct({ branch: Schema.String, commit: Schema.String }))
}) {}

/** Whether the authority still holds could not be read. The call was refused, nothing was changed; repeat it. */
export class AuthorityUnknown extends Schema.TaggedError<AuthorityUnknown>()("AuthorityUnknown", {
  ...errorFields("AUTHORITY_UNKNOWN"),
  authority: Schema.String,
  /** Code of the error that kept it from being read. */
  because: Schema.String
}) {}

/** Succeeds while the authority holds. */
export type AuthorityGuard = Effect.Effect<void, AuthorityLost | AuthorityUnknown>
