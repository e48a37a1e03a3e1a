/** What a context packet holds, when it is a difference, what is cut, and what becomes of it. Rules: G12, G14, G35, G40, G86. */
import { assert, test } from "vitest"
import { canonicalJson, digestJson, sha256 } from "../../../src/base/Digest.ts"
import {
  buildPacket,
  type ContextContent,
  type Continuity,
  continuityOf
} from "../../../src/governance/ContextPacket.ts"
import { agentTable, goalTable } from "../../../src/governance/Goal.ts"
import { leaseTable } from "../../../src/governance/Lease.ts"
import { packetBytes, packetHandlers } from "../../../src/governance/Packet.ts"
import {
  type ContinuityRecord,
  continuityTable,
  type PacketRecord,
  packetTable
} from "../../../src/governance/PacketRecord.ts"
import { requirementOf } from "../../../src/governance/Requirement.ts"
import { reservationTable } from "../../../src/governance/ReservationRecord.ts"
import { sourceReadTable, sourceTable } from "../../../src/governance/SourceRecord.ts"
import { todoTable } from "../../../src/governance/TodoRecord.ts"
import { phases, type TurnRecord, turnTable } from "../../../src/governance/TurnRecord.ts"
import { decideBy, loadBy, rowOf, tables, told } from "./decide.ts"
import { account, lease, now, todo } from "./records.ts"
import {
  agent,
  fence,
  gate,
  gateDecision,
  goal,
  me,
  obligation,
  other,
  reservation,
  source,
  turn
} from "./workRecords.ts"

const decide = decideBy(packetHandlers)
const load = loadBy(packetHandlers)
const observed = { process: me, turn: "turn-a", driver: me, alive: false }
const session = { id: "session-a", generation: 3 }
const ready = (change: object = {}) => ({
  turn: turn(),
  goal: goal(),
  todo: todo(),
  lease: lease(),
  held: reservation(),
  accounts: [account()],
  required: [],
  read: [],
  obligations: [],
  gates: [],
  before: undefined,
  ...change
})
const issue = (state: object = {}, payload: object = {}, seen: object = observed) =>
  decide("issuePacket", ready(state), { turn: "turn-a", fence: fence(), ...payload }, seen)

test("G14 G86 a packet tells the requirement, the reads, when to stop, and what is asked and answered; the turn is from then on under it", () => {
  const got = issue()
  assert.deepEqual(got.facts, ["packet.issued", "turn.contextIssued"])
  const packet = got.reply as PacketRecord
  assert.deepInclude(packet, {
    id: "packet-1",
    goal: "goal-a",
    agent: "ada",
    todo: "todo-a",
    turn: "turn-a",
    session: null,
    kind: "complete",
    why: "noSession",
    tokens: null,
    reads: [],
    issuedAt: now,
    acknowledgedAt: null
  })
  const { body } = packet
  assert.deepEqual(body.requirement, {
    goal: { id: "goal-a", title: goal().title },
    todo: { id: "todo-a", title: todo().title, revision: 3 },
    validator: null,
    writeScopes: [],
    digest: requirementOf(goal(), todo())
  })
  assert.deepEqual(body.stop, {
    goal: "active",
    leaseExpiresAt: lease().expiresAt,
    bound: { usd: 2, slots: 1 },
    left: [{ agent: null, remaining: { usd: 5, slots: 2 } }]
  })
  for (const section of ["reads", "obligations", "gates", "decisions", "references"] as const)
    assert.deepEqual(body[section], [], section)
  const under = (of: typeof got) => (of.events.at(-1)!.data as unknown as TurnRecord).context
  assert.deepEqual(under(got), {
    requirementRevision: 3,
    requirement: requirementOf(goal(), todo()),
    reads: [],
    packet: "packet-1",
    digest: packet.digest
  })
  const read = { source: "source-a", goal: "goal-a", agent: "ada", revision: 2, turn: null, readAt: 1 }
  const required = [source(), source({ id: "source-b" }), source({ id: "source-c", revision: 5 })]
  const told_ = issue({
    required,
    read: [read, { ...read, source: "source-c", revision: 4 }],
    todo: todo({ acceptance: { validator: "oracle" } })
  }).reply as PacketRecord
  assert.deepEqual(
    told_.body.reads!.map(({ source: id, read: was }) => [id, was]),
    [
      ["source-a", true],
      ["source-b", false],
      ["source-c", false]
    ]
  )
  assert.equal(told_.body.requirement!.validator, "oracle")
  assert.deepEqual(
    told_.reads.map(({ revision }) => revision),
    [2, 2, 5]
  )
  const mine = {
    decisions: [{ id: "d", text: "go on" }],
    references: [{ kind: "log", ref: "r", digest: null, text: "t" }]
  }
  const open = gate({ actions: ["settle"], todos: ["todo-a"] })
  const answered = gate({ id: "gate-b", decisions: [gateDecision({ allow: false, answer: "never" })] })
  const allowed = gate({ id: "gate-c", decisions: [gateDecision()] })
  const gates = [
    open,
    answered,
    allowed,
    gate({ id: "gate-d", agents: ["bob"] }),
    gate({ id: "gate-e", todos: ["todo-b"] })
  ]
  const full = issue({ gates, obligations: [obligation()] }, mine).reply as PacketRecord
  assert.deepEqual(full.body.gates, [
    { id: "gate-a", kind: "userDecision", lane: "owner", question: "May it be done?" }
  ])
  assert.deepEqual(full.body.decisions, [
    { id: "gate-b", text: "May it be done? Refused: never" },
    { id: "gate-c", text: "May it be done? Allowed: yes" },
    ...mine.decisions
  ])
  assert.deepEqual(
    [full.body.obligations, full.body.references],
    [[{ id: "obligation-a", todo: "todo-a", reason: "it was promised" }], mine.references]
  )
  const once = gate({ decisions: [gateDecision({ reach: { kind: "once" }, usedBy: "todo-a/2" })] })
  assert.deepEqual((issue({ gates: [once] }).reply as PacketRecord).body.decisions!.length, 1)
})

