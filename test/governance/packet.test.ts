import { assert, test } from "vitest"
import { canonicalJson, digestJson, type Json, sha256 } from "../../src/base/Digest.ts"
import { type ContextContent, buildPacket } from "../../src/governance/ContextPacket.ts"
import {
  Gates,
  Goals,
  type Goal,
  Obligations,
  type PacketRecord,
  Packets,
  Quota,
  Sources,
  Todos,
  Turns
} from "../../src/governance/index.ts"
import { type Bench, hold, newBench, newGoal, newTodo } from "./authority.ts"

const text = (content: string) => ({ digest: sha256(content), ref: `notes@${content}`, bytes: content.length })
const register = (bench: Bench, goal: Goal, name: string) =>
  bench.run(Sources.register({ goal: goal.id, name, ...text("one"), tokens: 7 }))

/** An admitted turn of ada on a todo that requires one source, and a session that remembers. */
const scene = async (more: object = {}) => {
  const bench = await newBench()
  const goal = await newGoal(bench)
  const source = await register(bench, goal, "the contract")
  const todo = await newTodo(bench, goal, { requiredReads: [source.id], writeScopes: ["src"], ...more })
  const { fence } = await hold(bench, todo)
  const turn = await bench.run(Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 2 } }))
  const session = { id: "bnd_1", generation: 1 }
  const issue = (change: object = {}) => bench.run(Packets.issue({ turn: turn.id, fence, session, ...change }))
  const ack = ({ id, digest }: PacketRecord) => bench.run(Packets.acknowledge({ packet: id, digest }))
  const revise = (content: string, revision = 1) =>
    bench.run(Sources.revise({ source: source.id, revision, ...text(content) }))
  return { bench, goal, source, todo, fence, turn, session, issue, ack, revise }
}

test("G14 V5 the first packet of a session is complete: requirement, required reads by reference, stop conditions, what is owed to the work", async () => {
  const { bench, goal, source, todo, turn, issue } = await scene({ acceptance: { validator: "oracle" } })
  const obligation = await bench.run(
    Obligations.open({ goal: goal.id, todo: todo.id, reason: "it was promised for today" })
  )
  const packet = await issue({
    decisions: [{ id: "d1", text: "keep the old names" }],
    references: [{ kind: "finding", ref: "fnd_1", digest: null, text: "the parser drops comments" }]
  })
  assert.deepInclude(packet, { kind: "complete", why: "first", tokens: null, acknowledgedAt: null, turn: turn.id })
  const { body } = packet
  assert.deepInclude(body.requirement!, {
    goal: { id: goal.id, title: goal.title },
    todo: { id: todo.id, title: todo.title, revision: 1 },
    validator: "oracle",
    writeScopes: ["src"]
  })
  assert.deepEqual(body.reads, [
    {
      source: source.id,
      name: "the contract",
      revision: 1,
      digest: sha256("one"),
      ref: "notes@one",
      bytes: 3,
      tokens: 7,
      read: false
    }
  ])
  assert.deepEqual(body.stop, {
    goal: "active",
    leaseExpiresAt: bench.now + 45 * 60_000,
    bound: { usd: 2, slots: 1, attempts: 1 },
    left: [{ agent: null, remaining: { usd: 8, slots: 9 } }]
  })
  assert.deepEqual(body.obligations, [{ id: obligation.id, todo: todo.id, reason: "it was promised for today" }])
  assert.deepEqual([body.decisions?.length, body.references?.length, body.omitted, body.base], [1, 1, [], null])
  assert.equal(packet.bytes, Buffer.byteLength(canonicalJson(body as unknown as Json)))
  assert.equal(packet.digest, digestJson(body as unknown as Json))
  assert.deepEqual((await bench.run(Packets.get({ packet: packet.id }))).body, body)
})

