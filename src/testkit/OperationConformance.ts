/**
 * The conformance suite of operation providers: whether what a kind declares is what its device does.
 * Promise: counted in the device's own record, not in what the provider says; a scenario that the given means cannot run says so.
 * Rules: G60, G61, G62, G63. `operationConformance({ kind, operation, open })` gives scenarios for any test runner.
 */
import assert from "node:assert/strict"
import * as Effect from "effect/Effect"
import type { Json } from "../base/Digest.ts"
import type { OperationKind, OperationLost, OperationProvider } from "../governance/index.ts"
import type { Scenario } from "./Scenario.ts"

/** What the line to the device does to the next request that hands an operation over. */
export type LineFault = "request" | "reply" | "late"

/** A device of its own for one scenario. */
export interface OperationDevice {
  readonly provider: OperationProvider
  /** How often it really carried the effect out, by its own record. */
  readonly executed: (effectId: string) => Promise<number>
  /** Lets the line lose the next request, lose its reply, or hold it back until `deliver`. */
  readonly lose?: (fault: LineFault) => void
  readonly deliver?: () => Promise<unknown>
  /** Cuts the line. */
  readonly cut?: () => void
  readonly close: () => Promise<unknown>
}

export interface OperationConformanceOptions {
  /** The kind as it is declared. */
  readonly kind: OperationKind
  /** An operation of the kind that the device carries out; every number gives another one. */
  readonly operation: (n: number) => Json
  /** One that the device refuses. */
  readonly refused?: Json
  /** What `open` can do to the line: without `lose` and `deliver`, or without `cut`, some scenarios are skipped. */
  readonly line: { readonly loses: boolean; readonly cuts: boolean }
  readonly open: () => Promise<OperationDevice>
}

interface Case {
  readonly rules: readonly string[]
  readonly name: string
  readonly skip?: string | false
  readonly body: (device: OperationDevice, answers: unknown[]) => Promise<void>
}

const lost = (work: Effect.Effect<unknown, OperationLost>) =>
  Effect.runPromise(Effect.match(work, { onSuccess: () => "answered", onFailure: ({ _tag }) => _tag }))