test("G10 G35 G80 a packet is issued before a dispatch, to the turn's driver, under its lease, of what can be read", () => {
  for (const phase of phases) {
    for (const state of ["open", "closed", "failed"] as const) {
      const may = state === "open" && (phase === "admit" || phase === "execute")
      assert.equal(issue({ turn: turn({ phase, state }) }).refused, may ? undefined : "PhaseOrder", `${phase} ${state}`)
    }
  }
  const gone = decide("issuePacket", undefined, { turn: "turn-z", fence: fence() }, observed)
  assert.deepInclude(gone.error, { _tag: "NotFound", id: "turn-z" })
  assert.equal(issue({}, {}, { ...observed, process: other }).refused, "TurnInFlight")
  assert.equal(issue({ goal: goal({ state: "paused" }) }).refused, "GoalNotActive")
  assert.equal(issue({ lease: lease({ owner: "bob" }) }).refused, "LeaseLost")
  assert.equal(issue({ required: [source({ state: "unreadable" })] }).refused, "SourceState")
  assert.equal(issue({}, { limitBytes: 10 }).refused, "ContextTooLarge")
  assert.equal(packetBytes.default, 32_768)
})

test("G14 in a session that remembers, the next packet is a difference upon the last, and its memory moves on", () => {
  const first = issue({}, { session })
  assert.deepEqual(first.facts, ["packet.issued", "continuity.moved", "turn.contextIssued"])
  const memory = first.events[1]!.data as unknown as ContinuityRecord
  assert.deepEqual(memory, {
    goal: "goal-a",
    agent: "ada",
    session: "session-a",
    generation: 3,
    packet: "packet-1",
    lost: null,
    changedAt: now
  })
  assert.deepInclude(first.reply, { session, kind: "complete", why: "first" })
  const last = { ...(first.reply as PacketRecord), acknowledgedAt: now }
  const next = issue({ before: { ...memory, last } }, { session }).reply as PacketRecord
  assert.deepInclude(next, { kind: "delta", why: "continues" })
  assert.deepEqual(next.body.base, { packet: "packet-1", digest: last.digest })
  assert.isUndefined(next.body.requirement)
  const changed = issue({ before: { ...memory, last }, obligations: [obligation()] }, { session }).reply as PacketRecord
  assert.deepEqual([changed.body.obligations?.length, changed.body.gates], [1, undefined])
  const under = issue({ before: { ...memory, last } }, { session }).events.at(-1)!.data as unknown as TurnRecord
  assert.equal(under.context!.requirement, requirementOf(goal(), todo()))
  assert.equal((issue({ before: { ...memory, last: undefined } }, { session }).reply as PacketRecord).why, "first")
  assert.deepEqual(issue({ before: { ...memory, last } }, { session: null }).facts, [
    "packet.issued",
    "turn.contextIssued"
  ])
})