test("G14 G40 a packet names what is asked about its work and was not answered, and the answers that stand, for good ones too", async () => {
  const { bench, goal, todo, issue } = await scene()
  const person = { role: "person", name: "eve" } as const
  const ask = (question: string, more: object = {}) =>
    bench.run(Gates.ask({ goal: goal.id, kind: "userDecision", question, actions: ["effect"], ...more }))
  const open = await ask("May it be sent?")
  const answered = await ask("Which name?")
  const of = { by: person, reason: "r" } as const
  await bench.run(
    Gates.decide({ gate: answered.id, allow: true, answer: "the old one", reach: { kind: "scope" }, ...of })
  )
  const refused = await ask("May it be dropped?", { todos: [todo.id] })
  await bench.run(Gates.decide({ gate: refused.id, allow: false, answer: "no", reach: { kind: "scope" }, ...of }))
  await ask("Of bob alone?", { agents: ["bob"] })
  const { body } = await issue({ decisions: [{ id: "mine", text: "t" }] })
  assert.deepEqual(body.gates, [{ id: open.id, kind: "userDecision", lane: "owner", question: "May it be sent?" }])
  assert.sameDeepMembers(
    [...body.decisions!],
    [
      { id: answered.id, text: "Which name? Allowed: the old one" },
      { id: refused.id, text: "May it be dropped? Refused: no" },
      { id: "mine", text: "t" }
    ]
  )
})

test("G14 V5 after an acknowledged packet comes the difference: what changed and the stop conditions, upon a base that is named", async () => {
  const { bench, todo, issue, ack, source } = await scene()
  const first = await issue()
  await ack(first)
  const second = await issue()
  assert.deepInclude(second, { kind: "delta", why: "continues" })
  assert.deepEqual(Object.keys(second.body).toSorted(), [
    "base",
    "kind",
    "omitted",
    "packet",
    "protocol",
    "stop",
    "turn",
    "version",
    "why"
  ])
  assert.deepEqual(second.body.base, { packet: first.id, digest: first.digest })
  assert.isBelow(second.bytes, first.bytes)
  await ack(second)
  await bench.run(Todos.edit({ todo: todo.id, revision: 1, title: "Find the other fault" }))
  await bench.run(Sources.read({ source: source.id, revision: 1, agent: "ada" }))
  const third = await issue()
  assert.equal(third.body.requirement?.todo.title, "Find the other fault")
  assert.equal(third.body.reads?.[0]?.read, true)
  assert.deepEqual(third.body.base, { packet: second.id, digest: second.digest })
})

test("G14 V5 a packet is complete again after a lost ACK, a compaction, another generation, a revised source, and without a session", async () => {
  const { bench, goal, session, issue, ack, revise } = await scene()
  const why = async (change: object = {}) => {
    const packet = await issue(change)
    assert.equal(packet.kind, packet.why === "continues" ? "delta" : "complete")
    assert.equal(packet.body.requirement === undefined, packet.kind === "delta")
    return packet
  }
  const acknowledged = async (change: object = {}) => {
    const packet = await why(change)
    await ack(packet)
    return packet.why
  }
  assert.equal(await acknowledged(), "first")
  const unheard = await why()
  assert.equal(unheard.why, "continues")
  assert.equal(await acknowledged(), "lostAck")
  assert.equal(await acknowledged(), "continues")
  // An ACK that comes late says nothing of what was issued since.
  await ack(unheard)
  assert.equal(await acknowledged(), "continues")
  await bench.run(Packets.compacted({ goal: goal.id, agent: "ada", session }))
  assert.equal(await acknowledged(), "compaction")
  await revise("two")
  assert.equal(await acknowledged(), "sourceRevision")
  const replaced = { session: { id: session.id, generation: 2 } }
  assert.equal(await acknowledged(replaced), "generation")
  // What the old generation still reports is of a memory that is over.
  await bench.run(Packets.compacted({ goal: goal.id, agent: "ada", session }))
  assert.equal(await acknowledged(replaced), "continues")
  assert.equal(await acknowledged({ session: null }), "noSession")
  assert.equal(await acknowledged({ session: { id: "bnd_2", generation: 1 } }), "first")
  assert.equal(await acknowledged(replaced), "continues")
})

