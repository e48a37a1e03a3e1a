/**
 * The frontier of a goal: everything that is still open below it, kind by kind.
 * Promise: an entity that can keep a goal open names itself here, so that "nothing is left" is one question with one answer; a
 * part that cannot be read counts as open. Rules: G12, G22.
 */
import { undelivered } from "./DeliveryRecord.ts"
import { loadOpenGates } from "./GateRecord.ts"
import { row } from "./Handler.ts"
import type { Load } from "./Module.ts"
import { openSources } from "./SourceRecord.ts"

/** What is open of one kind: how many, and the ids of the first hundred. */
export interface OpenPart {
  readonly kind: string
  readonly count: number
  readonly ids: readonly string[]
}

/** How many ids a part names. Its count is always whole. */
export const mostNamed = 100

/** One kind of open thing: its rows are those of `table` that belong to the goal and satisfy `where`. */
export interface FrontierKind {
  readonly kind: string
  readonly load: (goal: string, now: number) => Load<OpenPart>
}

/** A kind whose open things are the rows of one table. `id` names them. */
export const openRows = (kind: string, table: string, where: string, id = "id"): FrontierKind => ({
  kind,
  *load(goal) {
    const count = Number((yield* row(`SELECT count(*) AS n FROM ${table} WHERE goal = ? AND ${where}`, goal))?.["n"])
    if (count === 0) return { kind, count, ids: [] }
    const found = yield {
      sql: `SELECT ${id} AS id FROM ${table} WHERE goal = ? AND ${where} ORDER BY ${id} LIMIT ${mostNamed}`,
      params: [goal]
    }
    return { kind, count, ids: found.map((one) => String(one["id"])) }
  }
})

/**
 * Undelivered results keep their goal open: nothing is sent below a completed goal, so completing first would strand them. A
 * refused or withdrawn one is decided, and keeps nothing open (G91).
 */
export const undeliveredPart = openRows("delivery", "delivery", undelivered)

/** Questions that nobody answered, or whose answer was used up or has lapsed by now. */
const openGates: FrontierKind = {
  kind: "gate",
  *load(goal, now) {
    const { count, items } = yield* loadOpenGates(goal, now, mostNamed)
    return { kind: "gate", count, ids: items.map(({ id }) => id) }
  }
}

/** A bound that is held for something other than a turn: whatever it was held for has no known end. */
const freeBounds = openRows("reservation", "reservation", "state = 'open' AND turn IS NULL")

/** The same, of those that name a turn and are not the one which that turn brings: nothing of the turn ends them. */
const boundsBeside = openRows(
  "reservation",
  "reservation",
  "state = 'open' AND turn IS NOT NULL " +
    "AND NOT EXISTS (SELECT 1 FROM turn t WHERE t.id = reservation.turn AND t.reservation = reservation.id)"
)

const heldBounds: FrontierKind = {
  kind: "reservation",
  *load(goal, now) {
    const free = yield* freeBounds.load(goal, now)
    const beside = yield* boundsBeside.load(goal, now)
    return { ...free, count: free.count + beside.count, ids: [...free.ids, ...beside.ids].slice(0, mostNamed) }
  }
}

/** Added in step 3: a goal with many finished things is asked for its open ones in one step each. */
export const frontierIndexes =
  "CREATE INDEX reservation_open ON reservation (goal, id) WHERE state = 'open' AND turn IS NULL;"

/** Added in step 4. */
export const boundsBesideIndex =
  "CREATE INDEX reservation_beside ON reservation (goal, id) WHERE state = 'open' AND turn IS NOT NULL;"

/** Every kind that can keep a goal open. */
export const frontierKinds: readonly FrontierKind[] = [
  openGates,
  openRows("obligation", "obligation", "state = 'open'"),
  openRows("todo", "todo", "state IN ('open', 'deferred')"),
  openRows("turn", "turn", "state = 'open'"),
  openRows("candidate", "candidate", "state IN ('planned', 'unknown')"),
  openRows("unreadableSource", "source", openSources.unreadable),
  openRows("unreadSource", "source", openSources.unread),
  openRows("effect", "external_effect", "unresolved = 1"),
  openRows("plannedEffect", "external_effect", "state = 'planned'"),
  heldBounds,
  undeliveredPart
]

/** The parts that are not empty. */
export function* loadFrontier(goal: string, now: number): Load<readonly OpenPart[]> {
  const parts: OpenPart[] = []
  for (const kind of frontierKinds) {
    const part = yield* kind.load(goal, now)
    if (part.count > 0) parts.push(part)
  }
  return parts
}
