/**
 * An open workspace: the contract's calls over an open tree, one after the other, and the decision at its end.
 * Promise: closing never drops a change that no checkpoint holds: the files are kept and listed by `left`; an upper that is
 * exactly its last checkpoint becomes that commit's layer. Rules: W4, W8, W9, W10, W11, W12, W18, W19,
 * W21, L2.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { AuthorityGuard, AuthorityLost } from "../../base/AuthorityGuard.ts"
import { crashPoint } from "../../base/CrashPoint.ts"
import { newId } from "../../base/Id.ts"
import { type PathInput, show, type TreePath } from "../../base/PathBytes.ts"
import { ObjectDamaged, ProcessesRunning, Unavailable, WorkspaceClosed } from "../WorkspaceError.ts"
import type {
  Actor,
  Change,
  CheckpointOptions,
  CheckpointOutcome,
  Quarantine,
  Workspace
} from "../WorkspaceProvider.ts"
import { checkedWorkspace } from "./Door.ts"
import { applyBatch } from "./Batch.ts"
import { Beneath, pathError } from "./Beneath.ts"
import * as Direct from "./DirectCalls.ts"
import { checkArguments, exec } from "./Exec.ts"
import { compileGlob } from "./Glob.ts"
import { grepOpen } from "./GrepOpen.ts"
import type { HarvestInput } from "./Harvest.ts"
import { spawnFailed } from "./Launch.ts"
import { locate } from "./Locate.ts"
import { isOverlaid, type OpenTree, type Parts } from "./OpenTree.ts"
import { removeWork, treeOf } from "./WorkDirectory.ts"
import { entering, isMounted, visiblePathOf } from "./Outside.ts"
import { ownDirectories } from "./OwnDirectories.ts"
import { quarantineOf, told } from "./Quarantine.ts"
import { type Frozen, freeze } from "./Quiesce.ts"
import { removeTree } from "./RemoveTree.ts"
import type { Sentinels } from "./Sentinels.ts"
import { settle } from "./Settle.ts"
import { spoolUnreadable } from "./Spool.ts"
import { type Started, start } from "./Started.ts"

type State = "open" | "closed"

/** The branch and the commit that a workspace stands on, and who works in it by which right. */
export interface Standing {
  readonly branch: string
  readonly base: string
  readonly actor: Actor
  readonly guard?: AuthorityGuard | undefined
  readonly sentinels?: Sentinels | undefined
}

/** False where names that the commit has as one file are two in the upper, or nothing was committed. */
const isLinkedAsShown = (outcome: CheckpointOutcome): boolean =>
  outcome.outcome === "committed" && outcome.linkSplit.length === 0

export class OpenWorkspace {
  readonly tree: OpenTree
  readonly #parts: Omit<Parts, "tools">
  readonly #branch: string
  readonly #actor: Actor
  readonly #guard: AuthorityGuard | undefined
  readonly #sentinels: Sentinels | undefined
  /** What the guard's no came to; final. */
  #lost: AuthorityLost | undefined
  #quarantine: Quarantine | undefined
  readonly #beneath: Beneath
  readonly #lock = Semaphore.makeUnsafe(1)
  readonly #started = new Set<Started>()
  #state: State = "open"
  #head: string
  /** Of the last harvest whose outcome was committed or unchanged, with the commit it stands for. */
  #clean: { readonly commit: string; readonly fingerprint: string; readonly adoptable: boolean } | undefined

  /** A program outside that got the path may hold a file of the upper open for ever, and write to it when it is a layer. */
  #shownOutside = false

  constructor(parts: Omit<Parts, "tools">, tree: OpenTree, at: Standing) {
    this.#parts = parts
    this.tree = tree
    this.#branch = at.branch
    this.#actor = at.actor
    this.#guard = at.guard
    this.#sentinels = at.sentinels
    this.#head = at.base
    this.#beneath = new Beneath(tree.root, tree.path)
  }

