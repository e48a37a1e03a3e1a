/**
 * What the facts of an authority may say, one after the other: a plain second opinion beside the decisions.
 * Promise: knows no SQL and calls no decision; a kind of fact without an entry here is no fault. A new kind joins with a line
 * in `states` (which states are final, which numbers only grow) or a rule of its own. Rules: G20, G30 to G36, G72, G80, G81.
 */
import type { JournalEntry } from "../../src/governance/index.ts"
import { scopesOverlap } from "../../src/governance/WriteScope.ts"
import { ledgerRule } from "./ledgerRule.ts"

export type Record_ = Readonly<Record<string, any>>

/** What has been said so far: every entity's record by kind and identity. */
export interface Told {
  readonly of: (kind: string) => ReadonlyMap<string, Record_>
  /** The facts of the command under way, this one among them. */
  readonly command: readonly JournalEntry[]
}

/** A rule sees each fact with the record before it, and says what is wrong; `after` looks at the end of each command. */
export interface Rule {
  readonly step?: (was: Record_ | undefined, is: Record_, entry: JournalEntry, told: Told) => readonly string[]
  readonly after?: (told: Told, at: number) => readonly string[]
}

const wrong = (holds: boolean, fault: string): readonly string[] => (holds ? [] : [fault])

// --- states ----------------------------------------------------------------------------------------------------------

/** By kind: the states that are never left, and the numbers that grow with every fact. */
const states: Readonly<Record<string, { readonly final?: readonly string[]; readonly grows?: readonly string[] }>> = {
  goal: { final: ["completed"], grows: ["revision"] },
  todo: { final: ["done", "superseded"], grows: ["revision"] },
  lease: { grows: ["version"] },
  turn: { final: ["closed"] },
  candidate: { final: ["recorded", "absent"] },
  gate: { final: ["withdrawn"] },
  obligation: { final: ["met", "waived"] },
  source: { final: ["retired"] },
  effect: { final: ["confirmed", "refused"] },
  // A withdrawn one may turn out to have arrived; nothing else comes of it, see deliveryRule.
  delivery: { final: ["confirmed"] }
}

const stateRule = (kind: string): Rule => ({
  step: (was, is) => {
    const rule = states[kind]
    if (rule === undefined || was === undefined) return []
    const left = rule.final?.includes(was["state"]) === true && is["state"] !== was["state"]
    return [
      ...wrong(!left, `${kind} left its final state ${was["state"]} for ${is["state"]}`),
      ...(rule.grows ?? []).flatMap((field) =>
        wrong(is[field] > was[field], `${field} of a ${kind} went from ${was[field]} to ${is[field]}`)
      )
    ]
  }
})

/** Kinds that are said once: a second fact about one of them is a fault. */
const once = ["settlement", "evidence", "acceptance"]

// --- leases ----------------------------------------------------------------------------------------------------------

const live = (lease: Record_ | undefined, at: number): lease is Record_ =>
  lease !== undefined && lease["releasedAt"] === null && lease["expiresAt"] > at

const unfinished = (todo: Record_ | undefined): boolean => todo?.["state"] === "open" || todo?.["state"] === "deferred"

const leaseRule: Rule = {
  step: (was, is, entry, told) => {
    const held = live(was, entry.at)
    const fresh = entry.type === "lease.acquired" || entry.type === "lease.transferred"
    const faults = [
      ...wrong(is["version"] === (was?.["version"] ?? 0) + 1, "the version of a lease skipped"),
      ...wrong(
        is["epoch"] === (was?.["epoch"] ?? 0) + (fresh ? 1 : 0),
        `${entry.type} took the epoch to ${is["epoch"]}`
      ),
      ...wrong(entry.type !== "lease.acquired" || !held, "a lease was granted over one that was live"),
      ...wrong(entry.type === "lease.acquired" || held, `${entry.type} of a lease that was not live`),
      ...wrong(fresh === (is["tokenDigest"] !== was?.["tokenDigest"]), `${entry.type} and its token`)
    ]
    if (!fresh) return faults
    const overlapping = [...told.of("lease").values()].filter(
      (other) =>
        other["todo"] !== is["todo"] &&
        other["goal"] === is["goal"] &&
        live(other, entry.at) &&
        unfinished(told.of("todo").get(other["todo"])) &&
        is["writeScopes"].some((ours: string) =>
          other["writeScopes"].some((theirs: string) => scopesOverlap(ours, theirs))
        )
    )
    return [...faults, ...overlapping.map((other) => `two live leases write in one place: ${other["todo"]}`)]
  },
  after: (told, at) =>
    [...told.of("lease").values()]
      .filter((lease) => live(lease, at) && !unfinished(told.of("todo").get(lease["todo"])))
      .map((lease) => `todo ${lease["todo"]} is finished and its lease lives`)
}

