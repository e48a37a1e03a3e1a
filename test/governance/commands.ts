/**
 * Every write of governance as a random call: what a host application, a planner or a confused agent could ask for.
 * Promise: one entry a call; an input is drawn from what the journal and earlier replies say, mostly sound, sometimes stale or
 * of other work, so that acceptance and refusal both happen. A new command joins with one entry. Rules: 02 "Numbers".
 */
import { digestJson } from "../../src/base/Digest.ts"
import type { Fence } from "../../src/governance/index.ts"
import { agents, type Commands, type Draw, fenceOf, goalOf, type Pick, type World } from "./drawing.ts"
import type { Record_ } from "./factRules.ts"
import { furtherCommands } from "./furtherCommands.ts"

const scopes = ["packages/core", "packages/core/src", "packages/gate", "docs"]
const digest = (text: string): string => digestJson(text)

const todoOf = (world: World, pick: Pick, states = ["open", "deferred"]): Record_ | undefined => {
  const wanted = world.all("todo").filter((todo) => states.includes(todo["state"]))
  return pick.one(pick.chance(90) && wanted.length > 0 ? wanted : world.all("todo"))
}

/** A turn of the asking process that is in a phase; now and then any turn. */
const turnOf = (world: World, pick: Pick, ...phases: readonly string[]): Record_ | undefined => {
  const open = world.all("turn").filter((turn) => turn["state"] === "open")
  const mine = open.filter((turn) => turn["fence"].pid === world.pid && phases.includes(turn["phase"]))
  if (mine.length > 0 && pick.chance(90)) return pick.one(mine)
  return pick.chance(10) ? pick.one(pick.chance(30) ? world.all("turn") : open) : undefined
}

const reservationOf = (world: World, pick: Pick, ...states: readonly string[]): Record_ | undefined => {
  const known = new Map(world.all("quota").map(({ reservation }) => [reservation.id as string, reservation as Record_]))
  const wanted = [...known.values()].filter((one) => states.includes(one["state"]))
  return pick.one(wanted.length > 0 && pick.chance(85) ? wanted : [...known.values()])
}

const usd = (pick: Pick): number => pick.number(8) * 0.125
const spend = (pick: Pick) => ({
  usd: pick.chance(20) ? "unknown" : usd(pick),
  ...(pick.chance(30) ? { tokens: pick.number(50) } : {})
})
const bound = (pick: Pick) => ({ usd: usd(pick), slots: 1, tokens: pick.number(60) })
const spec = (pick: Pick) => ({
  title: `todo ${pick.number(1000)}`,
  priority: pick.number(3),
  ...(pick.chance(40) ? { writeScopes: [pick.one(scopes)!] } : {}),
  ...(pick.chance(10) ? { excludedAgents: [pick.one(agents)!] } : {}),
  ...(pick.chance(10) ? { capabilities: ["network"] } : {}),
  ...(pick.chance(10) ? { acceptance: { validator: "tests" } } : {})
})
const continuation = (pick: Pick) =>
  pick.chance(50)
    ? { kind: "successors", todos: [spec(pick)] }
    : { kind: pick.chance(50) ? "goalStaysActive" : "noFollowUp" }
const ttl = (pick: Pick) => (pick.chance(60) ? {} : { ttlMs: 1 + pick.number(3000) })

const held =
  (draw: (fence: Fence, pick: Pick, world: World) => object): Draw =>
  (world, pick) => {
    const todo = pick.one(world.all("lease").filter((lease) => lease["releasedAt"] === null))
    const fence = fenceOf(world, pick, todo?.["todo"])
    return fence === undefined ? undefined : draw(fence, pick, world)
  }

const ofTurn =
  (phases: readonly string[], draw: (turn: Record_, world: World, pick: Pick) => object | undefined): Draw =>
  (world, pick) => {
    const turn = turnOf(world, pick, ...phases)
    return turn === undefined ? undefined : draw(turn, world, pick)
  }

const withFence = (turn: Record_, world: World, pick: Pick, input: object): object | undefined => {
  const fence = fenceOf(world, pick, turn["todo"])
  return fence === undefined ? undefined : { turn: turn["id"], fence, ...input }
}

