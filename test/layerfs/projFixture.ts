/**
 * Ground for the tests of open workspaces: a provider with its projections over a scratch store, and a look at what is left.
 * Promise: real git, mounts and processes; after each test nothing of it is mounted, running or on disk.
 */
import type { ChildProcess } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { afterAll, afterEach, expect } from "vitest"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"
import { readProcess } from "../../src/base/ProcessTable.ts"
import { removeTree } from "../../src/workspace/kit/RemoveTree.ts"
import type { OpenOptions, Workspace, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"

const cleanups: (() => unknown)[] = []
export const atEnd = (cleanup: () => unknown): void => void cleanups.push(cleanup)

/** Ends a program of the test's own with the test, and waits until it is gone. */
export const endedAtEnd = <A extends ChildProcess>(child: A): A => {
  const gone = new Promise((resolve) => child.once("close", resolve))
  atEnd(() => {
    child.kill("SIGKILL")
    return gone
  })
  return child
}

const scratches: string[] = []

/** Processes whose command line names a path of ours: holders, launchers, whatever was started in a workspace. */
export const processesOf = (path: string): string[] =>
  fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) => {
      try {
        const text = fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")
        return text.includes(path) ? [`${pid} ${text}`] : []
      } catch {
        return []
      }
    })

/**
 * What this process started is gone by now. What a killed program of a test had started ends by itself a moment after it: that is waited for.
 */
const noProcessIsLeft = async (path: string): Promise<void> => {
  const left = (): string[] => processesOf(path)
  const isOurs = (line: string): boolean => {
    for (let pid = Number.parseInt(line, 10); pid > 1; pid = readProcess(pid)?.parent ?? 0) {
      if (pid === process.pid) return true
    }
    return false
  }
  const until = performance.now() + 30_000
  while (left().length > 0 && !left().some(isOurs) && performance.now() < until)
    await new Promise((go) => setTimeout(go, 5))
  expect(left(), "a process is left").toEqual([])
}

/** Children of this process that hold namespaces. */
export const holders = (): string[] =>
  fs
    .readFileSync(`/proc/self/task/${process.pid}/children`, "utf8")
    .split(" ")
    .filter((pid) => pid !== "")
    .flatMap((pid) => {
      try {
        const command = fs.readFileSync(`/proc/${pid}/comm`, "utf8").trim()
        return ["unshare", "setpriv", "nsenter", "cat"].includes(command) ? [`${pid} ${command}`] : []
      } catch {
        return []
      }
    })

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup()
  const mounts = fs.readFileSync("/proc/self/mountinfo", "utf8")
  for (const path of scratches.splice(0)) {
    expect(mounts.includes(path), "a mount is left").toBe(false)
    await noProcessIsLeft(path)
    await removeTree(path)
  }
  expect(holders(), "a holder is left").toEqual([])
})

/** A directory outside of /tmp, which is private inside a workspace, that is removed after the test. */
export const scratch = (parent = "/var/tmp"): string => {
  const path = fs.realpathSync(fs.mkdtempSync(join(fs.existsSync(parent) ? parent : tmpdir(), "coppice-proj-")))
  scratches.push(path)
  return path
}

export const run = <A, E>(effect: Effect.Effect<A, E>): Promise<A> => Effect.runPromise(effect)
export const failure = <A, E>(effect: Effect.Effect<A, E>): Promise<E> => Effect.runPromise(Effect.flip(effect))

/** Opens a provider on `store`; it closes after the test. */
export const providerOn = async (store: string): Promise<WorkspaceProvider> => {
  const scope = await run(Scope.make())
  atEnd(() => run(Scope.close(scope, Exit.void)))
  return run(Scope.provide(makeLayerFs({ store }), scope))
}

/** Files by path; a string is content, `{ link }` a symlink, `{ hard }` another name of an earlier file, null a directory. */
export type Files = Readonly<
  Record<string, string | Buffer | null | { readonly link: string } | { readonly hard: string }>
>