test("G14 a difference builds only upon what arrived and is remembered, in the same generation, under the same revisions", () => {
  const last = {
    id: "p",
    digest: "d",
    sections: {} as never,
    reads: [
      { source: "a", revision: 1 },
      { source: "b", revision: 1 }
    ],
    acknowledgedAt: 1
  }
  const known = (change: object = {}, of: object = {}): Continuity =>
    ({ generation: 3, before: { generation: 3, lost: null, last: { ...last, ...of }, ...change } }) as Continuity
  const reads = (a: number, b: number) => [
    { source: "a", revision: a },
    { source: "b", revision: b }
  ]
  assert.equal(continuityOf(null, []), "noSession")
  assert.equal(continuityOf({ generation: 3, before: null }, []), "first")
  assert.equal(continuityOf(known({ generation: 2 }), []), "generation")
  assert.equal(continuityOf(known({ lost: "compaction" }), []), "compaction")
  assert.equal(continuityOf(known({}, { acknowledgedAt: null }), []), "lostAck")
  assert.equal(continuityOf(known(), reads(1, 1)), "continues")
  assert.equal(continuityOf(known(), reads(1, 2)), "sourceRevision")
  assert.equal(continuityOf(known(), reads(2, 1)), "sourceRevision")
  assert.equal(continuityOf(known(), [{ source: "new", revision: 7 }]), "continues")
  assert.equal(continuityOf(known(), []), "continues")
})

test("G14 what does not fit is cut from the end of the lists, references first; what may never be dropped is refused by how much", () => {
  const packet = issue({}, {}).reply as PacketRecord
  const { requirement, stop } = packet.body
  const items = (name: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({ id: `${name}-${n}`, text: "x".repeat(40) }))
  const content = {
    requirement: requirement!,
    reads: [],
    stop,
    obligations: [],
    gates: [],
    decisions: items("d", 3),
    references: items("r", 3)
  } as unknown as ContextContent
  const build = (limitBytes: number, of: ContextContent = content) =>
    buildPacket({ packet: "p", turn: "turn-a", content: of, continuity: null, limitBytes })
  const built = (limitBytes: number, of?: ContextContent) => {
    const result = build(limitBytes, of)
    if (result._tag !== "Success") throw new Error("it did not fit")
    const { success } = result
    assert.equal(success.bytes, Buffer.byteLength(canonicalJson(success.body as never)))
    assert.isAtMost(success.bytes, limitBytes)
    assert.equal(success.digest, digestJson(success.body as never))
    return success
  }
  const whole = built(100_000)
  assert.deepEqual([whole.body.omitted, whole.body.decisions!.length, whole.body.references!.length], [[], 3, 3])
  assert.deepEqual(built(whole.bytes).body.omitted, [])
  const shorter = built(whole.bytes - 1)
  assert.deepInclude(shorter.body.omitted[0], { section: "references" })
  assert.equal(shorter.body.decisions!.length, 3)
  assert.notEqual(shorter.sections.references, whole.sections.references)
  assert.equal(shorter.sections.decisions, whole.sections.decisions)
  const least = told(build(1)).error
  assert.deepInclude(least, { _tag: "ContextTooLarge", turn: "turn-a", limitBytes: 1 })
  assert.equal(least["overBytes"], least["neededBytes"] - 1)
  assert.include(least["message"], `${least["neededBytes"]} bytes, ${least["neededBytes"] - 1} more`)
  const bare = built(least["neededBytes"])
  assert.deepEqual(
    [bare.body.omitted, bare.body.decisions, bare.body.references],
    [
      [
        { section: "decisions", items: 3 },
        { section: "references", items: 3 }
      ],
      [],
      []
    ]
  )
  assert.equal(told(build(least["neededBytes"] - 1)).refused, "ContextTooLarge")
  // Every byte more keeps no fewer: an item that does not fit leaves its room to the lists after it.
  let before = 0
  for (let limit = least["neededBytes"]; limit <= whole.bytes; limit += 1) {
    const { body } = built(limit)
    const kept = body.decisions!.length + body.references!.length
    assert.isAtLeast(kept, before)
    assert.deepEqual(
      body.omitted.map(({ section, items: count }) => [section, count]),
      (
        [
          ["decisions", 3 - body.decisions!.length],
          ["references", 3 - body.references!.length]
        ] as const
      ).filter(([, count]) => count > 0) as never
    )
    before = Math.max(before, Math.min(kept, 3))
  }
  const large = { ...content, decisions: [{ id: "d", text: "x".repeat(400) }] } as ContextContent
  const without = built(built(100_000, large).bytes - 300, large)
  assert.deepEqual([without.body.decisions!.length, without.body.references!.length], [0, 3])
})

