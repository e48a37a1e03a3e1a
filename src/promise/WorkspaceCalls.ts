/**
 * Workspaces as plain async functions, over the `Workspaces` service.
 * Promise: adds no rule; a workspace has a scope of its own, which its closing or the closing of the store ends; a failed or
 * cancelled opening leaves nothing open. Rules: W4, W9, W12, W14, L2.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { readHistoryGraph } from "../workspace/HistoryGraph.ts"
import { graphSvg } from "../workspace/HistoryGraphSvg.ts"
import { graphText } from "../workspace/HistoryGraphText.ts"
import { type WorkspaceProvider, type Workspace as Service, Workspaces } from "../workspace/WorkspaceProvider.ts"
import { type Calls, milliseconds, type Services } from "./Calls.ts"
import { badArgument } from "./Failure.ts"
import type { CallOptions, Duration } from "./Plain.ts"
import { startTask, type Watching } from "./Task.ts"
import type { ExecOptions, From, StartedProcess, Workspace, WorkspaceCalls } from "./Workspaces.ts"

/** What closes a workspace. */
export type Closing = () => Promise<void>

const refOf = (from: From): string => {
  if (typeof from === "string") return from
  const ref = "commit" in from ? from.commit : from?.id
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
const idOf = (branch: string | { readonly id: string }): string => (typeof branch === "string" ? branch : branch.id)

const withLimit = <Options extends { readonly timeLimit?: Duration }>({ timeLimit, ...rest }: Options) =>
  timeLimit === undefined ? rest : { ...rest, timeLimitMs: milliseconds("timeLimit", timeLimit) }

/** A promise function must not throw at once: what the arguments are refused for is a rejection like any other. */
const asked = <A>(call: () => Promise<A>): Promise<A> => {
  try {
    return call()
  } catch (error) {
    return Promise.reject(error)
  }
}

const workspaceOf = (service: Service, calls: Calls, close: Closing): Workspace => {
  const { run } = calls
  const bytes = (path: Parameters<Service["read"]>[0], options?: CallOptions) => run(service.read(path), options)
  const exec = (command: Parameters<Service["exec"]>[0], { signal, ...options }: ExecOptions = {}) =>
    asked(() => run(service.exec(command, withLimit(options)), signal === undefined ? {} : { signal }))
  return {
    id: service.id,
    branch: service.branch,
    projection: service.projection,
    path: service.path,
    isolation: service.isolation,
    head: (options) => run(service.head, options),
    read: bytes,
    readText: async (path, options) => new TextDecoder("utf-8", { fatal: true }).decode(await bytes(path, options)),
    write: (path, data, { signal, ...options } = {}) => run(service.write(path, data, options), only(signal)),
    splice: (path, offset, count, data, options) => run(service.splice(path, offset, count, data), options),
    edit: (path, find, replace, options) => run(service.edit(path, find, replace), options),
    apply: (operations, options) => run(service.apply(operations), options),
    list: (path = "", options) => run(service.list(path), options),
    stat: (path, options) => run(service.stat(path), options),
    glob: (pattern, options) => run(service.glob(pattern), options),
    grep: (pattern, { signal, ...options } = {}) => run(service.grep(pattern, options), only(signal)),
    copy: (from, to, options) => run(service.copy(from, to), options),
    move: (from, to, options) => run(service.move(from, to), options),
    remove: (path, options) => run(service.remove(path), options),
    exec,
    start: (argv, { signal, ...options } = {}) => run(started(service, calls, argv, options), only(signal)),
    changes: (options) => run(service.changes, options),
    checkpoint: (options = {}) => {
      const { signal, ...rest } = typeof options === "string" ? { message: options, signal: undefined } : options
      return run(service.checkpoint(rest), only(signal))
    },
    discard: (reason, options) => run(service.discard(reason), options),
    close,
    [Symbol.asyncDispose]: close
  }
}

const only = (signal: AbortSignal | undefined): CallOptions => (signal === undefined ? {} : { signal })

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
        kill: ({ grace = "2 seconds" } = {}) =>
          asked(() => calls.run(Effect.andThen(tree.kill({ graceMs: milliseconds("grace", grace) }), end)))
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
  const use = <A, E>(
    call: (provider: WorkspaceProvider) => Effect.Effect<A, E, Services>,
    options?: CallOptions
  ): Promise<A> => asked(() => calls.run(Effect.flatMap(Workspaces, call), options))
  const watch = <A, E, Step>(
    call: (provider: WorkspaceProvider, onProgress: (step: Step) => void) => Effect.Effect<A, E, Services>,
    options: Watching<Step>
  ) => startTask<A, Step>((tell, signal) => use((provider) => call(provider, tell), { signal }), options)

  return {
    manifest: (options) => use((p) => p.manifest, options),
    probe: (options) => use((p) => p.probe, options),
    createEmpty: ({ signal, ...options } = {}) => use((p) => p.createEmpty(options), only(signal)),
    importDirectory: (source, { signal, onProgress, ...options } = {}) =>
      watch((p, tell) => p.importDirectory({ ...options, source, onProgress: tell }), { signal, onProgress }),
    fork: (from, options = {}) => {
      const { signal, ...rest } = typeof options === "string" ? { name: options, signal: undefined } : options
      return use((p) => p.fork(refOf(from), rest), only(signal))
    },
    open: (branch, { signal, ...options } = {}) =>
      use((p) => opening(p, idOf(branch), options, makeWorkspaceCalls, open), only(signal)),
    branch: (id, options) => use((p) => p.branch(id), options),
    commit: (ref, options) => use((p) => p.commit(refOf(ref)), options),
    branches: (ref, { signal, ...options } = {}) => use((p) => p.branches(refOf(ref), options), only(signal)),
    log: (ref, { signal, ...options } = {}) => use((p) => p.log(refsOf(ref), options), only(signal)),
    graph: (ref, { signal, as = "text", ...options } = {}) =>
      use(
        (p) =>
          Effect.map(readHistoryGraph(p, refOf(ref), options), (graph) =>
            as === "svg" ? graphSvg(graph) : graphText(graph, { ascii: as === "ascii" })
          ),
        only(signal)
      ),
    diff: (from, to, { signal, ...options } = {}) => use((p) => p.diff(refOf(from), refOf(to), options), only(signal)),
    blame: (ref, path, { signal, ...options } = {}) => use((p) => p.blame(refOf(ref), path, options), only(signal)),
    globAt: (ref, pattern, { signal, ...options } = {}) =>
      use((p) => p.globAt(refOf(ref), pattern, options), only(signal)),
    grepAt: (ref, pattern, { signal, ...options } = {}) =>
      use((p) => p.grepAt(refOf(ref), pattern, options), only(signal)),
    rewind: (branch, options) => {
      const { signal, to, ...rest } = typeof options === "string" ? { to: options, signal: undefined } : options
      return use((p) => p.rewind(idOf(branch), { ...rest, to: refOf(to) }), only(signal))
    },
    reset: (branch, { signal, to, ...options }) =>
      use((p) => p.reset(idOf(branch), { ...options, to: refOf(to) }), only(signal)),
    undo: (branch, { signal, ...options }) => use((p) => p.undo(idOf(branch), options), only(signal)),
    undoLog: (branch, { signal, ...options } = {}) => use((p) => p.undoLog(idOf(branch), options), only(signal)),
    readAt: (ref, path, { signal, ...range } = {}) => use((p) => p.readAt(refOf(ref), path, range), only(signal)),
    listAt: (ref, path = "", options) => use((p) => p.listAt(refOf(ref), path), options),
    statAt: (ref, path, options) => use((p) => p.statAt(refOf(ref), path), options),
    applyTo: (branch, operations, { signal, ...options } = {}) =>
      use((p) => p.applyTo(idOf(branch), operations, options), only(signal)),
    execOn: (branch, command, { signal, ...options } = {}) =>
      use((p) => p.execOn(idOf(branch), command, withLimit(options)), only(signal)),
    pin: (key, ref, options) => use((p) => p.pin(key, refOf(ref)), options),
    unpin: (key, options) => use((p) => p.unpin(key), options),
    findOperation: (operationId, options) => use((p) => p.findOperation(operationId), options),
    exportDirectory: (ref, target, options = {}) =>
      watch((p, tell) => p.exportDirectory(refOf(ref), target, { onProgress: tell }), options),
    exportPatch: ({ from, to, ...options }) => use((p) => p.exportPatch({ from: refOf(from), to: refOf(to) }), options),
    left: (options) => use((p) => p.left, options),
    recover: (workspace, { signal, ...options } = {}) => use((p) => p.recover(workspace, options), only(signal)),
    discardLeft: (workspace, reason, options) => use((p) => p.discardLeft(workspace, reason), options),
    exportBundle: (ref, target, options = {}) =>
      watch((p, tell) => p.exportBundle({ ...options, ref: refOf(ref), target, onProgress: tell }), options),
    importBundle: (source, options = {}) => watch((p, tell) => p.importBundle({ source, onProgress: tell }), options),
    compact: (options = {}) => watch((p, tell) => p.compact({ ...options, onProgress: tell }), options),
    stats: (options) => use((p) => p.stats, options),
    verify: (options = {}) => watch((p, tell) => p.verify({ onProgress: tell }), options)
  }
}