export const write = (root: string, files: Files): void => {
  for (const [name, what] of Object.entries(files)) {
    const at = join(root, name)
    fs.mkdirSync(join(at, ".."), { recursive: true })
    if (what === null) fs.mkdirSync(at, { recursive: true })
    else if (typeof what === "string" || Buffer.isBuffer(what)) fs.writeFileSync(at, what)
    else if ("link" in what) fs.symlinkSync(what.link, at)
    else fs.linkSync(join(root, what.hard), at)
  }
}

export interface Ground {
  readonly root: string
  readonly origin: string
  readonly store: string
  readonly provider: WorkspaceProvider
  readonly commit: string
}

/** A store with one imported tree. */
export const ground = async (files: Files, parent?: string): Promise<Ground> => {
  const root = scratch(parent)
  const origin = join(root, "origin")
  fs.mkdirSync(origin)
  write(origin, files)
  const store = join(root, "store")
  const provider = await providerOn(store)
  const { commit } = await run(provider.importDirectory({ source: origin }))
  return { root, origin, store, provider, commit }
}

/** One store for a whole file, made by the first test that asks; each test forks its own branch from the commit. */
export const sharedGround = (files: Files): (() => Promise<Ground>) => {
  let made: Promise<Ground> | undefined
  const make = async (): Promise<Ground> => {
    const root = fs.realpathSync(fs.mkdtempSync("/var/tmp/coppice-proj-"))
    const origin = join(root, "origin")
    fs.mkdirSync(origin)
    write(origin, files)
    const store = join(root, "store")
    const scope = await run(Scope.make())
    const provider = await run(Scope.provide(makeLayerFs({ store }), scope))
    const { commit } = await run(provider.importDirectory({ source: origin }))
    closers.push(async () => {
      await run(Scope.close(scope, Exit.void))
      await removeTree(root)
    })
    return { root, origin, store, provider, commit }
  }
  return () => (made ??= make())
}

/** Another imported tree in a shared store: what a test needs that brings its own files. */
export const groundIn = async (shared: Ground, files: Files): Promise<Ground> => {
  const root = scratch()
  const origin = join(root, "origin")
  fs.mkdirSync(origin)
  write(origin, files)
  const { commit } = await run(shared.provider.importDirectory({ source: origin }))
  return { ...shared, root, origin, commit }
}

const closers: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const close of closers.splice(0)) await close()
})

export const forkOf = async (provider: WorkspaceProvider, from: string): Promise<string> =>
  (await run(provider.fork(from))).id

/** Opens a workspace, uses it, and closes it. */
export const using = <A>(
  provider: WorkspaceProvider,
  branch: string,
  options: OpenOptions,
  use: (workspace: Workspace) => Promise<A>
): Promise<A> =>
  run(
    Effect.scoped(Effect.flatMap(provider.open(branch, options), (workspace) => Effect.promise(() => use(workspace))))
  )

/** Runs a shell command that must succeed and returns its standard output. */
export const shell = async (workspace: Workspace, command: string): Promise<string> => {
  const result = await run(workspace.exec(command))
  expect(result.exitCode, result.stderr.text).toBe(0)
  return result.stdout.text
}

/** The commit that a checkpoint made. */
export const committed = async (workspace: Workspace): Promise<string> => {
  const outcome = await run(workspace.checkpoint())
  expect(outcome.outcome).toBe("committed")
  return (outcome as { readonly commit: string }).commit
}

/** Everything below a commit's root, by path. */
export const treeAt = async (provider: WorkspaceProvider, ref: string): Promise<Record<string, string>> => {
  const found: Record<string, string> = {}
  const visit = async (path: string): Promise<void> => {
    for (const entry of await run(provider.listAt(ref, path))) {
      // listAt answers names or paths alike: the last part is the name.
      const child = path === "" ? entry.path.split("/").at(-1)! : `${path}/${entry.path.split("/").at(-1)!}`
      if (entry.type === "directory") {
        found[`${child}/`] = ""
        await visit(child)
      } else if (entry.type === "symlink") found[child] = `-> ${entry.target!.path}`
      else found[child] = Buffer.from(await run(provider.readAt(ref, child))).toString("latin1")
    }
  }
  await visit("")
  return found
}
