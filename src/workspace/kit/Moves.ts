/**
 * Moves of a head: reset, undo, rewind; and the commits that a move leaves behind.
 * Promise: a head moves only from the value that the caller saw, and the old one stands in the undo log in the same transaction; the
 * commits left behind are told by what they name, and stay; an operation id moves a head once. Rules: L7, W10, G75.
 */
import type { Durability } from "../../base/Durability.ts"
import { isId } from "../../base/Id.ts"
import type { HeadMove, UndoneSpan } from "../WorkspaceProvider.ts"
import { MoveRefused, type RefNotFound } from "../WorkspaceError.ts"
import { headMoved } from "./Refusals.ts"
import type { BranchRow, CommitRow } from "./RefStore.ts"
import type { Answer, ForkQuestion, MoveQuestion, MoveReply, Paged, RewindQuestion } from "./Questions.ts"
import { refNotFound } from "./Refusals.ts"
import { cursorAt, cursorFor, type RefHistory, limitOf } from "./Question.ts"
import { breathing } from "./Steps.ts"

const messages: Readonly<Record<Exclude<MoveRefused["reason"], "beginsHere">, readonly [string, string]>> = {
  otherProject: ["This state belongs to another project.", "Give a commit of the branch's own project."],
  notInHistory: ["The branch never had this state.", "Take a commit from `log`, or fork the state directly."],
  nothingToUndo: ["There is no such move that could be taken back.", "Read `undoLog` of the branch."],
  operationUsed: ["This operation id stands for something else.", "Use a new operation id; nothing was moved."]
}

const refused = (reason: keyof typeof messages, branch: string): MoveRefused =>
  new MoveRefused({ message: messages[reason][0], remedy: messages[reason][1], reason, branch })

/** Commits left behind that are looked at, and names that are told of each kind. */
const lookedAtMost = 10_000
const namesAtMost = 1000

/** The history of this store ends where more of it was needed. */
const refuseBefore = (branch: string, edge: string): MoveRefused =>
  new MoveRefused({
    message: `The store does not have this state in the history of the branch, which begins here at ${edge}.`,
    remedy: "Import a bundle that has the history, or give a commit that `log` names. Nothing was moved.",
    reason: "beginsHere",
    branch,
    beginsAt: edge
  })

const LEFT = 1
const KEPT = 2

/**
 * `left`: `head` grew from it and `to` did not. `shared`: the newest that both grew from, once. `edge`: one of only one of them, at which the
 * history of this store begins; what was before it may belong to the other one too.
 */
interface Passed {
  readonly commit: CommitRow
  readonly kind: "left" | "shared" | "edge"
}

/**
 * The commits from which `head` grew and `to` did not, newest first, and the newest that both grew from. Source: git's
 * `paint_down_to_common` (commit-reach.c), with `dated` for the order.
 */
export async function* leftBehind(history: RefHistory, head: CommitRow, to: CommitRow): AsyncGenerator<Passed> {
  const breathe = breathing(history.cancelled)
  const open = new Map<string, { readonly commit: CommitRow; side: number }>()
  const add = (commit: CommitRow, side: number): void => {
    const known = open.get(commit.id)
    if (known === undefined) open.set(commit.id, { commit, side })
    else known.side |= side
  }
  add(head, LEFT)
  add(to, KEPT)
  const newest = (side: (side: number) => boolean) => {
    let found: { readonly commit: CommitRow; readonly side: number } | undefined
    for (const one of open.values()) {
      if (side(one.side) && (found === undefined || one.commit.dated > found.commit.dated)) found = one
    }
    return found
  }
  const isShared = (side: number): boolean => side === (LEFT | KEPT)
  let shared = false
  // Children come before their parents, so a commit has heard from all that grew from it when its turn comes.
  while (newest((side) => side === LEFT) !== undefined) {
    const next = newest(() => true)!
    open.delete(next.commit.id)
    if (next.side === LEFT) yield { commit: next.commit, kind: "left" }
    else if (isShared(next.side) && !shared) {
      shared = true
      yield { commit: next.commit, kind: "shared" }
    }
    const { parents, beginsHere } = history.refs.parentsOf(next.commit)
    if (beginsHere && !isShared(next.side)) yield { commit: next.commit, kind: "edge" }
    for (const parent of parents) add(parent, next.side)
    await breathe()
  }
  const common = newest(isShared)
  if (!shared && common !== undefined) yield { commit: common.commit, kind: "shared" }
}

const spanOf = async (history: RefHistory, head: CommitRow, to: CommitRow): Promise<UndoneSpan> => {
  let complete = true
  const names = { calls: new Set<string>(), agents: new Set<string>(), goals: new Set<string>() }
  const note = (into: Set<string>, name: string | undefined): void => {
    if (name === undefined || into.has(name)) return
    if (into.size < namesAtMost) into.add(name)
    else complete = false
  }
  let commits = 0
  let withoutGoal = 0
  let since: number | null = null
  for await (const { commit, kind } of leftBehind(history, head, to)) {
    if (kind === "shared") since = commit.at
    if (kind === "edge") complete = false
    if (kind !== "left") continue
    if (commits === lookedAtMost) {
      complete = false
      break
    }
    commits += 1
    note(names.calls, commit.actor.call)
    note(names.agents, commit.actor.agent)
    note(names.goals, commit.actor.goal)
    if (commit.actor.goal === undefined) withoutGoal += 1
  }
  return {
    commits,
    complete,
    calls: [...names.calls],
    agents: [...names.agents],
    goals: [...names.goals],
    withoutGoal,
    since: commits === 0 ? null : since
  }
}