// --- turns -----------------------------------------------------------------------------------------------------------

const phases = ["admit", "execute", "result", "validate", "settle", "close"]

const turnRule: Rule = {
  step: (was, is, entry) => {
    if (was === undefined)
      return wrong(entry.type === "turn.admitted" && is["phase"] === "admit", "a turn began midway")
    const moved = phases.indexOf(is["phase"]) - phases.indexOf(was["phase"])
    const again = entry.type === "turn.retried"
    return [
      ...wrong(
        again ? was["state"] === "failed" : was["state"] === "open",
        `${entry.type} of a turn that is ${was["state"]}`
      ),
      ...wrong(again ? is["phase"] === "admit" : moved === 0 || moved === 1, `${entry.type} in phase ${was["phase"]}`),
      ...wrong(
        was["attempts"].every((one: Record_, i: number) => is["attempts"][i]?.number === one["number"]),
        "an attempt of a turn was forgotten"
      )
    ]
  },
  after: (told) => {
    const open = [...told.of("turn").values()]
      .filter((turn) => turn["state"] === "open")
      .map((turn) => `${turn["goal"]} ${turn["agent"]}`)
    return wrong(new Set(open).size === open.length, "two turns of one agent on one goal are open")
  }
}

// --- settlements and completions -------------------------------------------------------------------------------------

/** A verdict accepts once, and the work that it was given for (G71). */
const verdictFaults = (is: Record_, id: string, told: Told): readonly string[] => {
  const verdict = told.of("acceptance").get(is["acceptance"])
  if (verdict === undefined) return ["work was accepted without a verdict"]
  const again = [...told.of("settlement").entries()].some(
    ([other, { accepted, acceptance }]) => other !== id && accepted === true && acceptance === is["acceptance"]
  )
  const whole = is["candidate"] !== null && is["turn"] !== null
  return [
    ...wrong(!again, `verdict ${verdict["id"]} accepted twice`),
    ...wrong(verdict["outcome"] === "passed" && verdict["void"] === false, "a verdict that did not pass accepted work"),
    ...wrong(
      verdict["todo"] === is["todo"] || (whole && verdict["todo"] === null),
      `verdict ${verdict["id"]} accepted other work than its own`
    )
  ]
}

const settlementRule: Rule = {
  step: (_, is, entry, told) => {
    const same = [...told.of("settlement").entries()].filter(
      ([id, other]) => other["effectId"] === is["effectId"] && id !== entry.entity
    )
    return [
      ...wrong(same.length === 0, `effect ${is["effectId"]} was settled twice`),
      ...(is["accepted"] === true ? verdictFaults(is, entry.entity, told) : [])
    ]
  },
  // Work and its cost are one commit, and so is the end of its turn (G72, G73).
  after: (told) =>
    told.command
      .filter((entry) => entry.type === "settlement.settled")
      .flatMap((entry) => {
        const { reservation, turn } = entry.data as Record_
        const beside = (type: (t: string) => boolean, entity: string) =>
          told.command.some((other) => type(other.type) && other.entity === entity)
        return [
          ...wrong(
            beside((type) => type.startsWith("quota."), reservation),
            `settlement ${entry.entity} lies apart from its cost`
          ),
          ...wrong(
            turn === null || beside((type) => type === "turn.settled", turn),
            `settlement ${entry.entity} lies apart from its turn`
          )
        ]
      })
}

const todoRule: Rule = {
  after: (told) =>
    told.command
      .filter((entry) => entry.type === "todo.completed")
      .flatMap((entry) =>
        wrong(
          told.command.some((other) => other.type.startsWith("quota.")),
          `todo ${entry.entity} was completed and nothing says what it cost`
        )
      )
}