  /** See `ownDirs` of the contract. A copied tree owns everything already. */
  async own(directories: readonly string[], signal: AbortSignal): Promise<void> {
    if (this.tree.holder === null || !isOverlaid(this.tree.projection)) return
    const { store } = this.#parts
    const linksBelow = async (below: readonly TreePath[]) => (await store.linksBelow?.(this.#head, below)) ?? []
    await ownDirectories(this.tree.holder, this.#beneath, directories, this.tree, linksBelow, signal)
  }

  #checkOpen(): void {
    if (this.#state === "open" && this.tree.inside.alive && this.tree.served()) return
    const state = this.#state === "open" ? "interrupted" : "closed"
    const gone = this.tree.served()
      ? "The workspace's holder process is gone."
      : "Whoever served the workspace's base is gone: what was not read yet cannot be read any more."
    throw new WorkspaceClosed({
      message: state === "closed" ? "The workspace is closed." : gone,
      remedy:
        state === "closed"
          ? "Open the branch again."
          : "Its files are kept: see `left`, then `recover` or `discardLeft`.",
      workspace: this.tree.id,
      state
    })
  }

  /** One call at a time (W11), on an open workspace. */
  #serial<A, E>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, E> {
    return this.#lock.withPermits(1)(this.#settled<A, E>(work))
  }

  #settled<A, E>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, E> {
    return settle<A, E>(async (signal) => {
      this.#checkOpen()
      return work(signal)
    })
  }

  /** As `#serial`, for a call that changes something: only while the guard says yes (W18). */
  #changing<A, E>(work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, E> {
    const allowed = Effect.suspend(() => this.#allowed<E>())
    return this.#lock.withPermits(1)(Effect.andThen(allowed, this.#settled<A, E>(work)))
  }

  #allowed<E>(): Effect.Effect<void, E> {
    // A closed workspace says so itself.
    if (this.#guard === undefined || this.#state !== "open") return Effect.void
    if (this.#lost !== undefined) return Effect.fail(this.#lost as E)
    return this.#guard.pipe(
      Effect.catchTag("AuthorityLost", (lost) =>
        // Not interruptible: whoever gives up waiting must not leave the processes running and the files nowhere.
        Effect.uninterruptible(
          Effect.flatMap(
            settle<AuthorityLost, E>(() => this.#loseTo(lost)),
            Effect.fail
          )
        )
      ),
      Effect.mapError((error) => error as E)
    )
  }

  /** Ends what runs inside and keeps what no checkpoint holds. Where that is not possible, the end of the workspace keeps it. */
  async #loseTo(lost: AuthorityLost): Promise<AuthorityLost> {
    let failed = false
    try {
      await this.endProcesses()
      if (this.tree.inside.alive && (await this.#preview()).changes.length > 0) await this.#keepAside()
    } catch {
      failed = this.#quarantine === undefined
    }
    this.#lost = told(lost, this.tree.id, this.#quarantine ?? null, failed || !this.tree.inside.alive)
    return this.#lost
  }

  async #keepAside(): Promise<void> {
    const { store } = this.#parts
    await this.#layersLooked()
    const live = !this.tree.inside.quiet()
    const at = { workspace: this.tree.id, head: this.#head, actor: this.#actor, live }
    const { kept, harvested } = await quarantineOf(store, at, (request) =>
      this.#harvesting((harvest) => store.checkpoint({ ...request, harvest }))
    )
    this.#quarantine = kept
    const adoptable = !live && harvested.skipped.skipped === undefined && isLinkedAsShown(harvested.outcome)
    this.#clean = { commit: kept.commit, fingerprint: harvested.fingerprint, adoptable }
  }

  /**
   * Commands find the tree by its path: where somebody has unmounted it, they would work in what lies below, the origin for example.
   * The calls that go by the descriptor still reach it.
   */
  #checkMounted(): void {
    if (isMounted(this.tree)) return
    throw new WorkspaceClosed({
      message:
        "The workspace's tree is no longer mounted at its path: somebody else has unmounted it, or its directory is gone.",
      remedy: "Nothing was run. Checkpoint what it holds, close it and open the branch again.",
      workspace: this.tree.id,
      state: "interrupted"
    })
  }

  /** A working directory as the launcher takes it: absolute, inside, and a directory. */
  #workingDirectory(cwd: string | undefined): string {
    this.#checkMounted()
    this.#beforeUse()
    const at = this.#beneath.resolve(cwd ?? "", true, (place) => {
      if (place.stat === undefined) throw pathError("notFound", place.path)
      if (!place.stat.isDirectory()) throw pathError("notADirectory", place.path)
      return place.path
    })
    const root = Buffer.from(this.tree.path, "latin1").toString("utf8")
    return at === "" ? root : `${root}/${Buffer.from(at, "latin1").toString("utf8")}`
  }

  #beforeUse(): void {
    const { id, projection, work } = this.tree
    if (projection !== "overlay") this.#parts.store.beforeUse?.(id, treeOf(work))
  }

  #checkProgram(program: string, path: string | undefined): void {
    if (this.tree.holder !== null && !locate(this.tree.holder, program, path)) {
      throw spawnFailed(program, "there is no such program")
    }
  }

  /** What somebody took out of a layer below would be captured as if it had been removed here. */
  #checkLayers(): void {
    const { layers } = this.#parts
    if (this.tree.projection !== "overlay" || layers === null || layers.available(this.tree.lowers)) return
    throw new ObjectDamaged({
      message:
        "A cached layer below this workspace is not as it was made: what is captured here could be somebody else's change.",
      remedy:
        "Nothing was committed, and the workspace's own files are kept. Close it and `recover` it: the layer is made anew for that, unless another workspace stands on it. Or discard it and open the branch again.",
      object: this.tree.lowers.join(":")
    })
  }

  /** What is to be committed waits for it: see `looked` of the cache. */
  async #layersLooked(): Promise<void> {
    if (this.tree.projection === "overlay") await this.#parts.layers?.looked(this.tree.lowers)
  }

  async #harvesting<R extends object>(
    request: (input: HarvestInput) => Promise<R | { readonly unreadable: readonly string[] }>
  ): Promise<R> {
    this.#checkLayers()
    let reply = await request(this.tree.harvestInput())
    if ("unreadable" in reply) {
      const spool = await spoolUnreadable(this.tree, reply.unreadable)
      reply = await request(this.tree.harvestInput(spool.spool)).finally(() => removeTree(spool.directory))
    }
    if ("unreadable" in reply) throw pathError("denied", reply.unreadable[0] ?? "")
    return reply as R
  }

  /** Harvest and commit; see `checkpoint` of the contract. */
  async commitHarvest(options: CheckpointOptions = {}, signal?: AbortSignal): Promise<CheckpointOutcome> {
    this.#beforeUse()
    await this.#layersLooked()
    const busy = !this.tree.inside.quiet()
    const entering = (): boolean => [...this.#started].some((started) => started.entering())
    const frozen =
      busy && options.quiesce === true
        ? await freeze(this.tree.inside, { workspace: this.tree.id, entering, signal })
        : undefined
    const live = busy && frozen === undefined
    if (live && options.allowLive !== true) this.#refuseLive()
    const operationId = options.operationId ?? newId("operation")
    const { outcome, fingerprint, skipped, repeats } = await this.#whileFrozen(frozen, () =>
      this.#harvesting((harvest) =>
        this.#parts.store.checkpoint(
          {
            branch: this.#branch,
            expectedHead: this.#head,
            harvest,
            message: options.message ?? "",
            operationId,
            actor: options.actor ?? this.#actor,
            keepTimes: options.keepTimes ?? false,
            live,
            ...(frozen === undefined ? {} : { quiesced: frozen.processes })
          },
          signal
        )
      )
    )
    crashPoint("workspace.harvested")
    if (repeats === "next") this.#head = outcome.commit
    else if (repeats === "no" && (outcome.outcome === "committed" || outcome.outcome === "unchanged")) {
      this.#head = outcome.commit
      // A live upper may have changed since; one that was unchanged may hold other times than its commit (W8).
      const adoptable = isLinkedAsShown(outcome) && !busy && skipped.skipped === undefined
      if (outcome.outcome === "committed" || this.#clean?.fingerprint !== fingerprint) {
        this.#clean = { commit: outcome.commit, fingerprint, adoptable }
      }
    }
    return { ...outcome, ...skipped }
  }

  /** Whatever becomes of the capture, the processes that were stopped for it go on (W19). */
  async #whileFrozen<A>(frozen: Frozen | undefined, capture: () => Promise<A>): Promise<A> {
    try {
      return await capture()
    } finally {
      await frozen?.thaw()
    }
  }

  #refuseLive(): void {
    const processes = this.tree.inside.processes().map(({ pid, command }) => ({ pid, command }))
    if (processes.length === 0) return
    throw new ProcessesRunning({
      message: `${processes.length} processes are still running inside the workspace.`,
      remedy:
        "Wait for them or end them, ask for `quiesce`, or ask for `allowLive` and accept a state caught in mid-write.",
      workspace: this.tree.id,
      processes
    })
  }

  async #preview(signal?: AbortSignal): Promise<{ readonly changes: readonly Change[]; readonly fingerprint: string }> {
    const base = this.#quarantine?.commit ?? this.#head
    return this.#harvesting((harvest) => this.#parts.store.preview(base, harvest, signal))
  }

  /** Ends everything inside; used before a capture that must be quiet, and at the end. */
  async endProcesses(): Promise<void> {
    for (const started of this.#started) await started.end()
    this.#started.clear()
    for (let round = 0; round < 500 && !this.tree.inside.quiet(); round += 1) {
      if (this.tree.inside.processes().length > 0) await this.tree.inside.signal("KILL", ["all"])
      else await new Promise((resolve) => setTimeout(resolve, 1))
    }
  }

  /** The end of the scope. Never rejects for what the caller could not have prevented: such a row stays for `left`. */
  async close(): Promise<void> {
    if (this.#state === "closed") return
    this.#state = "closed"
    const { store, layers } = this.#parts
    const { id, inside } = this.tree
    let kept: string | undefined
    let adopt = false
    let looked: string | undefined
    if (inside.alive) {
      await this.endProcesses()
      try {
        looked =
          this.#clean?.adoptable === true ? await layers?.look(this.tree.content).catch(() => undefined) : undefined
        const { changes, fingerprint } = await this.#preview()
        if (changes.length > 0) kept = `${changes.length} changes without a checkpoint`
        adopt = this.#clean?.adoptable === true && !this.#shownOutside && this.#clean.fingerprint === fingerprint
      } catch {
        kept = "its changes could not be read at the end"
      }
      await this.tree.end()
    } else {
      await this.tree.end()
      // The holder died under us: whatever the upper holds is for a command to decide (W23).
      kept = "its holder process ended"
    }
    crashPoint("workspace.ended")
    kept ??= await this.#lastLook()
    if (kept !== undefined) {
      await store.updateWorkspace(id, { state: "kept", note: kept })
      return crashPoint("workspace.kept")
    }
    // Said before the files go: a process that is killed between the two leaves a directory to sweep, not a row without its files.
    // A quarantined one goes on to say where its files are.
    if (this.#quarantine === undefined) await store.updateWorkspace(id, { state: "closed" })
    crashPoint("workspace.closed")
    if (adopt && layers !== null && this.tree.projection === "overlay") {
      // Only an economy: where it fails (a full disk), the commit's layer is made from the store when it is asked for.
      await layers.adopt(this.#clean!.commit, this.tree.lowers, this.tree.content, looked).catch(() => undefined)
      crashPoint("workspace.adopted")
    }
    await removeWork(this.#parts.store, this.tree.id)
  }

  /** Why the files cannot go yet; undefined when nothing is reached by them alone (GW4). */
  async #lastLook(): Promise<string | undefined> {
    try {
      await this.#parts.store.beforeRemoval?.(this.tree.id, treeOf(this.tree.work))
      return undefined
    } catch {
      return "what was committed inside could not be kept elsewhere"
    }
  }

  /** Ends the workspace and drops its files, on purpose and on record (W12). */
  async abandon(reason: string): Promise<void> {
    this.#state = "closed"
    await this.endProcesses()
    await this.tree.end()
    await this.#parts.store.beforeRemoval?.(this.tree.id, treeOf(this.tree.work))
    await this.#parts.store.updateWorkspace(this.tree.id, { state: "discarded", note: reason })
    crashPoint("workspace.discarded")
    await removeWork(this.#parts.store, this.tree.id)
  }

  /** What callers hold. */
  service(): Workspace {
    const { tree } = this
    const b = this.#beneath
    const root = Buffer.from(tree.path, "latin1").toString("utf8")
    const startProcess: Workspace["start"] = (argv, options = {}) =>
      Effect.acquireRelease(
        this.#changing<Started, never>(async () => {
          const cwd = this.#workingDirectory(options.cwd)
          this.#checkProgram(argv[0], options.env?.["PATH"])
          const started = await start(tree.inside, argv, options, cwd)
          this.#started.add(started)
          return started
        }),
        (started) =>
          Effect.promise(async () => {
            this.#started.delete(started)
            await started.end()
          })
      ).pipe(Effect.map((started) => started.process))
    return checkedWorkspace({
      id: tree.id,
      branch: this.#branch,
      head: Effect.sync(() => this.#head),
      projection: tree.projection,
      path: root,
      isolation: tree.isolation,
      sentinels: this.#serial(async () => (await this.#sentinels?.report()) ?? null),
      visiblePath: this.#serial(async () => {
        const found = visiblePathOf(tree)
        if (found !== undefined) {
          this.#shownOutside = true
          return found
        }
        throw new Unavailable({
          message: "The workspace's tree cannot be reached from outside.",
          remedy: "Use the workspace's own calls, or `enter`.",
          what: "visible path",
          missing: ["a path that shows the tree"]
        })
      }),
      enter: (argv, options = {}) =>
        this.#changing(async () => {
          const cwd = this.#workingDirectory(options.cwd)
          checkArguments(argv)
          this.#checkProgram(argv[0], options.env?.["PATH"])
          return entering(tree.inside, argv, options, cwd)
        }),
      environment: {
        root,
        guarantee: Effect.succeed(tree.inside.guarantee),
        spawn: startProcess as Workspace["environment"]["spawn"]
      },
      read: (path) => this.#serial(() => Direct.readFile(b, path)),
      write: (path, bytes, options) => this.#changing(() => Direct.writeFile(b, path, bytes, options?.mode)),
      splice: (path, offset, count, bytes) => this.#changing(() => Direct.splice(b, path, offset, count, bytes)),
      edit: (path, find, replace) => this.#changing(() => Direct.edit(b, path, find, replace)),
      apply: (operations) => this.#changing(() => applyBatch(b, operations, tree.work)),
      list: (path) => this.#serial(async () => Direct.list(b, path)),
      stat: (path) => this.#serial(async () => Direct.stat(b, path)),
      glob: (pattern) =>
        this.#serial(async () => {
          const wanted = compileGlob(pattern)
          const found: TreePath[] = []
          await Direct.walk(b, (path) => wanted(path) && found.push(path))
          return found.sort().map(show)
        }),
      grep: (pattern, options = {}) => this.#serial(() => grepOpen(b, this.#parts.store.grepTexts, pattern, options)),
      copy: (from, to) => this.#changing(() => Direct.copy(b, from, to)),
      move: (from, to) => this.#changing(() => Direct.move(b, from, to)),
      remove: (path: PathInput) => this.#changing(async () => Direct.remove(b, path)),
      exec: (command, options = {}) =>
        this.#changing(async (signal) => {
          const cwd = this.#workingDirectory(options.cwd)
          if (typeof command !== "string") this.#checkProgram(command[0], options.env?.["PATH"])
          const result = await exec(tree.inside, command, options, cwd, signal)
          if (options.endProcesses === true) await this.endProcesses()
          this.#checkOpen()
          return result
        }),
      start: startProcess,
      changes: this.#serial(async (signal) => (await this.#preview(signal)).changes),
      checkpoint: (options) => this.#changing((signal) => this.commitHarvest(options, signal)),
      discard: (reason) => this.#changing(() => this.abandon(reason))
    })
  }
}
