/**
 * The history checker: several real processes make random calls on one authority, are killed at random, and are started again.
 * Promise: every choice comes from the seed; after every kill and at the end all invariants are checked, no acknowledged receipt
 * is lost, and what was under way when a process died is asked for again and happens once. In turns, the same seed gives the
 * same history; together, the same choices in whatever order the processes come to act. Rules: G1, G2, G3, G36, G72; 02 "Numbers".
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { appendFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Fence, JournalEntry } from "../../src/governance/index.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { openAuthority } from "../../providers/authority-sqlite/index.ts"
import { Authority } from "../../src/governance/index.ts"
import { type Answer, type Call, makeCall } from "./calls.ts"
import { drawCall } from "./commands.ts"
import { agents, type Pick, type World } from "./drawing.ts"
import type { Record_ } from "./factRules.ts"
import { checkInvariants, factsOf, headOf, receiptsOf } from "./invariants.ts"

const commander = await oneFile(join(import.meta.dirname, "programs", "commander.ts"))

export interface HistoryOptions {
  readonly seed: number
  /** An empty directory: the authority and the script of the history lie there. */
  readonly directory: string
  /** How often batches of calls are handed out. */
  readonly rounds: number
  readonly processes: number
  /** One process acts at a time, one call after the other; then the history of a seed is always the same. */
  readonly inTurns: boolean
  /** At most so many kills. */
  readonly kills: number
}

export interface HistoryResult {
  readonly faults: readonly string[]
  readonly kills: number
  /** How often each call was accepted and refused. */
  readonly accepted: ReadonlyMap<string, number>
  readonly refused: ReadonlyMap<string, number>
}

