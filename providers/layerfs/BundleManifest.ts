/**
 * What a bundle says of its commits, read and held against itself.
 * Promise: all of it has the shape and could be true, or none of it is used: each commit once, all of them led to by the head, every one
 * later than those it grew from, so that no commit is its own ancestor. Rules: L10, L13, V3.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isId, prefixes } from "../../src/base/Id.ts"
import { BundleRefused } from "../../src/workspace/WorkspaceError.ts"

const Id = (kind: keyof typeof prefixes) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => isId(kind, text) || `No id that begins with ${prefixes[kind]}`)
  )
const Hex = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))

const decodeActor = Schema.decodeUnknownResult(
  Schema.fromJsonString(
    Schema.Struct({
      call: Schema.optional(Schema.String),
      agent: Schema.optional(Schema.String),
      goal: Schema.optional(Schema.String)
    })
  )
)

/** As the index gives back what it is given. */
const Text = Schema.String.check(
  Schema.makeFilter((text: string) => !/\p{Surrogate}/u.test(text) || "No text: half of a character")
)
/** Milliseconds as a `Date` has them. Commits that grow from one of these count on from it, and stay numbers that can be read. */
const Time = Schema.Int.check(
  Schema.makeFilter((ms: number) => Math.abs(ms) <= 8.64e15 || "No time that a clock shows")
)

/** A commit's row, ids and all, so that it is the same commit elsewhere. */
const BundleCommit = Schema.Struct({
  id: Id("commit"),
  parent: Schema.NullOr(Id("commit")),
  second_parent: Schema.NullOr(Id("commit")),
  root: Hex,
  times: Hex,
  message: Text,
  at: Time,
  dated: Time,
  operation: Text,
  actor: Text.check(Schema.makeFilter((text: string) => Result.isSuccess(decodeActor(text)) || "No actor as JSON")),
  live: Schema.Literals([0, 1])
})
export type BundleCommit = typeof BundleCommit.Type

/** Its columns in the index. */
export const commitColumns =
  "id, parent, second_parent, lower(hex(root)) AS root, lower(hex(times)) AS times, message, at, dated, operation, actor, live"

const Manifest = Schema.Struct({
  /** The store that it was made of. */
  store: Schema.String,
  project: Schema.Struct({ id: Id("project"), name: Text }),
  /** The commit that was asked for. */
  head: Id("commit"),
  /** Whether the ancestors of the head are in it. */
  history: Schema.Boolean,
  /**
   * Commits that have parents which are not in it: where they go without them, the history of the other store begins. The first bundles
   * did not say so: then it can only be the one commit of a bundle without history.
   */
  edges: Schema.optional(Schema.Array(Id("commit"))),
  commits: Schema.Array(BundleCommit),
  objects: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
})
export type BundleManifest = typeof Manifest.Type & { readonly edges: readonly string[] }

const reasons: Readonly<Record<BundleRefused["reason"], readonly [string, string]>> = {
  unreadable: ["The bundle cannot be read.", "Give the path of a bundle that this user can read."],
  foreign: ["The file is not a Coppice bundle.", "Give a file that exportBundle wrote."],
  newer: ["The bundle was written by a newer Coppice.", "Use that version, or a newer one."],
  damaged: ["The bundle is damaged.", "Copy it again from where it was made, or export it again."],
  cut: ["The bundle is cut short.", "Copy it again from where it was made, or export it again."],
  invalid: ["The bundle says what cannot be", "Export it again from a store that verifies; do not use this file."],
  incomplete: ["The bundle lacks what its commits need", "Export it again from a store that verifies."],
  conflict: ["The store has a commit of the same id with other content", "Import it into another store."],
  cancelled: ["The import of the bundle was cancelled.", "Import it again when wanted."]
}

/** `path` is shown as it was given; `detail` ends the sentence; `commit` is the one that it is about. */
export const refused = (
  reason: BundleRefused["reason"],
  path: string,
  about: { readonly commit?: string; readonly detail?: string } = {}
): BundleRefused => {
  const [message, remedy] = reasons[reason]
  const said = about.detail ?? about.commit
  return new BundleRefused({
    message: said === undefined ? message.replace(/\.?$/, ".") : `${message.replace(/\.$/, "")}: ${said}.`,
    remedy: `${remedy} Nothing of it was stored.`,
    reason,
    path,
    ...(about.commit === undefined ? {} : { commit: about.commit })
  })
}

const decode = Schema.decodeUnknownResult(Manifest)

/** Throws `BundleRefused`. */
export const decodeManifest = (payload: Buffer, path: string): BundleManifest => {
  let json: unknown
  try {
    json = JSON.parse(payload.toString("utf8"))
  } catch {
    throw refused("damaged", path)
  }
  const read = decode(json)
  if (Result.isFailure(read)) {
    const detail = String(read.failure.message).replaceAll(/\s+/g, " ").slice(0, 300)
    throw refused("invalid", path, { detail })
  }
  const manifest = read.success
  const { history, head } = manifest
  const parentless = history || parentsOf(manifest.commits.find(({ id }) => id === head)).length === 0
  const whole = { ...manifest, edges: manifest.edges ?? (parentless ? [] : [head]) }
  check(whole, path)
  return whole
}

export const parentsOf = (commit: BundleCommit | undefined): readonly string[] =>
  [commit?.parent ?? null, commit?.second_parent ?? null].filter((id) => id !== null)

const check = ({ head, history, edges, commits }: BundleManifest, path: string): void => {
  const invalid = (commit: string, detail: string): BundleRefused => refused("invalid", path, { commit, detail })
  const byId = new Map<string, BundleCommit>()
  for (const commit of commits) {
    const { id, parent, second_parent } = commit
    if (byId.has(id)) throw invalid(id, `the commit ${id} is in it twice`)
    byId.set(id, commit)
    if (second_parent !== null && (parent === null || parent === second_parent))
      throw invalid(id, `the commit ${id} has a second parent and no other first one`)
  }
  if (!byId.has(head)) throw invalid(head, `its head ${head} is not in it`)
  if (!history && commits.length !== 1)
    throw invalid(head, `it is one of the single state ${head} and has several commits`)
  const begun = new Set<string>()
  for (const id of edges) {
    if (begun.has(id)) throw invalid(id, `it says twice that its history begins at ${id}`)
    begun.add(id)
    if (parentsOf(byId.get(id)).length === 0) throw invalid(id, `nothing is missing before the commit ${id}`)
  }
  const reached = new Set([head])
  for (const id of reached) {
    const commit = byId.get(id)!
    for (const above of parentsOf(commit)) {
      const parent = byId.get(above)
      if (parent === undefined) continue
      if (parent.dated >= commit.dated) throw invalid(id, notAfter(id, above))
      reached.add(above)
    }
  }
  const lone = commits.find(({ id }) => !reached.has(id))
  if (lone !== undefined) throw invalid(lone.id, `nothing in it grew from the commit ${lone.id}`)
}

/** Commits without a rising order would come back to themselves. */
export const notAfter = (id: string, parent: string): string =>
  `the commit ${id} does not come after ${parent}, from which it says it grew`