const branchOf = (history: Pick<RefHistory, "refs">, id: string): BranchRow => {
  const branch = history.refs.branch(id)
  if (branch === undefined) throw refNotFound(id)
  return branch
}

/** A commit that this store does not have: perhaps it is one of those from before the history of the branch begins here. */
const notHere = (refs: RefHistory["refs"], branch: BranchRow, ref: string): RefNotFound | MoveRefused => {
  const edge = isId("commit", ref) ? refs.edgeAbove(branch.head, ref) : undefined
  return edge === undefined ? refNotFound(ref) : refuseBefore(branch.id, edge)
}

/** The newest reset that no later move has taken back, or the numbered move. */
const moveToUndo = (history: RefHistory, branch: string, number: number | null): HeadMove => {
  for (let before = Number.MAX_SAFE_INTEGER; ; ) {
    const page = history.refs.moves(branch, number === null ? before : number + 1, number === null ? 100 : 1)
    const found = page.find((move) =>
      number === null ? move.kind === "reset" && move.undoneBy === null : move.number === number
    )
    if (found !== undefined && found.undoneBy === null) return found
    if (number !== null || page.length === 0) throw refused("nothingToUndo", branch)
    before = page.at(-1)!.number
  }
}

/** Throws `RefNotFound`, `HeadMoved`, `MoveRefused`. */
export const moveHead = async (
  history: RefHistory,
  input: MoveQuestion,
  durability: Durability
): Promise<MoveReply> => {
  const { refs } = history
  const { branch: id, expectedHead, reason, actor, operationId, at } = input
  const answered = (result: unknown): MoveReply => {
    const reply = result as MoveReply
    if (reply.branch === id && reply.previous !== undefined) return reply
    throw refused("operationUsed", id)
  }
  const repeated = refs.operation(operationId)
  if (repeated !== undefined) return answered(repeated.result)
  const branch = branchOf(history, id)
  if (branch.head !== expectedHead) throw headMoved(id, expectedHead, branch.head)
  const taken = "undo" in input ? moveToUndo(history, id, input.undo) : null
  const target = taken === null ? (input as { readonly to: string }).to : taken.from
  const to = refs.resolve(target)
  if (to === undefined) throw notHere(refs, branch, target)
  if (to.project !== branch.project) throw refused("otherProject", id)
  const head = refs.commit(expectedHead)!
  const openWorkspaces = refs.workspaces(["open"]).flatMap((row) => (row.branch === id ? [row.id] : []))
  const reply: MoveReply = {
    operationId,
    branch: id,
    number: null,
    head: to.id,
    previous: head.id,
    undone: await spanOf(history, head, to),
    openWorkspaces,
    durability
  }
  if (to.id === head.id) return reply
  const move = {
    branch: id,
    kind: taken === null ? ("reset" as const) : ("undo" as const),
    from: head.id,
    to: to.id,
    at,
    reason,
    actor,
    operationId,
    undoes: taken?.number ?? null
  }
  const moved = await refs.moveHead(move, (number) => ({ ...reply, number }))
  if (moved.kind === "headMoved") throw headMoved(id, expectedHead, moved.actualHead)
  return moved.kind === "repeated" ? answered(moved.result) : { ...reply, number: moved.number }
}

/** A branch at a state that another one has had. Throws `RefNotFound`, `MoveRefused`. */
export const rewind = async (
  history: RefHistory,
  input: RewindQuestion,
  fork: (input: ForkQuestion) => Promise<BranchRow>
): Promise<BranchRow> => {
  const branch = branchOf(history, input.branch)
  const head = history.refs.resolve(branch.id)!
  const to = history.refs.resolve(input.to)
  if (to === undefined) throw notHere(history.refs, branch, input.to)
  // Nothing of `to` is left behind by the head exactly when the head grew from it.
  for await (const { kind } of leftBehind(history, to, head)) {
    if (kind !== "left") continue
    const edge = to.project === head.project ? history.refs.edgeAbove(head.id, to.id) : undefined
    throw edge === undefined ? refused("notInHistory", branch.id) : refuseBefore(branch.id, edge)
  }
  const { name, operationId } = input
  return fork({ from: to.id, name, ...(operationId === undefined ? {} : { operationId }) })
}

/** Throws `RefNotFound`, `QueryInvalid`. */
export const readUndoLog = (
  history: Pick<RefHistory, "refs">,
  input: Paged & { readonly branch: string }
): Answer<{ readonly moves: readonly HeadMove[] }> => {
  const limit = limitOf(input.limit, 1000)
  const { id } = branchOf(history, input.branch)
  const question = { undoLog: id }
  const isNumber = (at: unknown): at is number => Number.isSafeInteger(at)
  const before =
    input.after === undefined ? Number.MAX_SAFE_INTEGER : cursorAt(history.refs, question, input.after, isNumber)
  const moves = history.refs.moves(id, before, limit)
  return { moves, next: moves.length < limit ? null : cursorFor(history.refs, question, moves.at(-1)!.number) }
}
