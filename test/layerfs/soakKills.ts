/**
 * Everything that a store does, killed anywhere: for the short test and for `npm run soak -- layerfs`.
 * Promise: every choice comes from the seed; after each kill the store opens, no temporary is left, each operation that was
 * answered is answered the same, each acknowledged commit holds what it held, and a head stands where it was acknowledged or
 * where the one call stood that was under way. Rules: L8, L9, L12, W10, W12.
 */
import { spawn } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { crashPoints } from "../../src/base/CrashPointList.ts"
import { sha256 } from "../../src/base/Digest.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import type { SoakLine } from "./soakLines.ts"
import { unsound } from "./storeKills.ts"

const program = await oneFile(fileURLToPath(new URL("./soakChild.ts", import.meta.url)))

const run = Effect.runPromise

/** Points that these processes can pass; those of workspaces only where commands run. */
const points = Object.keys(crashPoints).filter((name) => name.startsWith("layerfs."))
const commandPoints = Object.keys(crashPoints).filter((name) => /^(layers|workspace)\./.test(name))

export interface SoakGround {
  readonly directory: string
  readonly source: string
  readonly commands: boolean
  readonly branches: readonly { readonly id: string; head: string }[]
  /** Everything that was acknowledged, by operation id. */
  readonly told: Map<string, SoakLine>
}

const withStore = <A>(store: string, use: (fs: WorkspaceProvider) => Promise<A>): Promise<A> =>
  run(Effect.scoped(Effect.flatMap(openLayerFs({ store }), (fs) => Effect.promise(() => use(fs)))))

/** A store with two branches of an imported directory. */
export const soakGround = (directory: string, source: string, commands: boolean): Promise<SoakGround> => {
  mkdirSync(join(source, "part-0"))
  for (let n = 0; n < 60; n += 1) writeFileSync(join(source, "part-0", `file-${n}`), `${n} `.repeat(50 + n * 20))
  return withStore(directory, async (fs) => {
    const { layer } = await run(fs.importDirectory({ source }))
    const forks = [await run(fs.fork(layer, { name: "a" })), await run(fs.fork(layer, { name: "b" }))]
    return { directory, source, commands, branches: forks.map(({ id, head }) => ({ id, head })), told: new Map() }
  })
}

interface Killed {
  readonly lines: readonly SoakLine[]
  readonly killed: boolean
  readonly fault: string | undefined
}

/** Kills after so many answers and a moment more, or where a crash point says; a point that is not passed in time ends likewise. */
const oneProcess = (
  ground: SoakGround,
  branch: string,
  label: string,
  random: (below: number) => number
): Promise<Killed> => {
  const all = ground.commands ? [...points, ...commandPoints] : points
  const point = random(2) === 0 ? `${all[random(all.length)]!}:${1 + random(6)}` : undefined
  const answers = 1 + random(25)
  const more = random(40)
  const seed = String(1 + random(1_000_000))
  const args = [program, ground.directory, branch, ground.source, seed, label, ground.commands ? "yes" : "no"]
  return new Promise((resolve, reject) => {
    const running = spawn(process.execPath, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...oneFileEnvironment(), ...(point === undefined ? {} : { COPPICE_CRASH_AT: point }) }
    })
    const lines: SoakLine[] = []
    let errors = ""
    let timer: NodeJS.Timeout | undefined
    running.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors = (errors + text).slice(-2000)
    })
    createInterface({ input: running.stdout }).on("line", (line) => {
      lines.push(JSON.parse(line) as SoakLine)
      if (lines.length >= 2 * answers) timer ??= setTimeout(() => running.kill("SIGKILL"), more)
    })
    running.on("error", reject)
    running.on("close", (code, signal) => {
      clearTimeout(timer)
      const killed = signal === "SIGKILL"
      resolve({ lines, killed, fault: killed ? undefined : `${label} ended with ${String(code ?? signal)}: ${errors}` })
    })
  })
}

/** What the lines of one process say against what the store holds now; takes them over into the ground. */
const compare = async (fs: WorkspaceProvider, ground: SoakGround, n: number, lines: readonly SoakLine[]) => {
  const faults: string[] = []
  const branch = ground.branches[n]!
  const open = new Map<string, string>()
  for (const line of lines) {
    if (line.operationId === undefined) continue
    if (line.starts !== undefined) {
      open.set(line.operationId, line.starts)
      continue
    }
    open.delete(line.operationId)
    if (line.error !== undefined) continue
    ground.told.set(line.operationId, line)
    if (line.head !== undefined) branch.head = line.head
    if (line.branch !== undefined) {
      const again = await run(fs.fork(branch.id, { operationId: line.operationId }))
      if (again.id !== line.branch) faults.push(`${line.operationId}: a repeated fork is another branch`)
    }
    if (line.root !== undefined && (await run(fs.commit(line.commit!))).root !== line.root)
      faults.push(`${line.operationId}: an import has another root`)
  }
  // The call under way when it was killed: it moved the head, or nothing happened.
  const { head } = await run(fs.branch(branch.id))
  if (head !== branch.head) {
    const found = await Promise.all(
      [...open].map(async ([operation, name]) => {
        const state = await run(fs.findOperation(operation))
        return { name, commit: state.state === "recorded" ? state.commit : undefined }
      })
    )
    const moved = found.find(({ name, commit }) => commit === head && name !== "fork" && name !== "importAgain")
    if (moved === undefined) faults.push(`the head ${head} was never acknowledged; ${branch.head} was`)
    branch.head = head
  }
  return faults
}

/** Every operation of which somebody was told, and the files that were named with them. `every` takes one in so many. */
const recheck = async (fs: WorkspaceProvider, ground: SoakGround, every: number, random: (below: number) => number) => {
  const faults: string[] = []
  for (const [operation, { recorded, commit, path, digest }] of ground.told) {
    if (random(every) !== 0) continue
    if (recorded !== undefined) {
      const found = await run(fs.findOperation(operation))
      if (found.state === "absent" || found.commit !== recorded) faults.push(`${operation}: answered otherwise now`)
    }
    if (commit === undefined || path === undefined) continue
    const bytes = await run(fs.readAt(commit, path).pipe(Effect.orElseSucceed(() => undefined)))
    if (bytes === undefined || sha256(bytes) !== digest) faults.push(`${operation}: ${path} of ${commit} differs`)
  }
  return faults
}

/** One round: one process or two at once, killed; then the store is opened and compared with what was told. */
export const soakRound = async (
  ground: SoakGround,
  round: number,
  random: (below: number) => number,
  thorough: boolean
): Promise<{ readonly kills: number; readonly faults: readonly string[] }> => {
  const writers = random(3) === 0 ? ground.branches : [ground.branches[random(2)]!]
  const ended = await Promise.all(writers.map(({ id }, n) => oneProcess(ground, id, `r${round}w${n}`, random)))
  const faults = ended.flatMap(({ fault }) => fault ?? [])
  await withStore(ground.directory, async (fs) => {
    for (const [n, { lines }] of ended.entries()) {
      faults.push(...(await compare(fs, ground, ground.branches.indexOf(writers[n]!), lines)))
    }
    faults.push(...(await recheck(fs, ground, thorough ? 1 : 8, random)))
    for (const left of await run(fs.left)) await run(fs.discardLeft(left.id, "soak"))
  })
  const store = await openLayerStore({ store: ground.directory })
  try {
    if (thorough) faults.push(...(await unsound(store)))
  } finally {
    await store.close()
  }
  return { kills: ended.filter(({ killed }) => killed).length, faults }
}
