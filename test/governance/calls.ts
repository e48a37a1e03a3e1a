/** A call of governance by its name, as the tests' processes are told to make it; the answer as plain data. */
import * as Effect from "effect/Effect"
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import * as governance from "../../src/governance/index.ts"

export interface Call {
  readonly commandId: string
  /** Such as `Todos.add`. */
  readonly name: string
  readonly input: object
}

/** Exactly one of `reply`, `refused` (a code) and `defect`. */
export interface Answer {
  readonly commandId: string
  readonly reply?: Readonly<Record<string, any>>
  readonly refused?: string
  readonly defect?: string
}

type Service = Readonly<Record<string, (input: object) => Effect.Effect<object, unknown, governance.Authority>>>

export const makeCall = (authority: governance.Authority["Service"], call: Call): Promise<Answer> => {
  const [service, method] = call.name.split(".") as [string, string]
  const run = (governance as unknown as Record<string, Service>)[service]![method]!
  return Effect.runPromise(
    run({ ...call.input, commandId: call.commandId }).pipe(
      Effect.map((reply): Answer => ({ commandId: call.commandId, reply })),
      Effect.catch((error) =>
        Effect.succeed<Answer>({
          commandId: call.commandId,
          ...(isCoppiceError(error) ? { refused: error.code } : { defect: String(error) })
        })
      ),
      Effect.catchDefect((defect) => Effect.succeed<Answer>({ commandId: call.commandId, defect: String(defect) })),
      Effect.provideService(governance.Authority, authority)
    )
  )
}