const settlement = (world: World, pick: Pick, fence: Fence): object | undefined => {
  const todo = world.all("todo").find((one) => one["id"] === fence.todo)
  if (todo === undefined) return undefined
  const turn = world
    .all("turn")
    .find((one) => one["todo"] === todo["id"] && one["state"] === "open" && one["phase"] === "validate")
  const acceptance = world
    .all("acceptance")
    .findLast(
      (one) => one["todo"] === todo["id"] && one["turn"] === (turn?.["id"] ?? null) && one["outcome"] === "passed"
    )
  const candidate = acceptance?.["candidate"] ?? null
  const evidence = world
    .all("evidence")
    .filter((one) => one["goal"] === todo["goal"])
    .slice(-3)
  return {
    effectId: turn?.["effectId"] ?? (pick.chance(85) ? `eff_${world.serial}` : `eff_${pick.number(world.serial + 1)}`),
    goal: todo["goal"],
    fence,
    ...(turn === undefined ? {} : { turn: turn["id"] }),
    outcome: acceptance === undefined ? pick.one(["progress", "failed", "accepted"]) : "accepted",
    evidence: evidence.map((one) => one["id"]),
    acceptance: acceptance?.["id"] ?? null,
    candidate,
    spend: spend(pick),
    todo: pick.chance(50)
      ? { action: "complete", continuation: continuation(pick) }
      : { action: "keep", ...(pick.chance(50) ? { release: true } : {}) }
  }
}

/** What usually comes next for a turn in a phase: without it, few turns would get to their end. */
const following: Readonly<Record<string, readonly string[]>> = {
  admit: ["Turns.saveAttempt"],
  execute: ["Turns.recordResult", "Turns.recordResult", "Turns.executorStarted"],
  result: ["Evidence.record", "Acceptances.record", "Turns.recordVerdict", "Turns.recordVerdict"],
  validate: ["Settlements.settle"],
  settle: ["Turns.close"]
}

