/**
 * Several operations on a stage and a payment service, over a line that loses things: `node examples/external-operation/run.ts [DIRECTORY]`.
 * Promise: what was done is counted in the devices' own logs, and nothing is done twice that may not be. Killed anywhere, the same
 * command goes on: what may have happened is read back first. Rules: G60 to G63; J8, V9, A3.
 */
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import * as Effect from "effect/Effect"
import { sha256 } from "../../src/base/Digest.ts"
import {
  Agents,
  type EffectRecord,
  Effects,
  Evidence,
  Goals,
  Leases,
  type OperationCall,
  Todos
} from "../../src/governance/index.ts"
import { minimal } from "../../src/minimal.ts"
import { activate, type Operations } from "../../src/session/index.ts"
import { connectPayments, connectStage } from "./providers.ts"
import { type Loss, readLog, switchOff } from "./wire.ts"

const given = process.argv[2]
if (
  process.argv.length > 3 ||
  given?.startsWith("-") ||
  (given !== undefined && existsSync(given) && !statSync(given).isDirectory())
) {
  console.error("usage: node run.ts [DIRECTORY]")
  process.exit(2)
}
const directory = given === undefined ? mkdtempSync(join(realpathSync(tmpdir()), "coppice-external-")) : resolve(given)
mkdirSync(directory, { recursive: true })

const say = (text: string): void => console.error(text)
/** How often a device really did it, by its own log. */
const done = (effect: string): number =>
  [...readLog(directory, "stage"), ...readLog(directory, "payments")].filter(
    (entry) => entry.what === "executed" && entry.effect === effect
  ).length

const named = (effect: string): string => effect.split("/").at(-1)!

/** What the line does to the first request of each effect. */
const losses: Readonly<Record<string, Loss>> = {
  lamp: "reply",
  "move-1": "reply",
  "move-2": "request",
  pay: "request"
}
const lossOf = ({ effectId, attempt }: OperationCall): Loss =>
  attempt === 1 ? (losses[named(effectId)] ?? "none") : "none"

/** What a refusal says, for refusals that are part of the story. */
const refusal = <A, E extends { readonly code: string; readonly message: string }, R>(work: Effect.Effect<A, E, R>) =>
  Effect.match(work, {
    onSuccess: () => say("  not refused"),
    onFailure: (error) => say(`  ${error.code}: ${error.message.replaceAll(/goal_[0-9a-f-]+\//g, "")}`)
  })

