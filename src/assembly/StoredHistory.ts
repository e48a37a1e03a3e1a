/**
 * The history of a store that exists, for whoever only looks.
 * Promise: makes no store, opens the workspace provider alone, and closes it again. Rules: W3, L3, P1, P4.
 */
import * as Effect from "effect/Effect"
import type { CoppiceError } from "../base/CoppiceError.ts"
import { type GraphOptions, type HistoryGraph, readHistoryGraph } from "../workspace/HistoryGraph.ts"
import { RefNotFound, Unavailable } from "../workspace/WorkspaceError.ts"
import { makeRegistry } from "./Registry.ts"
import { storeDirectory } from "./StoreDefault.ts"
import { builtInWorkspaces, openChosen, storedIn } from "./WorkspaceChoice.ts"

const noStore = (store: string, provider: string | undefined): Unavailable =>
  new Unavailable({
    what: "history",
    missing: [store],
    message: `There is no workspace store${provider === undefined ? "" : ` of ${provider}`} at ${store}.`,
    remedy: "Give the directory of a store with --store, or run this in the project that the store is for."
  })

const unknownProvider = (name: string): Unavailable =>
  new Unavailable({
    what: "history",
    missing: [name],
    message: `There is no built-in workspace provider called ${name}.`,
    remedy: `Give one of ${Object.keys(builtInWorkspaces).join(", ")}.`
  })

const whichProvider = (store: string, found: readonly string[]): Unavailable =>
  new Unavailable({
    what: "history",
    missing: [],
    message: `The store at ${store} holds workspaces of ${found.join(" and ")}.`,
    remedy: `Name one of them with --provider.`
  })

const whichProject = (projects: readonly { readonly id: string; readonly name: string }[]): RefNotFound =>
  new RefNotFound({
    message: projects.length === 0 ? "The store has no project yet." : `The store has ${projects.length} projects.`,
    remedy:
      projects.length === 0
        ? "Import a directory first."
        : `Name one: ${projects
            .slice(0, 20)
            .map(({ id, name }) => `${id} (${name})`)
            .join(", ")}.`,
    ref: ""
  })

/** The provider whose store is meant: the only one there is, unless one is named. */
const providerOf = (directory: string, named: string | undefined): Effect.Effect<string, Unavailable> => {
  if (named !== undefined && !Object.hasOwn(builtInWorkspaces, named)) return Effect.fail(unknownProvider(named))
  const found = storedIn(directory).filter((name) => named === undefined || name === named)
  if (found.length === 0) return Effect.fail(noStore(directory, named))
  return found.length === 1 ? Effect.succeed(found[0]!) : Effect.fail(whichProvider(directory, found))
}

/**
 * The graph of a project of the store, or of one ref of it. Errors: `Unavailable` (no store, or which of several), `RefNotFound`, those of
 * opening it.
 */
export const storedHistory = ({
  store,
  ref,
  provider: named,
  ...options
}: GraphOptions & {
  readonly store: string | undefined
  readonly ref: string | undefined
  readonly provider: string | undefined
}): Effect.Effect<HistoryGraph, CoppiceError> =>
  Effect.scoped(
    Effect.gen(function* () {
      const directory = yield* storeDirectory({ store })
      const name = yield* providerOf(directory, named)
      const provider = yield* openChosen(
        makeRegistry(new Map([[name, "its history is asked for"]])),
        name,
        directory,
        {}
      )
      const { projects } = yield* provider.stats
      const only = ref ?? (projects.length === 1 ? projects[0]!.id : undefined)
      if (only === undefined) return yield* whichProject(projects)
      return yield* readHistoryGraph(provider, only, options)
    })
  )