test("G14 a packet is acknowledged once, by its digest; a compaction of what is remembered makes the next one complete", () => {
  const packet = issue({}, { session }).reply as PacketRecord
  const ack = (found: PacketRecord | undefined, payload: object = {}) =>
    decide("acknowledgePacket", found, { packet: "packet-1", digest: packet.digest, ...payload })
  assert.deepEqual(
    [ack(packet).facts, ack(packet).reply],
    [["packet.acknowledged"], { ...packet, acknowledgedAt: now }]
  )
  assert.equal(ack(packet, { tokens: 9 }).reply["tokens"], 9)
  assert.deepInclude(ack(packet, { digest: sha256("other") }).error, {
    _tag: "IdentityConflict",
    kind: "packet",
    id: "packet-1"
  })
  const before = { ...packet, acknowledgedAt: 1 }
  assert.deepEqual([ack(before).facts, ack(before).reply], [[], before])
  assert.deepInclude(ack(undefined).error, { _tag: "NotFound", kind: "packet", id: "packet-1" })
  const memory: ContinuityRecord = {
    goal: "goal-a",
    agent: "ada",
    session: "session-a",
    generation: 3,
    packet: "packet-1",
    lost: null,
    changedAt: 1
  }
  const compact = (of: ContinuityRecord | undefined, at: object | undefined = goal()) =>
    decide("recordCompaction", { goal: at, memory: of }, { goal: "goal-a", agent: "ada", session })
  const reply = { goal: "goal-a", agent: "ada", session }
  for (const generation of [2, 3]) {
    const got = compact({ ...memory, generation })
    assert.deepEqual([got.facts, got.reply], [["continuity.lost"], { ...reply, lost: "compaction" }])
    assert.deepEqual(got.events[0], {
      type: "continuity.lost",
      entity: "packet-1",
      data: { ...memory, generation, lost: "compaction", changedAt: now } as never
    })
  }
  for (const [of, lost] of [
    [undefined, null],
    [{ ...memory, generation: 4 }, null],
    [{ ...memory, lost: "compaction" } as const, "compaction"]
  ] as const)
    assert.deepEqual([compact(of).facts, compact(of).reply], [[], { ...reply, lost }])
  assert.deepInclude(
    decide("recordCompaction", { goal: undefined, memory }, { goal: "goal-z", agent: "ada", session }).error,
    { kind: "goal", id: "goal-z" }
  )
})

test("G14 issuing reads what the packet tells, and the memory of the session that is named", () => {
  const last = issue({}, { session }).reply as PacketRecord
  const memory: ContinuityRecord = {
    goal: "goal-a",
    agent: "ada",
    session: "session-a",
    generation: 3,
    packet: "packet-1",
    lost: null,
    changedAt: 1
  }
  const read = { source: "source-a", goal: "goal-a", agent: "ada", revision: 2, turn: null, readAt: 1 }
  const answer = tables({
    goal: [rowOf(goalTable.put(goal()))],
    agent: [rowOf(agentTable.put(agent()))],
    todo: [rowOf(todoTable.put(todo({ requiredReads: ["source-a"] })))],
    lease: [rowOf(leaseTable.put(lease()))],
    turn: [rowOf(turnTable.put(turn()))],
    reservation: [rowOf(reservationTable.put(reservation()))],
    source: [rowOf(sourceTable.put(source()))],
    source_read: [rowOf(sourceReadTable.put(read))],
    [/INTO (\w+)/.exec(continuityTable.put(memory).sql)![1]!]: [rowOf(continuityTable.put(memory))],
    [/INTO (\w+)/.exec(packetTable.put(last).sql)![1]!]: [rowOf(packetTable.put(last))]
  })
  const state = (payload: object) =>
    load("issuePacket", { turn: "turn-a", fence: fence(), ...payload }, answer, now)["state"]
  const plain = state({})
  assert.deepInclude(plain, {
    turn: turn(),
    goal: goal(),
    lease: lease(),
    held: reservation(),
    required: [source()],
    read: [read],
    obligations: [],
    gates: [],
    before: undefined
  })
  assert.equal(state({ session: null }).before, undefined)
  assert.deepEqual(state({ session }).before, { ...memory, last })
  assert.equal(state({ session: { ...session, id: "other" } }).before, undefined)
  assert.equal(state({ turn: "turn-z" }), undefined)
  assert.deepEqual(load("recordCompaction", { goal: "goal-a", agent: "ada", session }, answer)["state"], {
    goal: goal(),
    memory
  })
})
