/**
 * `coppice/standard`: governance as in minimal, with workspaces (LayerFS), explore and the evaluator beside it.
 * Promise: the same governance objects as minimal; the workspace provider is loaded and its store opened when it is first
 * used, and not before; `workspaces: "off"` gives a typed `Unavailable` instead. Rules: P3, P4, P9, V2, J6.
 *
 * ```ts
 * program.pipe(Effect.provide(standard({ store: "/var/lib/my-bot" })))
 * ```
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Assembly } from "./assembly/Assembly.ts"
import { namingEffects } from "./assembly/EffectsOfMoves.ts"
import { lazyWorkspaces } from "./assembly/LazyWorkspaces.ts"
import { type AssemblyError, authorityLayer } from "./assembly/Preset.ts"
import type { WorkspacePlugin } from "./assembly/Plugin.ts"
import {
  builtInWorkspaces,
  isBuiltIn,
  namingOthers,
  openChosen,
  unusedOption,
  type WorkspaceOptions
} from "./assembly/WorkspaceChoice.ts"
import { storeDirectory } from "./assembly/StoreDefault.ts"
import type { ByteSize } from "./base/ByteSize.ts"
import { exploreModule } from "./explore/ExploreGraph.ts"
import { Authority } from "./governance/Authority.ts"
import { workModule } from "./governance/WorkModule.ts"
import type { CommandHosts } from "./host/CommandHosts.ts"
import { sessionModule } from "./session/Binding.ts"
import { Unavailable } from "./workspace/WorkspaceError.ts"
import { Workspaces } from "./workspace/WorkspaceProvider.ts"

export { Assembly, type AssemblyReport } from "./assembly/Assembly.ts"
export { type PluginFacts, PluginRefused, type WorkspacePlugin, type WorkspacePluginModule } from "./assembly/Plugin.ts"
export { type AssemblyError, PresetOptionsError } from "./assembly/Preset.ts"

export interface StandardOptions {
  /** Directory of the store; by default below the user's state directory, named after the project. */
  readonly store?: string
  /** The project that the store is for; the working directory when absent. */
  readonly project?: string
  /**
   * Which workspace provider the application asks for: `layerfs`, `git-worktree`, `reflink` (a store on btrfs or XFS), or the name of one of
   * `plugins`; `off` answers every workspace call with what to switch on.
   */
  readonly workspaces?: "layerfs" | "git-worktree" | "reflink" | "off" | (string & {})
  /** Providers of the application's own. Registering one loads nothing of it; only the one that `workspaces` names is ever used. */
  readonly plugins?: readonly WorkspacePlugin[]
  /** What the workspace store may hold at most: bytes, or text such as `"2 GiB"`. Beyond it, calls are `StoreQuotaExceeded` (W15). */
  readonly storeQuota?: ByteSize
  /** What one imported project, with all its branches, may add to the store at most. */
  readonly projectQuota?: ByteSize
  /**
   * What LayerFS may keep on the disk of trees that it has shown, beyond those that open and kept workspaces stand on; without it, all
   * stay. What is used again is made again.
   */
  readonly cacheLimit?: ByteSize
  /** How many holders LayerFS keeps ready for the next workspaces, from its first use on; none without it. */
  readonly warmPool?: number
}

const off = Effect.fail(
  new Unavailable({
    what: "workspaces",
    missing: ["a workspace provider"],
    message: "Workspaces are switched off in this assembly.",
    remedy: 'Pass `workspaces: "layerfs"` to the preset.'
  })
)

/** The standard preset as one layer. Errors: as `minimal`; a workspace store's own errors come with its first use. */
export const standard = (
  options: StandardOptions = {}
): Layer.Layer<Authority | Assembly | CommandHosts | Workspaces, AssemblyError> => {
  const wanted = options.workspaces ?? "layerfs"
  const enabled = new Map<string, string>([
    ["authority-sqlite", "the preset's authority"],
    ["host-process", "the preset's host"]
  ])
  if (isBuiltIn(wanted)) enabled.set(wanted, "the preset's workspaces")
  else if (wanted !== "off") enabled.set(wanted, "the application's workspaces")
  const plugins = options.plugins ?? []
  const named = Array.isArray(plugins) ? plugins.map((plugin) => plugin?.name).filter((name) => name !== undefined) : []
  const core = authorityLayer({
    preset: "standard",
    options,
    allowed: {
      store: "path",
      project: "path",
      workspaces: [...Object.keys(builtInWorkspaces), "off", ...named],
      plugins: "list",
      storeQuota: "size",
      projectQuota: "size",
      cacheLimit: "size",
      warmPool: "count"
    },
    modules: [workModule, sessionModule, exploreModule],
    unused: unusedOption(wanted, options),
    enabled,
    plugins,
    pools: wanted === "layerfs" && (options.warmPool ?? 0) > 0 ? [`layerfs: ${options.warmPool} warm holders`] : []
  })
  const workspaces = Layer.effect(
    Workspaces,
    Effect.gen(function* () {
      const { registry } = yield* Assembly
      const directory = yield* storeDirectory(options)
      const { storeQuota, projectQuota, cacheLimit, warmPool } = options
      const caps = { storeQuota, projectQuota, cacheLimit, warmPool } as WorkspaceOptions
      const chosen = wanted === "off" ? off : openChosen(registry, wanted, directory, caps)
      const provider = yield* lazyWorkspaces(chosen, namingOthers(wanted, directory))
      return namingEffects(provider, yield* Authority)
    })
  )
  return Layer.provideMerge(workspaces, core)
}
