/** Hands an operation over to a provider that never answers, and says so: `node hangingOperation.ts STORE SPEC`. */
import * as Effect from "effect/Effect"
import type { OperationProvider } from "../../../src/governance/index.ts"
import { minimal } from "../../../src/minimal.ts"
import { activate } from "../../../src/session/index.ts"

const [store, spec] = process.argv.slice(2) as [string, string]

const silent: OperationProvider = {
  name: "stage",
  kinds: [{ name: "move", readBack: "yes", retry: "unsafe", stop: "device", supervision: "none" }],
  dispatch: () =>
    Effect.andThen(
      Effect.sync(() => console.log("handed over")),
      Effect.never
    ),
  readBack: () => Effect.never,
  interlocks: Effect.succeed([]),
  requestStop: () => Effect.void,
  confirmStopped: () => Effect.never
}

const program = Effect.flatMap(activate(Effect.succeed(silent)), ({ run }) => run(JSON.parse(spec)))
const beat = setInterval(() => {}, 1000)
await Effect.runPromise(program.pipe(Effect.scoped, Effect.provide(minimal({ store }))))
clearInterval(beat)
