/**
 * Going on in a host's own session: asked for by exact id, working directory and home of the host, and read back.
 * Promise: a host that cannot resume says so before anything is started; a session read back that is not the one asked for is a
 * mismatch, and an unknown one fails closed: never a new session in disguise. Rules: S22, S50; C82, C83.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"

const Text = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(4096))

/** A host's session. Private: it stays between the host and who keeps it, and never reaches a message (S2, G6). */
export const HostSession = Schema.Struct({
  id: Text,
  /** The working directory as the host sees it. */
  directory: Text,
  /** The directory in which the host keeps its sessions. */
  home: Text
})
export type HostSession = typeof HostSession.Type

/** This host has no sessions that could be resumed. Nothing was started. */
export class ResumeUnsupported extends Schema.TaggedError<ResumeUnsupported>()("ResumeUnsupported", {
  ...errorFields("RESUME_UNSUPPORTED"),
  host: Schema.String
}) {}

/** The session that was read back is not the one that was asked for. `field` says what differs; its files are kept. */
export class ResumeMismatch extends Schema.TaggedError<ResumeMismatch>()("ResumeMismatch", {
  ...errorFields("RESUME_MISMATCH"),
  /** `absent`: the host named no session at all. */
  field: Schema.Literals(["id", "directory", "home", "absent"])
}) {}

/** Refuses what the host has not declared (S50). */
export const resumable = (
  descriptor: { readonly kind: string; readonly capabilities: readonly string[] },
  resume: HostSession | undefined
): Effect.Effect<void, ResumeUnsupported> =>
  resume === undefined || descriptor.capabilities.includes("resume")
    ? Effect.void
    : Effect.fail(
        new ResumeUnsupported({
          host: descriptor.kind,
          message: `The host ${descriptor.kind} has no sessions that could be resumed.`,
          remedy: "Leave `resume` out, so that it starts a new one, or choose a host that declares `resume`."
        })
      )

/** What differs between the session asked for and the one read back; undefined when nothing does. */
export const sessionMismatch = (asked: HostSession, told: HostSession | undefined): ResumeMismatch | undefined => {
  const field =
    told === undefined
      ? ("absent" as const)
      : (["id", "directory", "home"] as const).find((name) => asked[name] !== told[name])
  return field === undefined
    ? undefined
    : new ResumeMismatch({
        field,
        message: `The host went on in another session than the one asked for (${field}).`,
        remedy:
          "Its work counts for nothing: find out which session it used, and start a new one by name if it must be."
      })
}