const workCommands: Commands = {
  "Goals.open": [
    1,
    (world, pick) =>
      world.all("goal").length > 4
        ? undefined
        : {
            title: `goal ${world.serial}`,
            budget: {
              usd: 8 + pick.number(20),
              slots: 100,
              tokens: 4000,
              ...(pick.chance(40) ? { windowMs: 2000 } : {})
            }
          }
  ],
  "Goals.pause": [1, (world, pick) => ({ goal: goalOf(world, pick) })],
  "Goals.resume": [
    6,
    (world, pick) => ({
      goal: (pick.one(world.all("goal").filter((goal) => goal["state"] !== "active")) ?? world.all("goal")[0])?.["id"]
    })
  ],
  "Goals.stop": [1, (world, pick) => ({ goal: goalOf(world, pick) })],
  "Agents.register": [
    2,
    (world, pick) => ({
      goal: goalOf(world, pick),
      agentId: pick.one(agents),
      ...(pick.chance(30) ? { capabilities: ["network"] } : {}),
      ...(pick.chance(20) ? { budget: { usd: 1 + pick.number(4) } } : {})
    })
  ],
  "Todos.add": [
    6,
    (world, pick) => {
      const other = pick.one(world.all("todo").filter((todo) => todo["state"] === "open"))
      const link =
        other === undefined || pick.chance(70) ? {} : { [pick.chance(50) ? "dependsOn" : "unblocks"]: [other["id"]] }
      const goal = other?.["goal"] ?? goalOf(world, pick)
      const source = pick.chance(25) ? pick.one(world.all("source").filter((one) => one["goal"] === goal)) : undefined
      return { goal, ...spec(pick), ...link, ...(source === undefined ? {} : { requiredReads: [source["id"]] }) }
    }
  ],
  "Todos.edit": [
    3,
    (world, pick) => {
      const todo = todoOf(world, pick)
      const { excludedAgents: _, ...change } = spec(pick)
      return todo && { todo: todo["id"], revision: todo["revision"] - (pick.chance(10) ? 1 : 0), ...change }
    }
  ],
  "Todos.defer": [
    2,
    (world, pick) => {
      const todo = todoOf(world, pick, ["open"])
      const fence = pick.chance(50) ? fenceOf(world, pick, todo?.["id"]) : undefined
      const until = pick.chance(60) ? { until: world.now + pick.number(500) } : {}
      return todo && { todo: todo["id"], reason: "later", ...until, ...(fence === undefined ? {} : { fence }) }
    }
  ],
  "Todos.reopen": [2, (world, pick) => ({ todo: todoOf(world, pick, ["deferred"])?.["id"] })],
  "Todos.supersede": [
    1,
    (world, pick) => {
      const todo = todoOf(world, pick)
      const fence = pick.chance(50) ? fenceOf(world, pick, todo?.["id"]) : undefined
      const replacements = pick.chance(60) ? { replacements: [spec(pick)] } : {}
      return todo && { todo: todo["id"], reason: "better", ...replacements, ...(fence === undefined ? {} : { fence }) }
    }
  ],
  "Todos.complete": [2, held((fence, pick) => ({ todo: fence.todo, fence, continuation: continuation(pick) }))],
  "Todos.nextWork": [14, (world, pick) => ({ goal: goalOf(world, pick), agent: pick.one(agents), ...ttl(pick) })],
  "Leases.acquire": [
    4,
    (world, pick) => ({ todo: todoOf(world, pick)?.["id"], agent: pick.one(agents), ...ttl(pick) })
  ],
  "Leases.renew": [5, held((fence, pick) => ({ fence, ...ttl(pick) }))],
  "Leases.transfer": [2, held((fence, pick) => ({ fence, to: pick.one(agents), reason: "handed over", ...ttl(pick) }))],
  "Leases.release": [3, held((fence) => ({ fence }))],
  "Quota.reserve": [
    5,
    (world, pick) => {
      const fence = pick.chance(50) ? fenceOf(world, pick) : undefined
      const goal = world.all("todo").find((todo) => todo["id"] === fence?.todo)?.["goal"] ?? goalOf(world, pick)
      const work = fence === undefined ? {} : { todo: fence.todo, fence }
      return { goal, agent: pick.one(agents), effectId: `eff_${world.serial}`, bound: bound(pick), ...work }
    }
  ],
  "Quota.spend": [
    5,
    (world, pick) => {
      const named = pick.chance(70) ? reservationOf(world, pick, "open") : undefined
      return named === undefined || named["turn"] !== null
        ? { goal: goalOf(world, pick), agent: pick.one(agents), effectId: `eff_${world.serial}`, spend: spend(pick) }
        : { goal: named["goal"], effectId: named["effectId"], reservation: named["id"], spend: spend(pick) }
    }
  ],
  "Quota.trueUp": [3, (world, pick) => ({ reservation: reservationOf(world, pick, "owed")?.["id"], usd: usd(pick) })],
  "Quota.void": [
    2,
    (world, pick) => ({ reservation: reservationOf(world, pick, "open", "spent")?.["id"], reason: "not needed" })
  ],
  "Evidence.record": [
    4,
    (world, pick) => ({
      goal: goalOf(world, pick),
      kind: pick.one(["patch", "verdict", "log"]),
      digest: digest(`evidence ${world.serial}`),
      summary: "what was seen",
      producer: { role: "validator", name: "tests" }
    })
  ],
  "Acceptances.record": [
    5,
    (world, pick) => {
      const turn = pick.chance(80) ? turnOf(world, pick, "result") : undefined
      const todo = pick.one(
        world.all("todo").filter(({ state, goal }) => state === "open" && goal === (turn?.["goal"] ?? goal))
      )
      const work =
        turn === undefined ? { goal: todo?.["goal"], todo: todo?.["id"] } : { goal: turn["goal"], turn: turn["id"] }
      const evidence = world.all("evidence").findLast((one) => one["goal"] === work.goal)
      const candidate = world
        .all("candidate")
        .findLast((one) => one["goal"] === work.goal && one["state"] === "recorded")
      const after = digest(pick.chance(95) ? "tests" : "other tests")
      return {
        ...work,
        candidate: pick.chance(40) ? (candidate?.["identity"] ?? null) : null,
        validator: { name: "tests", digestBefore: digest("tests"), digestAfter: after },
        outcome: pick.chance(75) ? "passed" : "failed",
        evidence: evidence === undefined ? [] : [evidence["id"]]
      }
    }
  ],
  "Settlements.settle": [
    8,
    (world, pick) => {
      const waiting = turnOf(world, pick, "validate")
      const fence = fenceOf(world, pick, waiting?.["todo"]) ?? fenceOf(world, pick)
      return fence === undefined ? undefined : settlement(world, pick, fence)
    }
  ],
  "Turns.admit": [
    10,
    (world, pick) => {
      const lease = pick.one(world.all("lease").filter(({ releasedAt }) => releasedAt === null))
      const fence = fenceOf(world, pick, lease?.["todo"])
      return lease && fence && { goal: lease["goal"], agent: lease["owner"], fence, bound: bound(pick) }
    }
  ],
  "Turns.saveAttempt": [
    8,
    ofTurn(["admit"], (turn, world, pick) =>
      withFence(turn, world, pick, {
        ...(pick.chance(85) ? { guarantee: { diesWithParent: true, wholeTree: true } } : {}),
        ...(turn["attempts"].length > 0 || pick.chance(10) ? { retry: "once more" } : {})
      })
    )
  ],
  "Turns.executorStarted": [
    3,
    ofTurn(["execute"], (turn) => ({
      turn: turn["id"],
      // A process of an earlier boot: it has ended.
      executor: { pid: 1, startTime: "1", bootId: "an earlier boot", pidNamespace: null }
    }))
  ],
  "Turns.recordResult": [
    8,
    ofTurn(["execute"], (turn, _, pick) => ({
      turn: turn["id"],
      result: {
        status: pick.chance(80) ? "ok" : "failed",
        claim: "completed",
        summary: "done",
        failure: null,
        digest: null,
        usd: pick.chance(20) ? "unknown" : usd(pick),
        wallMs: pick.number(1000),
        provenGone: pick.chance(80) ? true : null
      }
    }))
  ],
  "Turns.recordVerdict": [
    8,
    ofTurn(["result"], (turn, world) => {
      const acceptance = world.all("acceptance").findLast((one) => one["turn"] === turn["id"])?.["id"] ?? null
      return { turn: turn["id"], acceptance, note: "nothing was judged" }
    })
  ],
  "Turns.close": [6, ofTurn(["settle"], (turn) => ({ turn: turn["id"] }))],
  "Turns.fail": [
    3,
    ofTurn(["admit", "execute", "result", "validate"], (turn, _, pick) => ({
      turn: turn["id"],
      reason: "it did not work",
      ...(pick.chance(20) ? { class: "supervisionFailed" } : {}),
      ...(pick.chance(50) ? { seenGone: "a person looked" } : {}),
      spend: spend(pick)
    }))
  ],
  "Turns.resume": [
    6,
    (world, pick) => {
      const turn = pick.one(
        world.all("turn").filter((one) => one["state"] === "open" && one["fence"].pid !== world.pid)
      )
      const fence = pick.chance(80) ? fenceOf(world, pick, turn?.["todo"]) : undefined
      return turn && { turn: turn["id"], ...(fence === undefined ? {} : { fence }) }
    }
  ],
  "Turns.retry": [
    3,
    (world, pick) => {
      const turn = pick.one(world.all("turn").filter((one) => one["state"] === "failed"))
      return turn && withFence(turn, world, pick, { bound: bound(pick), reason: "once more" })
    }
  ],
  "Candidates.plan": [
    4,
    (world, pick) => ({
      goal: goalOf(world, pick),
      operationId: pick.chance(90) ? `op_${world.serial}` : `op_${pick.number(world.serial + 1)}`
    })
  ],
  "Candidates.record": [
    4,
    (world, pick) => {
      const known = pick.one(world.all("candidate").filter(({ state }) => state !== "recorded" || pick.chance(5)))
      const candidate = { tree: digest(`tree ${known?.["operationId"]}`), parent: null }
      return known && { operationId: known["operationId"], identity: digestJson(candidate), candidate }
    }
  ],
  "Candidates.resolve": [
    2,
    (world, pick) => ({
      operationId: pick.one(world.all("candidate"))?.["operationId"],
      state: pick.chance(50) ? "unknown" : "absent"
    })
  ],
  "Candidates.releasePin": [
    1,
    (world, pick) => ({
      operationId: pick.one(world.all("candidate").filter((one) => one["pin"] !== null))?.["operationId"],
      reason: "nobody needs it"
    })
  ]
}

const commands: Commands = { ...workCommands, ...furtherCommands }

const weighted = Object.entries(commands).flatMap(([name, [weight]]) => Array<string>(weight).fill(name))

/** A call and its input; undefined when there is nothing that it could be about. */
export const drawCall = (world: World, pick: Pick): { readonly name: string; readonly input: object } | undefined => {
  const mine = pick.one(world.all("turn").filter((turn) => turn["state"] === "open" && turn["fence"].pid === world.pid))
  const name = mine !== undefined && pick.chance(40) ? pick.one(following[mine["phase"]] ?? [])! : pick.one(weighted)!
  const input = commands[name]![1](world, pick)
  // As it would travel: without what is undefined.
  return input === undefined ? undefined : { name, input: JSON.parse(JSON.stringify(input)) as object }
}

/** Every call that is drawn. */
export const callNames: readonly string[] = Object.keys(commands)
