/**
 * Everything that can go wrong with a workspace and that a caller can act on.
 * Promise: each error is about one named thing, says what to do next, and means that nothing was half done.
 * Rules: 01 "Errors"; W2, W4, W10, W12, W13, W15, W19, W20, W21, W23,
 * L10.
 */
import * as Schema from "effect/Schema"
import { errorFields } from "../base/CoppiceError.ts"

/** This machine cannot do what was asked; `missing` names each lacking piece (W2, J6). */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", {
  ...errorFields("UNAVAILABLE"),
  what: Schema.String,
  missing: Schema.Array(Schema.String)
}) {}

/** The provider does not have this capability at all; its manifest says so (W1). */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", {
  ...errorFields("UNSUPPORTED"),
  capability: Schema.String
}) {}

/** No project, layer, branch, commit, workspace or operation has this id. */
export class RefNotFound extends Schema.TaggedError<RefNotFound>()("RefNotFound", {
  ...errorFields("REF_NOT_FOUND"),
  ref: Schema.String
}) {}

/** The path does not name what the call needs: nothing there, a directory where a file is needed, and so on. */
export class PathError extends Schema.TaggedError<PathError>()("PathError", {
  ...errorFields("PATH_ERROR"),
  reason: Schema.Literals([
    "notFound",
    "notAFile",
    "notADirectory",
    "exists",
    "notEmpty",
    "loop",
    "invalid",
    "invalidMode",
    "renameDirectory",
    "outOfBounds",
    "tooLarge",
    "denied"
  ]),
  path: Schema.String,
  /** Bytes of the file, where a range of it was asked for that it does not have, or too long a one. */
  size: Schema.optional(Schema.Number)
}) {}

/** The path, or a link on its way, leads out of the workspace. Nothing was read or written there (W21). */
export class OutsideWorkspace extends Schema.TaggedError<OutsideWorkspace>()("OutsideWorkspace", {
  ...errorFields("OUTSIDE_WORKSPACE"),
  path: Schema.String
}) {}

/** An `edit` whose text does not match exactly once, or an `apply` refused at `index`. Nothing was changed (W4). */
export class EditRefused extends Schema.TaggedError<EditRefused>()("EditRefused", {
  ...errorFields("EDIT_REFUSED"),
  path: Schema.String,
  /** How often the text was found. */
  matches: Schema.Number,
  /** Which operation of a batch was refused; 0 for a single edit. */
  index: Schema.Number
}) {}

/** The branch moved since this workspace was opened. The branch is untouched and the workspace is kept. */
export class HeadMoved extends Schema.TaggedError<HeadMoved>()("HeadMoved", {
  ...errorFields("HEAD_MOVED"),
  branch: Schema.String,
  expected: Schema.String,
  actual: Schema.String
}) {}

/** Processes are still running inside; a checkpoint would catch them in mid-write (W19). */
export class ProcessesRunning extends Schema.TaggedError<ProcessesRunning>()("ProcessesRunning", {
  ...errorFields("PROCESSES_RUNNING"),
  workspace: Schema.String,
  processes: Schema.Array(Schema.Struct({ pid: Schema.Number, command: Schema.String }))
}) {}

/** The commit cannot stand for a state that somebody may judge or accept. The commit stays as it is (W19). */
export class CandidateRefused extends Schema.TaggedError<CandidateRefused>()("CandidateRefused", {
  ...errorFields("CANDIDATE_REFUSED"),
  /** `live`: captured beside running processes. `otherTree`: the branch that was to be opened as a candidate holds another tree. */
  reason: Schema.Literals(["live", "otherTree"]),
  commit: Schema.String
}) {}

/** The candidate was made in another environment than the one it would be opened in. Nothing was opened (W20). */
export class EnvironmentMismatch extends Schema.TaggedError<EnvironmentMismatch>()("EnvironmentMismatch", {
  ...errorFields("ENVIRONMENT_MISMATCH"),
  /** Identity of the candidate. */
  candidate: Schema.String,
  expected: Schema.String,
  /** The digest of the environment here; null when the caller named none. */
  actual: Schema.NullOr(Schema.String)
}) {}

