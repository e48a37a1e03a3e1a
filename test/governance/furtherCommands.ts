/** Random calls about what stands beside the work: gates, obligations, sources, packets, external effects, deliveries, closures. */
import { digestJson } from "../../src/base/Digest.ts"
import { agents, type Commands, fenceOf, goalOf, type Pick, type World } from "./drawing.ts"
import type { Record_ } from "./factRules.ts"

const digest = (text: string): string => digestJson(text)

/** One of a kind, in one of these states where there is one. */
const oneOf = (world: World, pick: Pick, kind: string, ...states: readonly string[]): Record_ | undefined => {
  const wanted = world.all(kind).filter((one) => states.includes(one["state"]))
  return pick.one(wanted.length > 0 && pick.chance(90) ? wanted : world.all(kind))
}

const origin = (pick: Pick) => ({ destination: "desk", channel: "mail", requestId: `r${pick.number(5)}` })
const by = (pick: Pick) => ({ role: pick.chance(85) ? "person" : "agent", name: "ada" })
const session = (pick: Pick) => ({ id: `s${pick.number(2)}`, generation: 1 + pick.number(2) })
const operation = (effect: unknown) => ({ pay: String(effect) })

export const furtherCommands: Commands = {
  "Goals.complete": [1, (world, pick) => ({ goal: goalOf(world, pick), closure: { reason: "all is done" } })],
  "Gates.ask": [
    2,
    (world, pick) => ({
      goal: goalOf(world, pick),
      kind: "userDecision",
      question: `may this happen, number ${pick.number(4)}?`,
      ...(pick.chance(60) ? { agents: [pick.one(agents)] } : {}),
      ...(pick.chance(50) ? { actions: [pick.one(["claim", "dispatch", "effect"])] } : {})
    })
  ],
  "Gates.decide": [
    4,
    (world, pick) => {
      const gate = oneOf(world, pick, "gate", "open")
      const todo = pick.one(world.all("todo").filter((one) => one["goal"] === gate?.["goal"]))
      const reaches = [
        { kind: "once" },
        { kind: "scope" },
        { kind: "until", at: world.now + pick.number(2000) },
        ...(todo === undefined ? [] : [{ kind: "todo", todo: todo["id"] }])
      ]
      return (
        gate && { gate: gate["id"], by: by(pick), allow: pick.chance(80), reason: "so it is", reach: pick.one(reaches) }
      )
    }
  ],
  "Gates.withdraw": [
    1,
    (world, pick) => {
      const gate = oneOf(world, pick, "gate", "open")
      return gate && { gate: gate["id"], by: by(pick), reason: "no question any more" }
    }
  ],
  "Obligations.open": [
    1,
    (world, pick) => {
      const todo = oneOf(world, pick, "todo", "open")
      return {
        goal: todo?.["goal"] ?? goalOf(world, pick),
        reason: "it must be tried",
        ...(todo ? { todo: todo["id"] } : {})
      }
    }
  ],
  "Obligations.meet": [
    1,
    (world, pick) => {
      const owed = oneOf(world, pick, "obligation", "open")
      const settled = pick.one(world.all("settlement").filter((one) => one["goal"] === owed?.["goal"]))
      return owed && settled && { obligation: owed["id"], settlement: settled["effectId"] }
    }
  ],
  "Obligations.waive": [
    1,
    (world, pick) => {
      const owed = oneOf(world, pick, "obligation", "open")
      return owed && { obligation: owed["id"], by: by(pick), reason: "not needed" }
    }
  ],
  "Sources.register": [
    1,
    (world, pick) => ({
      goal: goalOf(world, pick),
      name: `source ${pick.number(3)}`,
      digest: digest(`source ${pick.number(2)}`),
      ref: "docs/rules.md",
      bytes: 100
    })
  ],
  "Sources.revise": [
    1,
    (world, pick) => {
      const source = oneOf(world, pick, "source", "readable")
      const content = { digest: digest(`source ${world.serial}`), ref: "docs/rules.md", bytes: 101 }
      return source && { source: source["id"], revision: source["revision"], ...content }
    }
  ],
  "Sources.markUnreadable": [
    1,
    (world, pick) => {
      const source = oneOf(world, pick, "source", "readable")
      return source && { source: source["id"], reason: "it is gone" }
    }
  ],
  "Sources.markReadable": [
    2,
    (world, pick) => {
      const source = oneOf(world, pick, "source", "unreadable")
      return source && { source: source["id"] }
    }
  ],
  "Sources.retire": [
    1,
    (world, pick) => {
      const source = pick.chance(30) ? oneOf(world, pick, "source", "unreadable") : undefined
      return source && { source: source["id"], reason: "of no use" }
    }
  ],
  "Sources.read": [
    2,
    (world, pick) => {
      const source = oneOf(world, pick, "source", "readable")
      return source && { source: source["id"], revision: source["revision"], agent: pick.one(agents) }
    }
  ],
  "Packets.issue": [
    3,
    (world, pick) => {
      const turn = pick.one(
        world.all("turn").filter((one) => one["state"] === "open" && one["fence"].pid === world.pid)
      )
      const fence = turn && fenceOf(world, pick, turn["todo"])
      return fence && { turn: turn["id"], fence, ...(pick.chance(60) ? { session: session(pick) } : {}) }
    }
  ],
  "Packets.acknowledge": [
    2,
    (world, pick) => {
      const packet = pick.one(world.all("packet"))
      return packet && { packet: packet["id"], digest: pick.chance(85) ? packet["digest"] : digest("another") }
    }
  ],
  "Packets.compacted": [
    1,
    (world, pick) => ({ goal: goalOf(world, pick), agent: pick.one(agents), session: session(pick) })
  ],
  "Effects.plan": [
    3,
    (world, pick) => {
      const effect = `${goalOf(world, pick)}/pay-${world.serial}`
      const earlier = pick.chance(20) ? pick.one(world.all("effect")) : undefined
      return {
        effect,
        goal: goalOf(world, pick),
        provider: "bank",
        kind: {
          name: "pay",
          readBack: pick.chance(70) ? "yes" : "no",
          retry: pick.one(["safe", "keyed", "unsafe"]),
          stop: pick.one(["device", "person", "none"]),
          supervision: pick.chance(20) ? "required" : "none"
        },
        operation: operation(effect),
        summary: "pays a bill",
        ...(earlier === undefined ? {} : { after: [earlier["id"]] })
      }
    }
  ],
  "Effects.dispatch": [
    4,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "planned", "unknown")
      const supervisor = pick.chance(70) ? { supervisor: "eve" } : {}
      return effect && { effect: effect["id"], operation: operation(effect["id"]), ...supervisor }
    }
  ],
  "Effects.answer": [
    3,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "dispatched")
      const answer = pick.one(["confirmed", "refused", "lost"])
      return effect && { effect: effect["id"], attempt: effect["attempts"], answer }
    }
  ],
  "Effects.readBack": [
    3,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "unknown", "dispatched")
      const found = pick.one(["confirmed", "refused", "pending", "notFound", "notExecuted", "unavailable"])
      return effect && { effect: effect["id"], attempt: effect["attempts"], found }
    }
  ],
  "Effects.resolve": [
    1,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "unknown")
      const evidence = pick.one(world.all("evidence").filter((one) => one["goal"] === effect?.["goal"]))
      const said = { outcome: pick.one(["confirmed", "refused"]), person: "eve", reason: "she looked" }
      return effect && evidence && { effect: effect["id"], ...said, evidence: [evidence["id"]] }
    }
  ],
  "Effects.abandon": [
    1,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "planned")
      return effect && { effect: effect["id"], by: "eve", reason: "not needed" }
    }
  ],
  "Effects.requestStop": [
    1,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "dispatched", "unknown", "confirmed")
      return effect && { effect: effect["id"], by: "eve", reason: "stop" }
    }
  ],
  "Effects.noteEnded": [
    1,
    (world, pick) => {
      const effect = oneOf(world, pick, "effect", "dispatched", "unknown")
      return effect && { effect: effect["id"], what: pick.one(["model", "process"]), by: "eve", summary: "it ended" }
    }
  ],
  "Deliveries.setOrigin": [
    3,
    (world, pick) => {
      const todo = oneOf(world, pick, "todo", "open")
      return todo && { todo: todo["id"], origin: origin(pick) }
    }
  ],
  "Deliveries.changeOrigin": [
    1,
    (world, pick) => {
      const todo = pick.one(world.all("todo").filter((one) => (one["origin"] ?? null) !== null))
      return todo && { todo: todo["id"], revision: todo["revision"], origin: origin(pick), reason: "moved" }
    }
  ],
  "Deliveries.dispatch": [
    3,
    (world, pick) => {
      const delivery = oneOf(world, pick, "delivery", "accepted", "unknown")
      const retry = pick.chance(50) ? { retry: "once more" } : {}
      return delivery && { delivery: delivery["id"], provider: "mail", ...retry }
    }
  ],
  "Deliveries.resolve": [
    3,
    (world, pick) => {
      const delivery = oneOf(world, pick, "delivery", "dispatched", "unknown")
      const said = {
        outcome: pick.one(["confirmed", "unknown", "refused", "notSent"]),
        by: pick.one(["reply", "readBack"])
      }
      return delivery && { delivery: delivery["id"], attempt: delivery["attempts"], ...said }
    }
  ],
  "Deliveries.readByUser": [
    1,
    (world, pick) => {
      const delivery = oneOf(world, pick, "delivery", "confirmed", "dispatched")
      return delivery && { delivery: delivery["id"] }
    }
  ],
  "Deliveries.withdraw": [
    1,
    (world, pick) => {
      const delivery = pick.chance(40) ? oneOf(world, pick, "delivery", "accepted") : undefined
      return delivery && { delivery: delivery["id"], reason: "not needed" }
    }
  ]
}
