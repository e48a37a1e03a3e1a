/**
 * The history of a store that exists, for whoever only looks.
 * Promise: makes no store, opens the workspace provider alone, and closes it again. Rules: W3, L3, P1, P4.
 */
import { existsSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { CoppiceError } from "../base/CoppiceError.ts"
import { type GraphOptions, type HistoryGraph, readHistoryGraph } from "../workspace/HistoryGraph.ts"
import { RefNotFound, Unavailable } from "../workspace/WorkspaceError.ts"
import { makeRegistry } from "./Registry.ts"
import { storeDirectory } from "./StoreDefault.ts"

const noStore = (store: string): Unavailable =>
  new Unavailable({
    what: "history",
    missing: [store],
    message: `There is no workspace store at ${store}.`,
    remedy: "Give the directory of a store with --store, or run this in the project that the store is for."
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

/** The graph of a project of the store, or of one ref of it. Errors: `Unavailable` (no store), `RefNotFound`, those of opening it. */
export const storedHistory = ({
  store,
  ref,
  ...options
}: GraphOptions & { readonly store: string | undefined; readonly ref: string | undefined }): Effect.Effect<
  HistoryGraph,
  CoppiceError
> =>
  Effect.scoped(
    Effect.gen(function* () {
      const directory = yield* storeDirectory({ store })
      if (!existsSync(join(directory, "layerfs", "index.db"))) return yield* noStore(directory)
      const registry = makeRegistry(new Map([["layerfs", "its history is asked for"]]))
      const { openLayerFs } = yield* registry.load("layerfs", "its history is asked for")
      const provider = yield* openLayerFs({ store: directory })
      const { projects } = yield* provider.stats
      const only = ref ?? (projects.length === 1 ? projects[0]!.id : undefined)
      if (only === undefined) return yield* whichProject(projects)
      return yield* readHistoryGraph(provider, only, options)
    })
  )
