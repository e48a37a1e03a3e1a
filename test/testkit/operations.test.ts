/** The conformance suite of operation providers, over the example's devices and over providers that break their word. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, test } from "vitest"
import { connectPayments, connectStage } from "../../examples/external-operation/providers.ts"
import { readLog, switchOff } from "../../examples/external-operation/wire.ts"
import type { OperationKind, OperationProvider } from "../../src/governance/index.ts"
import { type LineFault, operationConformance, titleOf } from "../../src/testkit/index.ts"

const kind = (name: string, more: Partial<OperationKind>): OperationKind => ({
  name,
  readBack: "yes",
  retry: "unsafe",
  stop: "none",
  supervision: "none",
  ...more
})

const suiteOver = (
  device: "stage" | "payments",
  declared: OperationKind,
  operation: (n: number) => { readonly [field: string]: number | string },
  refused?: { readonly [field: string]: number },
  changed: (provider: OperationProvider) => OperationProvider = (provider) => provider
) =>
  operationConformance({
    kind: declared,
    operation,
    ...(refused === undefined ? {} : { refused }),
    line: { loses: true, cuts: true },
    open: async () => {
      const place = mkdtempSync(join(tmpdir(), "coppice-conformance-"))
      let next: LineFault | "none" = "none"
      const { provider, line } = await (device === "stage" ? connectStage : connectPayments)(place, () => {
        const fault = next
        next = "none"
        return fault
      })
      await line.ask({ verb: "door", open: false })
      return {
        provider: changed(provider),
        executed: async (effect) =>
          readLog(place, device).filter((entry) => entry.what === "executed" && entry.effect === effect).length,
        lose: (fault) => {
          next = fault
        },
        deliver: () => line.ask({ verb: "deliver" }),
        cut: () => {
          line.cut = true
        },
        close: async () => {
          await switchOff(place, device)
          rmSync(place, { recursive: true, force: true })
        }
      }
    }
  })

const suites = {
  "stage, move": suiteOver("stage", kind("move", { stop: "device" }), (n) => ({ by: n }), { by: 500 }),
  "stage, scan": suiteOver("stage", kind("scan", { stop: "device", supervision: "required" }), (n) => ({ lines: n })),
  "payments, pay": suiteOver("payments", kind("pay", { retry: "keyed" }), (n) => ({ eur: n }), { eur: 5000 }),
  "payments, letter": suiteOver("payments", kind("letter", { readBack: "no" }), () => ({ to: "lab" }))
}

for (const [name, scenarios] of Object.entries(suites)) {
  describe(`G60 G61 G62 G63 ${name}`, () => {
    for (const scenario of scenarios) test.skipIf(scenario.skip !== null)(titleOf(scenario), () => scenario.run())
  })
}

/** The names of the scenarios that a provider fails. */
const failed = async (scenarios: ReturnType<typeof suiteOver>): Promise<readonly string[]> => {
  const names: string[] = []
  for (const { skip, name, run } of scenarios) {
    if (skip === null) await run().catch(() => names.push(name))
  }
  return names
}

test("G63 the suite notices a provider that breaks its word: a key that is no key, a vouching that bars nothing, a word that is no stop", async () => {
  const pay = kind("pay", { retry: "keyed" })
  const otherKey = suiteOver(
    "payments",
    pay,
    (n) => ({ eur: n }),
    undefined,
    (provider) => ({
      ...provider,
      dispatch: (call) => provider.dispatch({ ...call, kind: "letter" })
    })
  )
  expect((await failed(otherKey)).join("\n")).toMatch(/a keyed operation is carried out once/)
  const vouches = suiteOver(
    "stage",
    kind("move", { stop: "device" }),
    (n) => ({ by: n }),
    undefined,
    (provider) => ({
      ...provider,
      readBack: (call) => provider.readBack({ ...call, attempt: 0 }),
      requestStop: () => Effect.void
    })
  )
  const names = (await failed(vouches)).join("\n")
  expect(names).toMatch(/arrives late/)
  expect(names).toMatch(/bars the effect/)
  const skipped = suites["payments, letter"].find(({ skip }) => skip !== null)!
  await expect(skipped.run()).rejects.toThrow(/cannot be run here/)
})