/** Closing or retiring would drop changes that no checkpoint holds. They are kept (W12). */
export class UncheckpointedChanges extends Schema.TaggedError<UncheckpointedChanges>()("UncheckpointedChanges", {
  ...errorFields("UNCHECKPOINTED_CHANGES"),
  workspace: Schema.String,
  changes: Schema.Number
}) {}

/** The workspace was closed, or its holder process died; its files are kept until a command decides (W23). */
export class WorkspaceClosed extends Schema.TaggedError<WorkspaceClosed>()("WorkspaceClosed", {
  ...errorFields("WORKSPACE_CLOSED"),
  workspace: Schema.String,
  state: Schema.Literals(["closed", "interrupted"])
}) {}

/** An interrupted workspace cannot be mounted as it was written; nothing was deleted (W23). */
export class WorkspaceUnreadable extends Schema.TaggedError<WorkspaceUnreadable>()("WorkspaceUnreadable", {
  ...errorFields("WORKSPACE_UNREADABLE"),
  workspace: Schema.String
}) {}

/** The workspace could not be mounted at the path asked for. */
export class MountPathUnavailable extends Schema.TaggedError<MountPathUnavailable>()("MountPathUnavailable", {
  ...errorFields("MOUNT_PATH_UNAVAILABLE"),
  path: Schema.String
}) {}

/** The store's directory cannot be used: owner, mode, inherited setgid, network file system, overlayfs, inside an import. */
export class StoreLocation extends Schema.TaggedError<StoreLocation>()("StoreLocation", {
  ...errorFields("STORE_LOCATION"),
  path: Schema.String
}) {}

/** The import was refused before anything was stored, or a source file kept changing (W13). */
export class ImportRefused extends Schema.TaggedError<ImportRefused>()("ImportRefused", {
  ...errorFields("IMPORT_REFUSED"),
  reason: Schema.Literals([
    "notFound",
    "notADirectory",
    "storeInside",
    "insideStore",
    "notFiles",
    "unreadable",
    "changing",
    "cancelled",
    "notARepository",
    "unsupportedRepository"
  ]),
  path: Schema.String
}) {}

/**
 * An argument that is `missing`, of another `kind` than the call takes, of a `value` that nothing could be done with, or `unknown` to the call:
 * `argument` names it. Nothing was done.
 */
export class ArgumentInvalid extends Schema.TaggedError<ArgumentInvalid>()("ArgumentInvalid", {
  ...errorFields("ARGUMENT_INVALID"),
  call: Schema.String,
  argument: Schema.String,
  problem: Schema.Literals(["missing", "kind", "value", "unknown"])
}) {}

/** What was asked about the history cannot be meant: `field` names the part of the question. Nothing was read. */
export class QueryInvalid extends Schema.TaggedError<QueryInvalid>()("QueryInvalid", {
  ...errorFields("QUERY_INVALID"),
  field: Schema.Literals(["ref", "path", "pattern", "limit", "after"])
}) {}

/** A pattern was stopped because it was at work for longer than `limitMs` on the file at `path`. */
export class PatternTooSlow extends Schema.TaggedError<PatternTooSlow>()("PatternTooSlow", {
  ...errorFields("PATTERN_TOO_SLOW"),
  path: Schema.String,
  limitMs: Schema.Number
}) {}

/** The operation id stands for another request of this store: a commit of another branch, an import, a fork. Nothing was done. */
export class OperationUsed extends Schema.TaggedError<OperationUsed>()("OperationUsed", {
  ...errorFields("OPERATION_USED"),
  operationId: Schema.String
}) {}

/**
 * The head was not moved: `to` is of another project, or was never a state of this branch, or there is nothing to take back. `beginsHere`: the
 * store lacks what was before the commit `beginsAt`, because a bundle brought that one without its past.
 */