test("G14 an acknowledgement names the digest of what arrived: another one is refused and the next packet is complete, twice is once", async () => {
  const { bench, turn, issue } = await scene()
  const packet = await issue()
  const wrong = await bench.fails(Packets.acknowledge({ packet: packet.id, digest: sha256("else") }))
  assert.deepInclude(wrong, { code: "IDENTITY_CONFLICT", kind: "packet", id: packet.id })
  const lost = await issue()
  assert.equal(lost.why, "lostAck")
  const acknowledge = (tokens: number) => Packets.acknowledge({ packet: lost.id, digest: lost.digest, tokens })
  assert.equal((await bench.run(acknowledge(812))).tokens, 812)
  const facts = (await bench.store.journal({ after: 0, limit: 1000 })).length
  assert.equal((await bench.run(acknowledge(9))).tokens, 812)
  assert.equal((await bench.store.journal({ after: 0, limit: 1000 })).length, facts)
  assert.deepEqual(
    (await bench.run(Packets.list({ turn: turn.id }))).items.map(({ id }) => id),
    [packet.id, lost.id]
  )
})

test("G14 shortening cuts lists from the end and says how much; what may never be dropped and does not fit is an error that says by how much", async () => {
  const { issue, bench, turn, fence, session } = await scene()
  const references = Array.from({ length: 40 }, (_, i) => ({
    kind: "finding",
    ref: `fnd_${i}`,
    digest: null,
    text: "x".repeat(100)
  }))
  const decisions = Array.from({ length: 5 }, (_, i) => ({ id: `d${i}`, text: "y".repeat(50) }))
  const whole = await issue({ references, decisions })
  assert.deepEqual(whole.body.omitted, [])
  const short = await issue({ references, decisions, limitBytes: 3000 })
  assert.isAtMost(short.bytes, 3000)
  assert.isAbove(short.bytes, 2700)
  assert.deepEqual(short.body.decisions, decisions)
  const kept = short.body.references!.length
  assert.deepEqual(short.body.references, references.slice(0, kept))
  assert.deepEqual(short.body.omitted, [{ section: "references", items: 40 - kept }])
  for (const part of ["requirement", "reads", "stop"] as const) {
    if (part !== "stop") assert.deepEqual(short.body[part], whole.body[part])
    assert.isDefined(short.body[part])
  }
  const refused = await bench.fails(Packets.issue({ turn: turn.id, fence, session, references, limitBytes: 300 }))
  assert.equal(refused.code, "CONTEXT_TOO_LARGE")
  if (refused._tag !== "ContextTooLarge") return
  assert.equal(refused.overBytes, refused.neededBytes - 300)
  const least = await issue({ references, limitBytes: refused.neededBytes })
  assert.deepEqual(least.body.references, [])
})

test("G14 G15 C67 a list that was cut is no list that was told: acknowledged, it comes whole as soon as there is room, and what is left out is said every time", async () => {
  const { bench, goal, todo, issue, ack } = await scene()
  const reasons = Array.from({ length: 30 }, (_, i) => `${i} ${"must ".repeat(100)}`)
  for (const reason of reasons) await bench.run(Obligations.open({ goal: goal.id, todo: todo.id, reason }))
  const decisions = [{ id: "d", text: "keep the old names".repeat(20) }]
  const first = await issue({ decisions, limitBytes: 3000 })
  const left = (packet: PacketRecord) => packet.body.omitted.map(({ section, items }) => [section, items])
  const told = first.body.obligations!.length
  assert.isBelow(told, 30)
  assert.deepInclude(left(first), ["obligations", 30 - told])
  await ack(first)
  const again = await issue({ decisions, limitBytes: 3000 })
  assert.deepEqual([again.kind, again.body.requirement], ["delta", undefined])
  assert.deepInclude(left(again), ["obligations", 30 - again.body.obligations!.length])
  await ack(again)
  const whole = await issue({ decisions, limitBytes: 320_000 })
  assert.equal(whole.kind, "delta")
  assert.deepEqual(
    whole.body.obligations?.map(({ reason }) => reason),
    reasons
  )
  assert.deepEqual(left(whole), [])
  await ack(whole)
  const last = await issue({ decisions })
  assert.deepEqual([last.body.obligations, left(last)], [undefined, []])
})

