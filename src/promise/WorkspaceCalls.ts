/**
 * Workspaces as plain async functions, over the `Workspaces` service.
 * Promise: adds no rule; a workspace has a scope of its own, which its closing or the closing of the store ends; a failed or
 * cancelled opening leaves nothing open. Rules: W4, W9, W12, W14, L2.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { type HistoryGraph, readHistoryGraph } from "../workspace/HistoryGraph.ts"
import { graphSvg } from "../workspace/HistoryGraphSvg.ts"
import { graphText } from "../workspace/HistoryGraphText.ts"
import type { PathInput } from "../base/PathBytes.ts"
import { NotText } from "../workspace/WorkspaceError.ts"
import {
  type Progress,
  type WorkspaceProvider,
  type Workspace as Service,
  Workspaces
} from "../workspace/WorkspaceProvider.ts"
import { type Calls, milliseconds, type Services, signalOf } from "./Calls.ts"
import { badArgument } from "./Failure.ts"
import type { CallOptions, Duration, Task } from "./Plain.ts"
import { quiet, startTask, type Watching } from "./Task.ts"
import type { From, StartedProcess, Workspace, WorkspaceCalls } from "./Workspaces.ts"

/** What closes a workspace. */
export type Closing = () => Promise<void>

/** What is of another kind than the declaration says is refused here where it would be taken apart; all else is looked at by the provider. */
const refOf = (from: From): string => {
  if (typeof from === "string") return from
  const { commit, id } = (from ?? {}) as { readonly commit?: unknown; readonly id?: unknown }
  const ref = commit ?? id
  if (typeof ref === "string") return ref
  throw badArgument(
    "from",
    "This is no state of a workspace.",
    "Give an id, or what an import, a fork or a checkpoint gave."
  )
}
const refsOf = (from: From | readonly From[]): string | readonly string[] =>
  isList(from) ? from.map(refOf) : refOf(from)
const isList = (from: From | readonly From[]): from is readonly From[] => Array.isArray(from)
const idOf = (branch: string | { readonly id: string }): string => {
  const id: unknown = typeof branch === "string" ? branch : (branch as { readonly id?: unknown } | null)?.id
  if (typeof id === "string") return id
  throw badArgument("branch", "This is no branch.", "Give the id of a branch, or what a fork gave.")
}

type Rest<Options> = Omit<Options, "signal">

/** The signal of a call's options, and the rest of them. Throws `BadArgument`. */
const split = <Options extends CallOptions>(
  options: Options | undefined
): { readonly call: CallOptions; readonly rest: Rest<Options> } => {
  if (options !== undefined && (typeof options !== "object" || options === null || Array.isArray(options)))
    throw badArgument("options", "The options are no object.", "Give one, or nothing at all.")
  const { signal, ...rest } = (options ?? {}) as Options
  return { call: signal === undefined ? {} : { signal }, rest }
}

const withLimit = <Options extends { readonly timeLimit?: Duration }>({ timeLimit, ...rest }: Options) =>
  timeLimit === undefined ? rest : { ...rest, timeLimitMs: milliseconds("timeLimit", timeLimit) }

/** What is no function is for the provider to refuse. */
const quietly = <Options extends { readonly onProgress?: (progress: Progress) => void }>(options: Options): Options =>
  typeof options.onProgress === "function" ? { ...options, onProgress: quiet(options.onProgress) } : options