export class MoveRefused extends Schema.TaggedError<MoveRefused>()("MoveRefused", {
  ...errorFields("MOVE_REFUSED"),
  reason: Schema.Literals(["otherProject", "notInHistory", "nothingToUndo", "operationUsed", "beginsHere"]),
  branch: Schema.String,
  beginsAt: Schema.optional(Schema.String)
}) {}

/** The file is not UTF-8 text, or has no lines to blame: it is binary, or larger than `limitBytes`. */
export class NotText extends Schema.TaggedError<NotText>()("NotText", {
  ...errorFields("NOT_TEXT"),
  reason: Schema.Literals(["binary", "tooLarge"]),
  path: Schema.String,
  limitBytes: Schema.Number
}) {}

/** A stored object does not match its id. Not a byte of it was handed out (L10). */
export class ObjectDamaged extends Schema.TaggedError<ObjectDamaged>()("ObjectDamaged", {
  ...errorFields("OBJECT_DAMAGED"),
  object: Schema.String
}) {}

/** An export target that is not empty, not writable, or would be written through a link. */
export class ExportRefused extends Schema.TaggedError<ExportRefused>()("ExportRefused", {
  ...errorFields("EXPORT_REFUSED"),
  path: Schema.String
}) {}

/**
 * A bundle that cannot be taken in: nothing of it was stored (L13). `invalid`: it is whole and says what cannot be. `conflict`: the store has a
 * commit of the same id that is another one. `commit` is the one that it is about, where there is one.
 */
export class BundleRefused extends Schema.TaggedError<BundleRefused>()("BundleRefused", {
  ...errorFields("BUNDLE_REFUSED"),
  reason: Schema.Literals([
    "unreadable",
    "foreign",
    "newer",
    "damaged",
    "cut",
    "invalid",
    "incomplete",
    "conflict",
    "cancelled"
  ]),
  path: Schema.String,
  commit: Schema.optional(Schema.String)
}) {}

/** A cap of the store would be passed; nothing was stored, an open workspace keeps its files (W15). */
export class StoreQuotaExceeded extends Schema.TaggedError<StoreQuotaExceeded>()("StoreQuotaExceeded", {
  ...errorFields("STORE_QUOTA_EXCEEDED"),
  scope: Schema.Literals(["store", "project"]),
  /** Id of the project, or `store`. */
  name: Schema.String,
  limitBytes: Schema.Number,
  usedBytes: Schema.Number,
  /** What the call would have added, or had added when it was stopped. */
  neededBytes: Schema.Number
}) {}

/** An option of the store has no value that it could have. Nothing was opened. */
export class StoreOptionInvalid extends Schema.TaggedError<StoreOptionInvalid>()("StoreOptionInvalid", {
  ...errorFields("STORE_OPTION_INVALID"),
  option: Schema.String
}) {}

/** An operating system call failed in a way no other error describes (`ENOSPC`, `EIO`, …). `syscallCode` is its name. */
export class FileSystemFailure extends Schema.TaggedError<FileSystemFailure>()("FileSystemFailure", {
  ...errorFields("FILE_SYSTEM_FAILURE"),
  syscallCode: Schema.String
}) {}

/** Every class above, for rebuilding an error that crossed a thread. */
export const workspaceErrors = {
  Unavailable,
  Unsupported,
  RefNotFound,
  PathError,
  OutsideWorkspace,
  EditRefused,
  HeadMoved,
  ProcessesRunning,
  CandidateRefused,
  EnvironmentMismatch,
  UncheckpointedChanges,
  WorkspaceClosed,
  WorkspaceUnreadable,
  MountPathUnavailable,
  StoreLocation,
  ImportRefused,
  ArgumentInvalid,
  QueryInvalid,
  PatternTooSlow,
  OperationUsed,
  MoveRefused,
  NotText,
  ObjectDamaged,
  ExportRefused,
  BundleRefused,
  StoreQuotaExceeded,
  StoreOptionInvalid,
  FileSystemFailure
} as const