test("G14 every limit between the least and the whole gives a packet within it that lacks nothing it must not lack", () => {
  const list = <A>(count: number, item: (i: number) => A) => Array.from({ length: count }, (_, i) => item(i))
  const content: ContextContent = {
    requirement: {
      goal: { id: "g", title: "t" },
      todo: { id: "t", title: "ü", revision: 1 },
      validator: null,
      writeScopes: [],
      digest: sha256("r")
    },
    reads: [],
    stop: { goal: "active", leaseExpiresAt: 1, bound: { usd: 1, slots: 1 }, left: [] },
    obligations: list(3, (i) => ({ id: `o${i}`, todo: null, reason: "z".repeat(i * 9) })),
    gates: list(2, (i) => ({ id: `q${i}`, kind: "userDecision", lane: "owner", question: "ä".repeat(i * 30) })),
    decisions: list(12, (i) => ({ id: `d${i}`, text: "y".repeat((i * 37) % 60) })),
    references: list(11, (i) => ({ kind: "log", ref: `r${i}`, digest: null, text: "w".repeat((i * 53) % 80) }))
  }
  const build = (limitBytes: number) => buildPacket({ packet: "p", turn: "t", content, continuity: null, limitBytes })
  const whole = build(1_000_000)
  const none = build(1)
  if (whole._tag !== "Success" || none._tag !== "Failure") return assert.fail("the ends of the range are wrong")
  for (let limit = none.failure.neededBytes; limit <= whole.success.bytes; limit += 1) {
    const built = build(limit)
    if (built._tag !== "Success") return assert.fail(`${limit} bytes were refused`)
    const { body, bytes } = built.success
    assert.isAtMost(bytes, limit)
    assert.deepEqual([body.requirement, body.reads, body.stop], [content.requirement, content.reads, content.stop])
    for (const section of ["obligations", "gates", "decisions", "references"] as const) {
      const omitted = body.omitted.find((one) => one.section === section)?.items ?? 0
      assert.deepEqual(body[section], content[section].slice(0, content[section].length - omitted) as never)
    }
  }
  assert.isTrue(build(none.failure.neededBytes - 1)._tag === "Failure")
})

test("G14 no packet and no turn under a required read that cannot be read, and nothing is held for it", async () => {
  const { bench, goal, source, turn, fence, session } = await scene()
  await bench.run(Sources.markUnreadable({ source: source.id, reason: "gone" }))
  const unreadable = { code: "SOURCE_STATE", source: source.id, state: "unreadable" } as const
  assert.deepInclude(await bench.fails(Packets.issue({ turn: turn.id, fence, session })), unreadable)
  await bench.run(Turns.fail({ turn: turn.id, reason: "cannot read", spend: { usd: 0 } }))
  const admit = Turns.admit({ goal: goal.id, agent: "ada", fence, bound: { usd: 2 } })
  assert.deepInclude(await bench.fails(admit), unreadable)
  assert.equal((await bench.run(Quota.status({ goal: goal.id }))).reserved.usd, 0)
  await bench.run(Sources.markReadable({ source: source.id }))
  assert.equal((await bench.run(admit)).state, "open")
})

test("G14 G10 G80 packets go to turns that are about to be dispatched: not below a paused goal, not after a result", async () => {
  const { bench, goal, turn, fence, issue } = await scene()
  await bench.run(Goals.pause({ goal: goal.id }))
  assert.equal((await bench.fails(Packets.issue({ turn: turn.id, fence }))).code, "GOAL_NOT_ACTIVE")
  await bench.run(Goals.resume({ goal: goal.id }))
  await bench.run(Turns.saveAttempt({ turn: turn.id, fence }))
  assert.equal((await issue()).kind, "complete")
  const result = {
    status: "ok",
    claim: "completed",
    summary: "s",
    failure: null,
    digest: null,
    usd: 0.5,
    wallMs: 1,
    provenGone: null
  } as const
  await bench.run(Turns.recordResult({ turn: turn.id, result }))
  assert.equal((await bench.fails(Packets.issue({ turn: turn.id, fence }))).code, "PHASE_ORDER")
})

test("G6 G14 what callers add to a packet is public: a path of a machine is refused and nothing is issued", async () => {
  const { bench, turn, fence } = await scene()
  const references = [{ kind: "log", ref: "/home/somebody/run.log", digest: null, text: "t" }]
  const refused = await bench.fails(Packets.issue({ turn: turn.id, fence, references }))
  assert.equal(refused.code, "NOT_PUBLIC")
  assert.deepEqual((await bench.run(Packets.list({ turn: turn.id }))).items, [])
})