/** A promise function must not throw at once: what the arguments are refused for is a rejection like any other. */
const asked = <A>(call: () => Promise<A>): Promise<A> => {
  try {
    return call()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** Longest file that one call hands out, in bytes. */
const longestRead = 2 ** 31 - 1

const textOf = (path: PathInput, bytes: Uint8Array): Effect.Effect<string, NotText> =>
  Effect.try({
    try: () => new TextDecoder("utf-8", { fatal: true }).decode(bytes),
    catch: () =>
      new NotText({
        message: "The file is not UTF-8 text.",
        remedy: "Read it as bytes with `read`.",
        reason: "binary",
        path: typeof path === "string" ? path : Buffer.from(path).toString("latin1"),
        limitBytes: longestRead
      })
  })

const workspaceOf = (service: Service, calls: Calls, close: Closing): Workspace => {
  const { run } = calls
  const bytes = (path: Parameters<Service["read"]>[0], options?: CallOptions) => run(service.read(path), options)
  const on = <A, E, Options extends CallOptions>(
    effect: (rest: Rest<Options>) => Effect.Effect<A, E, Services>,
    options: Options | undefined
  ): Promise<A> =>
    asked(() => {
      const { call, rest } = split(options)
      return run(effect(rest), call)
    })
  return {
    id: service.id,
    branch: service.branch,
    projection: service.projection,
    path: service.path,
    isolation: service.isolation,
    head: (options) => run(service.head, options),
    visiblePath: (options) => run(service.visiblePath, options),
    enter: (argv, options) => on((rest) => service.enter(argv, rest), options),
    read: bytes,
    readText: (path, options) =>
      run(
        Effect.flatMap(service.read(path), (found) => textOf(path, found)),
        options
      ),
    write: (path, data, options) => on((rest) => service.write(path, data, rest), options),
    splice: (path, offset, count, data, options) => run(service.splice(path, offset, count, data), options),
    edit: (path, find, replace, options) => run(service.edit(path, find, replace), options),
    apply: (operations, options) => run(service.apply(operations), options),
    list: (path = "", options) => run(service.list(path), options),
    stat: (path, options) => run(service.stat(path), options),
    glob: (pattern, options) => run(service.glob(pattern), options),
    grep: (pattern, options) => on((rest) => service.grep(pattern, rest), options),
    copy: (from, to, options) => run(service.copy(from, to), options),
    move: (from, to, options) => run(service.move(from, to), options),
    remove: (path, options) => run(service.remove(path), options),
    exec: (command, options) => on((rest) => service.exec(command, withLimit(rest)), options),
    start: (argv, options) => on((rest) => started(service, calls, argv, rest), options),
    changes: (options) => run(service.changes, options),
    checkpoint: (options) =>
      on((rest) => service.checkpoint(rest), typeof options === "string" ? { message: options } : options),
    discard: (reason, options) => run(service.discard(reason), options),
    close,
    [Symbol.asyncDispose]: close
  }
}

/** A process lives in a scope that ends when it has ended, is killed, or with its workspace, which ends every process inside. */
const started = (
  service: Service,
  calls: Calls,
  argv: readonly [string, ...string[]],
  options: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> }
): Effect.Effect<StartedProcess, Effect.Error<ReturnType<Service["start"]>>> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const tree = yield* restore(service.start(argv, options)).pipe(
        Effect.provideService(Scope.Scope, scope),
        Effect.onError(() => Scope.close(scope, Exit.void))
      )
      const end = Scope.close(scope, Exit.void)
      return {
        stdin: tree.stdin,
        stdout: tree.stdout,
        stderr: tree.stderr,
        wait: () => calls.run(Effect.tap(tree.wait, () => end)),
        kill: (options) =>
          asked(() => {
            const { grace = "2 seconds" } = split<CallOptions & { readonly grace?: Duration }>(options).rest
            return calls.run(Effect.andThen(tree.kill({ graceMs: milliseconds("grace", grace) }), end))
          })
      }
    })
  )

/** Opens a workspace in a scope of its own and enters its closing into `open`, before anything can end the call. */
const opening = (
  provider: WorkspaceProvider,
  branch: string,
  options: Parameters<WorkspaceProvider["open"]>[1],
  makeWorkspaceCalls: () => Calls,
  open: Set<Closing>
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const service = yield* restore(provider.open(branch, options)).pipe(
        Effect.provideService(Scope.Scope, scope),
        Effect.onError(() => Scope.close(scope, Exit.void))
      )
      const calls = makeWorkspaceCalls()
      let ending: Promise<void> | undefined
      const end = async (): Promise<void> => {
        await calls.close()
        await Effect.runPromise(Scope.close(scope, Exit.void))
        open.delete(close)
      }
      const close: Closing = () => (ending ??= end())
      open.add(close)
      return workspaceOf(service, calls, close)
    })
  )

