/** The provider in a scope that ends with the test. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd } from "./storeFixture.ts"

/** Opens the provider on `store`; its scope closes after the test. */
export const provider = async (store: string): Promise<WorkspaceProvider> => {
  const scope = await Effect.runPromise(Scope.make())
  atEnd(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  return Effect.runPromise(Scope.provide(openLayerFs({ store }), scope))
}

/** The value of an effect. */
export const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> => Effect.runPromise(effect)

/** The typed error of an effect that must fail. */
export const failure = <A, E>(effect: Effect.Effect<A, E>): Promise<E> => Effect.runPromise(Effect.flip(effect))
