/**
 * The two devices as operation providers.
 * Promise: no answer is `OperationLost`, whatever went wrong; what a kind declares is what its device does. Rules: G60, G62, G63.
 */
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { type OperationCall, OperationLost, type OperationProvider } from "../../src/governance/index.ts"
import { type Line, lineTo, type Loss, type Request } from "./wire.ts"

export interface Connected {
  readonly line: Line
  readonly provider: OperationProvider
}

/** What the line does to the next request that hands an operation over. */
export type LossOf = (call: OperationCall) => Loss

const provider = (name: string, kinds: OperationProvider["kinds"], line: Line, lossOf: LossOf): OperationProvider => {
  const ask = (request: Request) =>
    Effect.tryPromise({
      try: () => line.ask(request),
      catch: () =>
        new OperationLost({
          provider: name,
          message: `${name} gave no answer.`,
          remedy: "Nothing is known of the operation: read it back."
        })
    })
  return {
    name,
    kinds,
    dispatch: (call) => ask({ verb: "dispatch", lose: lossOf(call), ...call }),
    readBack: (call) => ask({ verb: "readBack", ...call }),
    interlocks: Effect.map(
      Effect.suspend(() => ask({ verb: "interlocks" })),
      ({ interlocks }) => interlocks
    ),
    requestStop: (call) => Effect.asVoid(ask({ verb: "stop", ...call })),
    confirmStopped: (call) => ask({ verb: "stopped", ...call })
  }
}

const here = import.meta.dirname
const lossless: LossOf = () => "none"

/** The stage in `directory`: started when it does not run, and left running, as devices are. */
export const connectStage = async (directory: string, lossOf: LossOf = lossless): Promise<Connected> => {
  const line = await lineTo(directory, "stage", join(here, "stage.ts"))
  return {
    line,
    provider: provider(
      "stage",
      [
        { name: "lamp", readBack: "yes", retry: "safe", stop: "none", supervision: "none" },
        { name: "move", readBack: "yes", retry: "unsafe", stop: "device", supervision: "none" },
        { name: "scan", readBack: "yes", retry: "unsafe", stop: "device", supervision: "required" }
      ],
      line,
      lossOf
    )
  }
}

/** The payment service in `directory`. */
export const connectPayments = async (directory: string, lossOf: LossOf = lossless): Promise<Connected> => {
  const line = await lineTo(directory, "payments", join(here, "payments.ts"))
  return {
    line,
    provider: provider(
      "payments",
      [
        { name: "pay", readBack: "yes", retry: "keyed", stop: "none", supervision: "none" },
        { name: "letter", readBack: "no", retry: "unsafe", stop: "none", supervision: "none" }
      ],
      line,
      lossOf
    )
  }
}