/** `open` holds what closes each open workspace. */
export const workspaceCalls = (calls: Calls, makeWorkspaceCalls: () => Calls, open: Set<Closing>): WorkspaceCalls => {
  const use = <A, E, Options extends CallOptions = CallOptions>(
    effect: (provider: WorkspaceProvider, rest: Rest<Options>) => Effect.Effect<A, E, Services>,
    options?: Options
  ): Promise<A> =>
    asked(() => {
      const { call, rest } = split(options)
      return calls.run(
        Effect.flatMap(Workspaces, (provider) => effect(provider, rest)),
        call
      )
    })
  const watch = <A, E, Step, Options extends Watching<Step>>(
    effect: (
      provider: WorkspaceProvider,
      rest: Omit<Options, "signal" | "onProgress"> & { readonly onProgress: (step: Step) => void }
    ) => Effect.Effect<A, E, Services>,
    options: Options | undefined
  ): Task<A, Step> => {
    const watching = watchingOf(options)
    if ("refused" in watching) return startTask<A, Step>(() => Promise.reject(watching.refused), {})
    const { signal, onProgress, ...rest } = watching.options
    return startTask<A, Step>(
      (tell, stop) => use((provider) => effect(provider, { ...rest, onProgress: tell }), { signal: stop }),
      { signal, onProgress }
    )
  }

  return {
    manifest: (options) => use((p) => p.manifest, options),
    probe: (options) => use((p) => p.probe, options),
    createEmpty: (options) => use((p, rest) => p.createEmpty(rest), options),
    importDirectory: (source, options) => watch((p, rest) => p.importDirectory({ ...rest, source }), options),
    fork: (from, options) =>
      use((p, rest) => p.fork(refOf(from), rest), typeof options === "string" ? { name: options } : options),
    open: (branch, options) =>
      use((p, rest) => opening(p, idOf(branch), quietly(rest), makeWorkspaceCalls, open), options),
    branch: (id, options) => use((p) => p.branch(id), options),
    commit: (ref, options) => use((p) => p.commit(refOf(ref)), options),
    branches: (ref, options) => use((p, rest) => p.branches(refOf(ref), rest), options),
    log: (ref, options) => use((p, rest) => p.log(refsOf(ref), rest), options),
    graph: (ref, options) =>
      use((p, { as = "text", ...rest }) => {
        const draw = typeof as === "string" && Object.hasOwn(drawings, as) ? drawings[as] : undefined
        if (draw === undefined)
          throw badArgument("as", "There is no drawing of this kind.", "Give one of text, ascii, svg.")
        return Effect.map(readHistoryGraph(p, refOf(ref), rest), draw)
      }, options),
    diff: (from, to, options) => use((p, rest) => p.diff(refOf(from), refOf(to), rest), options),
    blame: (ref, path, options) => use((p, rest) => p.blame(refOf(ref), path, rest), options),
    globAt: (ref, pattern, options) => use((p, rest) => p.globAt(refOf(ref), pattern, rest), options),
    grepAt: (ref, pattern, options) => use((p, rest) => p.grepAt(refOf(ref), pattern, rest), options),
    rewind: (branch, options) =>
      use(
        (p, { to, ...rest }) => p.rewind(idOf(branch), { ...rest, to: refOf(to) }),
        typeof options === "string" ? { to: options } : options
      ),
    reset: (branch, options) => use((p, { to, ...rest }) => p.reset(idOf(branch), { ...rest, to: refOf(to) }), options),
    undo: (branch, options) => use((p, rest) => p.undo(idOf(branch), rest), options),
    undoLog: (branch, options) => use((p, rest) => p.undoLog(idOf(branch), rest), options),
    readAt: (ref, path, options) => use((p, range) => p.readAt(refOf(ref), path, range), options),
    listAt: (ref, path = "", options) => use((p) => p.listAt(refOf(ref), path), options),
    statAt: (ref, path, options) => use((p) => p.statAt(refOf(ref), path), options),
    applyTo: (branch, operations, options) => use((p, rest) => p.applyTo(idOf(branch), operations, rest), options),
    execOn: (branch, command, options) =>
      use((p, rest) => p.execOn(idOf(branch), command, quietly(withLimit(rest))), options),
    pin: (key, ref, options) => use((p) => p.pin(key, refOf(ref)), options),
    unpin: (key, options) => use((p) => p.unpin(key), options),
    findOperation: (operationId, options) => use((p) => p.findOperation(operationId), options),
    exportTar: (ref, target, options) => watch((p, rest) => p.exportTar(refOf(ref), target, rest), options),
    exportDirectory: (ref, target, options) => watch((p, rest) => p.exportDirectory(refOf(ref), target, rest), options),
    exportPatch: (options) =>
      use((p, { from, to, ...rest }) => p.exportPatch({ ...rest, from: refOf(from), to: refOf(to) }), options),
    merge: (from, into, options) => use((p, rest) => p.merge(refOf(from), idOf(into), rest), options),
    left: (options) => use((p) => p.left, options),
    recover: (workspace, options) => use((p, rest) => p.recover(workspace, rest), options),
    discardLeft: (workspace, reason, options) => use((p) => p.discardLeft(workspace, reason), options),
    exportBundle: (ref, target, options) =>
      watch((p, rest) => p.exportBundle({ ...rest, ref: refOf(ref), target }), options),
    importBundle: (source, options) => watch((p, rest) => p.importBundle({ ...rest, source }), options),
    compact: (options) => watch((p, rest) => p.compact(rest), options),
    stats: (options) => use((p) => p.stats, options),
    verify: (options) => watch((p, rest) => p.verify(rest), options)
  }
}

const drawings = {
  text: (graph: HistoryGraph) => graphText(graph),
  ascii: (graph: HistoryGraph) => graphText(graph, { ascii: true }),
  svg: (graph: HistoryGraph) => graphSvg(graph)
}

/** The options of a call that is watched; a task that is refused is one that fails. */
const watchingOf = <Options extends Watching<never>>(
  options: Options | undefined
): { readonly options: Options } | { readonly refused: unknown } => {
  try {
    split(options as CallOptions | undefined)
    const given = (options ?? {}) as Options
    const { signal, onProgress } = given as Watching<never>
    if (signal !== undefined) signalOf(signal)
    if (onProgress !== undefined && typeof onProgress !== "function")
      throw badArgument("onProgress", "The listener is no function.", "Give one, or leave it out.")
    return { options: given }
  } catch (refused) {
    return { refused }
  }
}