const work = Effect.gen(function* () {
  const goal = (yield* Goals.open({ commandId: "goal", title: "Scan the sample", budget: { slots: 1 } })).id
  yield* Agents.register({ commandId: "agent", goal, agentId: "ada" })
  const todo = (yield* Todos.add({ commandId: "todo", goal, title: "Scan it and pay for it" })).id
  const claim = yield* Todos.nextWork({ commandId: "claim", goal, agent: "ada" })
  if (claim._tag !== "claimed") return yield* Effect.die("the only todo was not claimed")
  // The claim's receipt stays as it was, its lease ends by its time: a run that goes on after that takes the todo again.
  let { lease } = claim
  while (lease.expiresAt <= Date.now() && (yield* Todos.get({ todo })).state === "open") {
    lease = yield* Leases.acquire({ commandId: `claim, after ${lease.epoch}`, todo, agent: "ada" })
  }
  const { fence } = lease
  const id = (name: string) => `${goal}/${name}`

  const connected = {
    stage: yield* Effect.promise(() => connectStage(directory, lossOf)),
    payments: yield* Effect.promise(() => connectPayments(directory, lossOf))
  }
  const stage = yield* activate(Effect.succeed(connected.stage.provider), { backoff: "20 millis" })
  const payments = yield* activate(Effect.succeed(connected.payments.provider), { backoff: "20 millis" })
  for (const { id: effect, state } of [...stage.recovered, ...payments.recovered]) {
    say(`left open by an earlier run: ${named(effect)}, now ${state}`)
  }

  const run = (
    operations: Operations,
    name: string,
    kind: string,
    operation: Parameters<Operations["run"]>[0]["operation"],
    more: { readonly after?: readonly string[]; readonly supervisor?: string } = {}
  ) => {
    const spec = { effect: id(name), goal, todo, fence, kind, operation, summary: `${kind} of the sample`, ...more }
    return Effect.tap(operations.run(spec), ({ state, attempts }) =>
      Effect.sync(() => say(`${name}: ${state}, attempts: ${attempts}`))
    )
  }

  yield* run(stage, "lamp", "lamp", { on: true })
  yield* run(stage, "move-1", "move", { by: 40 })
  yield* run(stage, "move-2", "move", { by: -10 }, { after: [id("move-1")] })
  yield* run(stage, "move-3", "move", { by: 500 })

  const scan = run(stage, "scan", "scan", { lines: 200 }, { supervisor: "mira", after: [id("lamp"), id("move-2")] })
  if (readLog(directory, "stage").every(({ what }) => what !== "door")) {
    say("scan, with the door open:")
    yield* refusal(scan)
    yield* Effect.promise(() => connected.stage.line.ask({ verb: "door", open: false }))
  }
  yield* scan
  const stopped = yield* stage.stop({ effect: id("scan"), by: "mira", reason: "enough lines" })
  say(`scan: stop ${stopped.stop?.state} by the ${stopped.stop?.confirmedBy}: ${stopped.stop?.summary}`)

  yield* run(payments, "pay", "pay", { eur: 12.5, to: "lab" }, { after: [id("scan")] })
  const letter = yield* run(payments, "letter", "letter", { to: "lab" })
  const complete = Todos.complete({ todo, fence, continuation: { kind: "noFollowUp" } })
  if (letter.state === "unknown") {
    say("the letter cannot be read back, so nothing that depends on it goes on:")
    yield* refusal(complete)
    yield* refusal(payments.deactivate)
    // Mira asks the recipient.
    const arrived = done(letter.id) > 0
    const evidence = yield* Evidence.record({
      commandId: "recipient",
      goal,
      todo,
      kind: "photo",
      digest: sha256(arrived ? "a letter with its postmark" : "an empty letter box"),
      summary: arrived ? "the letter with its postmark" : "an empty letter box",
      producer: { role: "person", name: "mira" }
    })
    yield* Effects.resolve({
      effect: letter.id,
      outcome: arrived ? "confirmed" : "refused",
      person: "mira",
      reason: "the recipient looked",
      evidence: [evidence.id]
    })
  }
  if ((yield* Todos.get({ todo })).state === "open") yield* complete
  yield* stage.deactivate
  yield* payments.deactivate
  yield* Effect.promise(() => Promise.all(["stage", "payments"].map((name) => switchOff(directory, name))))
  return (yield* Effects.list({ goal })).items
})

const table = (effects: readonly EffectRecord[]): readonly (readonly string[])[] => {
  return [
    ["operation", "if repeated", "handed over", "done (device's log)", "state", "known by", "stop"],
    ...effects.map((effect) => [
      named(effect.id),
      effect.declared.retry,
      String(effect.attempts),
      String(done(effect.id)),
      effect.state,
      effect.outcome === null ? "" : `${effect.outcome.by} (${effect.outcome.who})`,
      effect.stop === null ? "" : `${effect.stop.state} by the ${effect.stop.confirmedBy}`
    ])
  ]
}

const print = (lines: readonly (readonly string[])[]): void => {
  const widths = lines[0]!.map((_, column) => Math.max(...lines.map((cells) => cells[column]!.length)))
  for (const cells of lines) {
    console.log(
      cells
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd()
    )
  }
}

const effects = await Effect.runPromise(
  work.pipe(Effect.scoped, Effect.provide(minimal({ store: join(directory, "store") })))
)
print(table(effects))
if (given === undefined) rmSync(directory, { recursive: true, force: true })
