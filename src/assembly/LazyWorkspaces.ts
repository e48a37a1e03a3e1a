/**
 * A workspace provider that is loaded and opened when it is first used, and not before.
 * Promise: until the first call no module, file, process or thread of the provider exists (P4); concurrent first calls open
 * it once, a failed opening is tried again by the next; a call that is given up ends, however long the opening takes; it closes with the
 * scope that made it. Rules: P4, P9, W2, W4.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import type { StoreError, WorkspaceProvider } from "../workspace/WorkspaceProvider.ts"

type Use = <A, E, R>(
  call: (provider: WorkspaceProvider) => Effect.Effect<A, E, R>
) => Effect.Effect<A, E | StoreError, R>

/** Every operation of the contract, each by one `use` of the provider. */
const through = (use: Use): WorkspaceProvider => ({
  manifest: use((p) => p.manifest),
  probe: use((p) => p.probe),
  createEmpty: (options) => use((p) => p.createEmpty(options)),
  importDirectory: (options) => use((p) => p.importDirectory(options)),
  fork: (from, options) => use((p) => p.fork(from, options)),
  open: (branch, options) => use((p) => p.open(branch, options)),
  branch: (id) => use((p) => p.branch(id)),
  commit: (ref) => use((p) => p.commit(ref)),
  branches: (ref, options) => use((p) => p.branches(ref, options)),
  log: (ref, options) => use((p) => p.log(ref, options)),
  diff: (from, to, options) => use((p) => p.diff(from, to, options)),
  blame: (ref, path, options) => use((p) => p.blame(ref, path, options)),
  globAt: (ref, pattern, options) => use((p) => p.globAt(ref, pattern, options)),
  grepAt: (ref, pattern, options) => use((p) => p.grepAt(ref, pattern, options)),
  rewind: (branch, options) => use((p) => p.rewind(branch, options)),
  reset: (branch, options) => use((p) => p.reset(branch, options)),
  undo: (branch, options) => use((p) => p.undo(branch, options)),
  undoLog: (branch, options) => use((p) => p.undoLog(branch, options)),
  readAt: (ref, path, range) => use((p) => p.readAt(ref, path, range)),
  listAt: (ref, path) => use((p) => p.listAt(ref, path)),
  statAt: (ref, path) => use((p) => p.statAt(ref, path)),
  applyTo: (branch, operations, options) => use((p) => p.applyTo(branch, operations, options)),
  execOn: (branch, command, options) => use((p) => p.execOn(branch, command, options)),
  candidate: (ref, options) => use((p) => p.candidate(ref, options)),
  pin: (key, ref) => use((p) => p.pin(key, ref)),
  unpin: (key) => use((p) => p.unpin(key)),
  findOperation: (operationId) => use((p) => p.findOperation(operationId)),
  exportDirectory: (ref, target, options) => use((p) => p.exportDirectory(ref, target, options)),
  exportPatch: (options) => use((p) => p.exportPatch(options)),
  importGit: (options) => use((p) => p.importGit(options)),
  merge: (from, into, options) => use((p) => p.merge(from, into, options)),
  exportTar: (ref, target, options) => use((p) => p.exportTar(ref, target, options)),
  retire: (branch) => use((p) => p.retire(branch)),
  collect: use((p) => p.collect),
  left: use((p) => p.left),
  recover: (workspace, options) => use((p) => p.recover(workspace, options)),
  discardLeft: (workspace, reason) => use((p) => p.discardLeft(workspace, reason)),
  exportBundle: (options) => use((p) => p.exportBundle(options)),
  importBundle: (options) => use((p) => p.importBundle(options)),
  compact: (options) => use((p) => p.compact(options)),
  stats: use((p) => p.stats),
  verify: (options) => use((p) => p.verify(options))
})

/** The names of the operations that a provider has. */
export const contractCalls: readonly string[] = Object.keys(through(() => Effect.never))

/** Wraps `acquire`, which imports and opens the real provider inside the given scope. `explain` may say more of a failure. */
export const lazyWorkspaces = (
  acquire: Effect.Effect<WorkspaceProvider, StoreError, Scope.Scope>,
  explain: <E>(error: E) => E = (error) => error
): Effect.Effect<WorkspaceProvider, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Scope.make()
    let opening: Fiber.Fiber<WorkspaceProvider, StoreError> | undefined
    // Only a success is kept: a store that was busy or misplaced may be opened by the next call. In a fiber of its own: a caller
    // who gives up leaves at once, and what he began is there for the next.
    const provider = Effect.suspend(() => {
      const exit = opening?.pollUnsafe()
      if (opening !== undefined && (exit === undefined || Exit.isSuccess(exit))) return Fiber.join(opening)
      return Effect.flatMap(Effect.forkDetach(Scope.provide(acquire, scope)), (fiber) => {
        opening = fiber
        return Fiber.join(fiber)
      })
    })
    yield* Effect.addFinalizer((exit) =>
      Effect.andThen(
        Effect.suspend(() => (opening === undefined ? Effect.void : Fiber.interrupt(opening))),
        Scope.close(scope, exit)
      )
    )
    return through((call) => Effect.mapError(Effect.flatMap(provider, call), explain))
  })