/** A completed goal has nothing open below it (G12). */
const goalRule: Rule = {
  after: (told) => {
    const completed = new Set(
      [...told.of("goal").entries()].filter(([, goal]) => goal["state"] === "completed").map(([id]) => id)
    )
    if (completed.size === 0) return []
    const below = (kind: string, open: (record: Record_) => boolean) =>
      [...told.of(kind).entries()]
        .filter(([, record]) => completed.has(record["goal"]) && open(record))
        .map(([id]) => `a goal is completed and its ${kind} ${id} is open`)
    return [
      ...below("todo", unfinished),
      ...below("turn", (turn) => turn["state"] === "open"),
      ...below("candidate", ({ state }) => state === "planned" || state === "unknown")
    ]
  }
}

/** Tokens of an effect are told once; they are taken back only with their cost. */
const usageRule: Rule = {
  step: (was, _, entry, told) => {
    const withdrawn = entry.type === "usage.withdrawn"
    const voided = told.command.some(
      (other) => other.type === "quota.void" && (other.data as Record_)["reservation"]["effectId"] === entry.entity
    )
    return wrong(
      withdrawn ? was !== undefined && voided : was === undefined,
      `${entry.type} of an effect a second time`
    )
  }
}

// --- deliveries ------------------------------------------------------------------------------------------------------

/** One id has one destination and one content, and what a later sending was told ends nothing while an earlier one is open (G91). */
const deliveryRule: Rule = {
  step: (was, is) => {
    if (was === undefined) return []
    const same = (field: string) => JSON.stringify(was[field]) === JSON.stringify(is[field])
    const absent = is["state"] === "accepted" || is["state"] === "refused" || is["state"] === "withdrawn"
    return [
      ...wrong(same("origin") && same("result"), "a delivery got another destination or content"),
      ...wrong(
        was["state"] !== "withdrawn" || is["state"] === "withdrawn" || is["state"] === "confirmed",
        `a withdrawn delivery became ${is["state"]}`
      ),
      ...wrong(
        !(absent && was["earlierOpen"] === true && is["resolvedBy"] === "reply"),
        `a reply of the last sending made a delivery ${is["state"]}, and an earlier one may have arrived`
      )
    ]
  }
}

/** What a later attempt was told ends no effect of which an earlier attempt may have been carried out (G60, G61). */
const effectRule: Rule = {
  step: (was, is) =>
    wrong(
      !(
        was?.["earlierOpen"] === true &&
        is["state"] === "refused" &&
        is["outcome"]?.["by"] === "provider" &&
        is["declared"]["retry"] !== "keyed"
      ),
      "an effect was refused by the answer to a later attempt"
    )
}

const rules: Readonly<Record<string, readonly Rule[]>> = {
  goal: [goalRule],
  todo: [todoRule],
  lease: [leaseRule],
  turn: [turnRule],
  settlement: [settlementRule],
  quota: [ledgerRule()],
  usage: [usageRule],
  delivery: [deliveryRule],
  effect: [effectRule]
}

// --- the walk --------------------------------------------------------------------------------------------------------

const identityOf = (kind: string, entry: JournalEntry): string =>
  kind === "agent" ? `${(entry.data as Record_)["goal"]} ${entry.entity}` : entry.entity

/** Every fault in the order of the facts. */
export const factFaults = (journal: readonly JournalEntry[]): readonly string[] => {
  const faults: string[] = []
  const all = new Map<string, Map<string, Record_>>()
  const of = (kind: string): Map<string, Record_> => {
    const known = all.get(kind) ?? new Map<string, Record_>()
    all.set(kind, known)
    return known
  }
  const mine: Readonly<Record<string, readonly Rule[]>> = { ...rules, quota: [ledgerRule()] }
  let command: JournalEntry[] = []
  for (const [index, entry] of journal.entries()) {
    const kind = entry.type.slice(0, entry.type.indexOf("."))
    const id = identityOf(kind, entry)
    const was = of(kind).get(id)
    const is = entry.data as Record_
    command.push(entry)
    const told: Told = { of, command }
    const seen = [stateRule(kind), ...(mine[kind] ?? [])].flatMap((rule) => rule.step?.(was, is, entry, told) ?? [])
    if (once.includes(kind) && was !== undefined) seen.push(`${kind} ${id} was said twice`)
    of(kind).set(id, is)
    if (journal[index + 1]?.command !== entry.command) {
      seen.push(...Object.values(mine).flatMap((of) => of.flatMap((rule) => rule.after?.(told, entry.at) ?? [])))
      command = []
    }
    faults.push(...seen.map((fault) => `fact ${entry.seq} (${entry.type} ${id}): ${fault}`))
  }
  return faults
}