/** The suite for one kind of a provider. */
export const operationConformance = (options: OperationConformanceOptions): readonly Scenario[] => {
  const { kind, operation } = options
  const call = (effectId: string, attempt = 1) => ({ effectId, attempt, kind: kind.name })
  const send = (effectId: string, attempt = 1, what: Json = operation(1)) => ({
    ...call(effectId, attempt),
    operation: what
  })
  const run = <A>(work: Effect.Effect<A, OperationLost>): Promise<A> => Effect.runPromise(work)
  const noReadBack = kind.readBack === "no" && `operations of kind ${kind.name} have no read-back`
  const noLoss = !options.line.loses && "the line cannot be made to lose anything"
  const cases: readonly Case[] = [
    {
      rules: ["G63"],
      name: "the provider declares the kind as it is stated, once, and its interlocks can be read",
      body: async ({ provider }, answers) => {
        assert.deepEqual(
          provider.kinds.filter(({ name }) => name === kind.name),
          [kind]
        )
        const interlocks = await run(provider.interlocks)
        assert.equal(new Set(interlocks.map(({ name }) => name)).size, interlocks.length)
        answers.push(interlocks)
      }
    },
    {
      rules: ["G60", "G62"],
      name: "an operation is carried out once for a request, under the id that came with it",
      body: async ({ provider, executed }, answers) => {
        answers.push((await run(provider.dispatch(send("effect-1")))).state)
        assert.deepEqual(answers, ["confirmed"])
        assert.deepEqual([await executed("effect-1"), await executed("effect-2")], [1, 0])
      }
    },
    {
      rules: ["G62", "G63"],
      name: "a keyed operation is carried out once under one id, however often it is asked for",
      skip: kind.retry !== "keyed" && `kind ${kind.name} is ${kind.retry}`,
      body: async ({ provider, executed }, answers) => {
        for (const attempt of [1, 2, 3]) answers.push((await run(provider.dispatch(send("effect-1", attempt)))).state)
        assert.deepEqual(answers, ["confirmed", "confirmed", "confirmed"])
        assert.equal(await executed("effect-1"), 1)
      }
    },
    {
      rules: ["G60"],
      name: "what is refused is not carried out, and is not read back as done",
      skip: options.refused === undefined && "no operation is known that the device refuses",
      body: async ({ provider, executed }, answers) => {
        answers.push((await run(provider.dispatch(send("effect-1", 1, options.refused!)))).state)
        assert.deepEqual(answers, ["refused"])
        assert.equal(await executed("effect-1"), 0)
        if (kind.readBack === "yes")
          assert.notEqual((await run(provider.readBack(call("effect-1")))).state, "confirmed")
      }
    },
    {
      rules: ["G60"],
      name: "reading back tells what was done, and does nothing",
      skip: noReadBack,
      body: async ({ provider, executed }, answers) => {
        await run(provider.dispatch(send("effect-1")))
        for (const _ of [1, 2]) answers.push((await run(provider.readBack(call("effect-1")))).state)
        assert.deepEqual(answers, ["confirmed", "confirmed"])
        assert.equal(await executed("effect-1"), 1)
      }
    },
    {
      rules: ["G61"],
      name: "an id that the device does not know is not read back as done, refused or pending",
      skip: noReadBack,
      body: async ({ provider, executed }, answers) => {
        const { state } = await run(provider.readBack(call("effect-1")))
        assert.ok(state === "notFound" || state === "notExecuted", state)
        assert.equal(await executed("effect-1"), 0)
        answers.push(state)
      }
    },
    {
      rules: ["G61", "V9"],
      name: "a lost reply is no answer; reading back tells that it was done",
      skip: noReadBack || noLoss,
      body: async ({ provider, executed, lose }, answers) => {
        lose!("reply")
        answers.push(await lost(provider.dispatch(send("effect-1"))))
        answers.push((await run(provider.readBack(call("effect-1")))).state)
        assert.deepEqual(answers, ["OperationLost", "confirmed"])
        assert.equal(await executed("effect-1"), 1)
      }
    },
    {
      rules: ["G61"],
      name: "a lost request is no answer; nothing is done, and nothing says that it was",
      skip: noReadBack || noLoss,
      body: async ({ provider, executed, lose }, answers) => {
        lose!("request")
        answers.push(await lost(provider.dispatch(send("effect-1"))))
        const { state } = await run(provider.readBack(call("effect-1")))
        assert.ok(state === "notFound" || state === "notExecuted", state)
        assert.equal(await executed("effect-1"), 0)
        answers.push(state)
      }
    },
    {
      rules: ["G61", "G63"],
      name: "a request that arrives late does nothing after the device vouched that it was not executed, nor a second time under its key",
      skip: noReadBack || noLoss || (kind.retry === "safe" && `kind ${kind.name} is safe`),
      body: async ({ provider, executed, lose, deliver }, answers) => {
        lose!("late")
        assert.equal(await lost(provider.dispatch(send("effect-1"))), "OperationLost")
        const { state } = await run(provider.readBack(call("effect-1")))
        answers.push(state)
        if (state !== "notExecuted" && kind.retry === "unsafe") return
        assert.equal((await run(provider.dispatch(send("effect-1", 2)))).state, "confirmed")
        await deliver!()
        assert.equal(await executed("effect-1"), 1)
      }
    },
    {
      rules: ["G61"],
      name: "with the line cut nothing is an answer",
      skip: !options.line.cuts && "the line cannot be cut",
      body: async ({ provider, executed, cut }, answers) => {
        cut!()
        const asked = [
          provider.dispatch(send("effect-1")),
          provider.readBack(call("effect-1")),
          provider.interlocks,
          provider.requestStop(call("effect-1")),
          provider.confirmStopped(call("effect-1"))
        ]
        for (const one of asked) answers.push(await lost(one))
        assert.deepEqual(new Set(answers), new Set(["OperationLost"]))
        assert.equal(await executed("effect-1"), 0)
      }
    },
    {
      rules: ["G61", "G63"],
      name: "a stop may be asked for again, is confirmed by the device itself, and bars the effect",
      skip: kind.stop !== "device" && `a stop of kind ${kind.name} is not the device's to confirm`,
      body: async ({ provider, executed }, answers) => {
        await run(provider.dispatch(send("effect-1")))
        await run(provider.requestStop(call("effect-1")))
        await run(provider.requestStop(call("effect-1")))
        let { state } = await run(provider.confirmStopped(call("effect-1")))
        for (let asked = 0; state !== "stopped" && asked < 1000; asked += 1) {
          await run(Effect.sleep(10))
          state = (await run(provider.confirmStopped(call("effect-1")))).state
        }
        answers.push(state, (await run(provider.dispatch(send("effect-1", 2)))).state)
        assert.deepEqual(answers, ["stopped", "refused"])
        assert.equal(await executed("effect-1"), 1)
      }
    }
  ]
  return cases.map(({ rules, name, skip, body }) => {
    const why = typeof skip === "string" ? skip : null
    return {
      rules,
      name,
      skip: why,
      run: async () => {
        if (why !== null) throw new Error(`This cannot be run here: ${why}.`)
        const device = await options.open()
        const answers: unknown[] = []
        try {
          await body(device, answers)
        } finally {
          await device.close()
        }
        return { answers, facts: [] }
      }
    }
  })
}