/** mulberry32 (Tommy Ettinger, public domain): a small generator with 2^32 seeds. */
export const randomOf = (seed: number): ((below: number) => number) => {
  let state = seed | 0
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

export const pickOf = (number: (below: number) => number): Pick => ({
  number,
  chance: (percent) => number(100) < percent,
  one: (from) => from[number(Math.max(1, from.length))]
})

const points = [
  "authority.afterJournal",
  "authority.afterProjection",
  "authority.afterReceipt",
  "authority.beforeCommit",
  "authority.afterCommit"
]

/** Nobody may ever see these: the file is sound and free, and everybody waits long enough. */
const neverRefused = ["BUSY", "STORAGE_FAILURE", "STORE_MOVED", "IDEMPOTENCY_KEY_REUSE", "NOT_PUBLIC"]

/** One of the processes, over its lives. */
class Actor {
  readonly directory: string
  #child: ChildProcess | undefined
  #lines: AsyncIterator<string> | undefined
  pid = 0
  /** Asked and not answered. */
  pending: readonly Call[] = []

  constructor(directory: string) {
    this.directory = directory
  }

  get dead(): boolean {
    return this.#child === undefined
  }

  async start(crashAt: string): Promise<void> {
    const child = spawn(process.execPath, [commander, this.directory], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...oneFileEnvironment(), COPPICE_CRASH_AT: crashAt }
    })
    this.#child = child
    // A process that was killed takes no more input: its answers tell.
    child.stdin.on("error", () => {})
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const first = await this.#lines.next()
    this.pid = first.done === true ? 0 : JSON.parse(first.value).identity.pid
  }

  /** Makes the calls at once; killed after `killAfter` answers, if that many come. What was not answered stays pending. */
  async make(calls: readonly Call[], order: object, killAfter: number | null): Promise<readonly Answer[]> {
    this.pending = calls
    const child = this.#child!
    child.stdin!.write(`${JSON.stringify({ ...order, calls })}\n`)
    const answers: Answer[] = []
    for (;;) {
      if (killAfter !== null && answers.length >= killAfter) child.kill("SIGKILL")
      const line = await this.#lines!.next()
      if (line.done === true) break
      const said = JSON.parse(line.value)
      if (said.done === true) break
      answers.push(said)
    }
    const told = new Set(answers.map((answer) => answer.commandId))
    this.pending = calls.filter((call) => !told.has(call.commandId))
    if (this.pending.length > 0 || killAfter !== null) await this.#died()
    return answers
  }

  async #died(): Promise<void> {
    const child = this.#child!
    child.kill("SIGKILL")
    if (child.exitCode === null && child.signalCode === null) await once(child, "close")
    this.#child = undefined
  }

  async end(): Promise<void> {
    if (this.#child === undefined) return
    const closed = once(this.#child, "close")
    this.#child.stdin!.end()
    await closed
    this.#child = undefined
  }
}

/** Every fence in a reply, however deep. */
const fencesIn = (value: unknown): readonly Fence[] => {
  if (typeof value !== "object" || value === null) return []
  const record = value as Record_
  if (typeof record["token"] === "string") return [record as Fence]
  return Object.values(record).flatMap(fencesIn)
}

const latest = (journal: readonly JournalEntry[]): World["all"] => {
  const kinds = new Map<string, Map<string, Record_>>()
  for (const entry of journal) {
    const kind = entry.type.slice(0, entry.type.indexOf("."))
    const known = kinds.get(kind) ?? kinds.set(kind, new Map()).get(kind)!
    known.set(
      kind === "agent" ? `${(entry.data as Record_)["goal"]} ${entry.entity}` : entry.entity,
      entry.data as Record_
    )
  }
  const lists = new Map([...kinds].map(([kind, records]) => [kind, [...records.values()]]))
  return (kind) => lists.get(kind) ?? []
}

/** What status and history say of each goal, against the events of its journal (G53). */
const sumFaults = async (directory: string, authority: Authority["Service"]): Promise<readonly string[]> => {
  const journal = factsOf(directory).filter((entry) => entry.type.startsWith("quota."))
  const voided = new Set(journal.filter((entry) => entry.type === "quota.void").map((entry) => entry.entity))
  const faults: string[] = []
  for (const goal of latest(factsOf(directory))("goal")) {
    if (goal["windowMs"] !== null) continue
    const say = async (name: string) =>
      (await makeCall(authority, { commandId: "read", name, input: { goal: goal["id"], limit: 10_000 } })).reply!
    const events = journal
      .filter((entry) => !voided.has(entry.entity))
      .map((entry) => entry.data as Record_)
      .filter(({ reservation }) => reservation.goal === goal["id"])
    const sum = (name: string) => events.reduce((total, { delta }) => total + (delta[name] ?? 0), 0)
    const want = { spent: sum("spentUsdMicros") / 1e6, reserved: sum("reservedUsdMicros") / 1e6 }
    const { totals } = await say("Quota.history")
    for (const figures of [await say("Quota.status"), totals]) {
      const got = { spent: figures.spent.usd, reserved: figures.reserved.usd }
      if (got.spent !== want.spent || got.reserved !== want.reserved)
        faults.push(`goal ${goal["id"]} shows ${JSON.stringify(got)}, its events give ${JSON.stringify(want)}`)
    }
  }
  return faults
}

export const runHistory = async (options: HistoryOptions): Promise<HistoryResult> => {
  const { directory } = options
  const pick = pickOf(randomOf(options.seed))
  const accepted = new Map<string, number>()
  const refused = new Map<string, number>()
  const faults: string[] = []
  const fences: Fence[] = []
  const made = new Map<string, Call>()
  /** Every receipt that was ever seen to be stored. */
  let receipts: ReadonlyMap<string, string> = new Map()
  let kills = 0
  let serial = 0
  const clock = { now: 1_800_000_000_000, ms: 1000 }
  const note = (line: object) => appendFileSync(join(directory, "history.jsonl"), `${JSON.stringify(line)}\n`)
  note({ ...options, directory: undefined })

  const start = async (actor: Actor): Promise<void> => {
    const crashAt = kills < options.kills && pick.chance(70) ? `${pick.one(points)}:${1 + pick.number(30)}` : ""
    await actor.start(crashAt)
    note({ started: actors.indexOf(actor), crashAt })
  }

  const draw = (world: World): Call | undefined => {
    const drawn = drawCall(world, pick)
    if (drawn === undefined) return undefined
    serial += 1
    const call = { commandId: `cmd_${serial}`, ...drawn }
    made.set(call.commandId, call)
    return call
  }

  const heard = (answers: readonly Answer[]): void => {
    for (const { commandId, reply, refused: code, defect } of answers) {
      const { name } = made.get(commandId)!
      if (defect !== undefined) faults.push(`${commandId} ${name}: ${defect}`)
      if (code !== undefined && neverRefused.includes(code)) faults.push(`${commandId} ${name}: ${code}`)
      const count = reply === undefined ? refused : accepted
      count.set(name, (count.get(name) ?? 0) + 1)
      fences.push(...fencesIn(reply))
    }
  }

  /** After each round: what is stored now, against what was ever acknowledged or stored before. */
  const check = (answers: readonly Answer[], whole: boolean): void => {
    const stored = receiptsOf(directory)
    const head = headOf(directory)
    for (const [id, text] of receipts) {
      if (stored.get(id) !== text) faults.push(`the receipt of ${id} was lost or changed`)
    }
    for (const { commandId, reply } of answers.filter((answer) => answer.reply !== undefined)) {
      const { asOf, replayed: _, ...told } = reply!
      if (asOf > head) faults.push(`${commandId} was acknowledged as of ${asOf}, the journal ends at ${head}`)
      const text = stored.get(commandId)
      if (text === undefined) continue
      const { replayed: __, ...kept } = JSON.parse(text)
      if (JSON.stringify(kept) !== JSON.stringify(told)) faults.push(`${commandId} was told otherwise than is stored`)
    }
    receipts = stored
    if (whole) faults.push(...checkInvariants(directory))
  }

  const actors = Array.from({ length: options.processes }, () => new Actor(directory))

  const round = async (calls: (world: World) => readonly Call[], number: number): Promise<void> => {
    clock.ms += 1 + pick.number(200)
    clock.now += pick.chance(5) ? 5000 : pick.chance(4) ? -pick.number(3000) : pick.number(400)
    const asked = options.inTurns ? [actors[number % actors.length]!] : actors
    const before = kills
    for (const actor of asked) if (actor.dead) await start(actor)
    const all = latest(factsOf(directory))
    const orders = asked.map((actor) => {
      const now = clock.now + (pick.chance(20) ? pick.number(600) - 300 : 0)
      const again = actor.pending
      const mine = [...again, ...calls({ all, fences, pid: actor.pid, now, serial })]
      const killAfter =
        !options.inTurns && kills < options.kills && pick.chance(4) ? pick.number(mine.length + 1) : null
      note({ round: number, process: actors.indexOf(actor), now, killAfter, calls: mine })
      return { actor, mine, now, killAfter }
    })
    const answers = await Promise.all(
      orders.map(({ actor, mine, now, killAfter }) =>
        actor.make(mine, { now, ms: clock.ms, together: !options.inTurns }, killAfter)
      )
    )
    kills += asked.filter((actor) => actor.dead).length
    heard(answers.flat())
    check(answers.flat(), kills > before)
  }

  try {
    const setUp: readonly [string, (goal: string) => object][] = [
      ...agents.map((agentId): [string, (goal: string) => object] => [
        "Agents.register",
        (goal) => ({ goal, agentId, capabilities: [] })
      ]),
      ...[1, 2, 3, 4].map((n): [string, (goal: string) => object] => [
        "Todos.add",
        (goal) => ({ goal, title: `first ${n}` })
      ])
    ]
    const call = (name: string, input: object): Call => {
      serial += 1
      const one = { commandId: `cmd_${serial}`, name, input }
      made.set(one.commandId, one)
      return one
    }
    await round(() => [call("Goals.open", { title: "first", budget: { usd: 20, slots: 200, tokens: 4000 } })], 0)
    for (let number = 1; number <= options.rounds && faults.length === 0; number += 1) {
      await round((world) => {
        const goal = world.all("goal").at(-1)?.["id"]
        const bare = goal !== undefined && !world.all("todo").some((todo) => todo["goal"] === goal)
        if (bare) return setUp.map(([name, input]) => call(name, input(goal)))
        return Array.from({ length: 2 + pick.number(8) }, () => draw({ ...world, serial })).filter(
          (one) => one !== undefined
        )
      }, number)
    }
    for (const actor of actors) if (!actor.dead) await actor.end()
    // Whatever is still owed an answer is asked for once more, and then everything: the receipts are the same for ever.
    const store = await openAuthority({
      directory,
      now: () => clock.now,
      monotonic: () => ({ boot: "one", ms: clock.ms })
    })
    const authority = Authority.make(store)
    const ask = (calls: readonly Call[]) => Promise.all(calls.map((one) => makeCall(authority, one)))
    heard(await ask(actors.flatMap((actor) => actor.pending)))
    check([], true)
    const facts = factsOf(directory).length
    for (const { commandId, reply } of await ask([...receipts.keys()].map((id) => made.get(id)!))) {
      if (reply?.["replayed"] !== true) faults.push(`${commandId}, asked for again, is not the stored receipt`)
    }
    if (factsOf(directory).length !== facts) faults.push("asking again wrote something")
    faults.push(...(await sumFaults(directory, authority)))
    await store.close()
  } finally {
    for (const actor of actors) await actor.end()
  }
  return { faults, kills, accepted, refused }
}
