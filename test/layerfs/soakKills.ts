/**
 * Everything that a store does, killed anywhere: for the short test and for `npm run soak -- layerfs`.
 * Promise: every choice comes from the seed; after each round the store opens, all of it verifies, nothing temporary is left, each
 * operation that was answered is answered the same, each acknowledged commit holds what it held, a head stands where it was
 * acknowledged or where a call stood that was under way, and nothing is there that nobody asked for. The next round goes on with
 * the same store, so that damage adds up. Free of any test runner. Rules: L8, L9, L10, L11, L12, W10, W12.
 */
import { spawn } from "node:child_process"
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { openStoreDirectories } from "../../providers/layerfs/LayerDirectories.ts"
import { crashPoints } from "../../src/base/CrashPointList.ts"
import { sha256 } from "../../src/base/Digest.ts"
import type { WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import type { SoakLine } from "./soakLines.ts"
import { leftOnDisk } from "./soundness.ts"

const run = Effect.runPromise

/** Which call passes the points of a family; where none is named, a commit does. `recover` finds something only after a killed command. */
const passedBy: readonly (readonly [family: RegExp, call: string])[] = [
  [/^refs\.fork\./, "fork"],
  [/^refs\.move\./, "reset"],
  [/^refs\.pin\./, "pin"],
  [/^layerfs\.import\./, "importAgain"],
  [/^layerfs\.compact\./, "compact"],
  [/^layerfs\.bundle\./, "bundle"],
  [/^layerfs\.materialise\./, "exportDirectory"],
  [/^layerfs\.patch\./, "patch"],
  [/^(?:layerfs|refs)\./, "splice"],
  [/^(?:layers|workspace)\./, "exec"],
  [/^recovery\./, "recover"]
]
const callOf = (point: string): string | undefined => passedBy.find(([family]) => family.test(point))?.[1]
const points = Object.keys(crashPoints).filter((name) => callOf(name) !== undefined)
const pointsOf = (commands: boolean): readonly string[] =>
  commands ? points : points.filter((name) => /^(?:layerfs|refs)\./.test(name))

export interface SoakGround {
  /** The program that is killed, as one file. */
  readonly victim: string
  readonly directory: string
  readonly source: string
  readonly out: string
  readonly commands: boolean
  readonly branches: readonly {
    readonly id: string
    head: string
    /** Calls under way when a process was killed, by operation id. */
    readonly open: Map<string, { readonly name: string; mayHaveMoved: boolean }>
  }[]
  /** Everything that was acknowledged, by operation id; `isNew` until it was looked at once. */
  readonly told: Map<string, SoakLine & { readonly of: string; isNew: boolean }>
  /** Commits that somebody asked for. */
  readonly commits: Set<string>
  /** Branches that were acknowledged, and calls that may have made one without an answer. */
  readonly forks: { told: number; unanswered: number }
}

const withStore = <A>(store: string, use: (fs: WorkspaceProvider) => Promise<A>): Promise<A> =>
  run(Effect.scoped(Effect.flatMap(openLayerFs({ store }), (fs) => Effect.promise(() => use(fs)))))

/** A store with three branches of an imported directory, below `place`. */
export const soakGround = (place: string, victim: string, commands: boolean): Promise<SoakGround> => {
  const [directory, source, out] = [join(place, "store"), join(place, "source"), join(place, "out")]
  for (const made of [source, out, join(source, "part-0")]) mkdirSync(made, { recursive: true })
  for (let n = 0; n < 25; n += 1) writeFileSync(join(source, "part-0", `file-${n}`), `${n} `.repeat(50 + n * 20))
  return withStore(directory, async (fs) => {
    const { layer, commit } = await run(fs.importDirectory({ source }))
    const forks = [layer, layer, layer].map((from, n) => run(fs.fork(from, { name: `writer-${n}` })))
    const branches = (await Promise.all(forks)).map(({ id, head }) => ({ id, head, open: new Map() }))
    const forked = { told: forks.length, unanswered: 0 }
    return {
      victim,
      directory,
      source,
      out,
      commands,
      branches,
      told: new Map(),
      commits: new Set([commit]),
      forks: forked
    }
  })
}

interface Killed {
  readonly branch: number
  readonly lines: readonly SoakLine[]
  /** At the crash point that was asked for, or at a moment; undefined when it ended otherwise, which is a fault. */
  readonly killed: "point" | "moment" | undefined
  readonly fault: string | undefined
}

/** Kills after so many answers and a moment more, or where a crash point says; a point that is not passed in time ends likewise. */
const oneProcess = (
  ground: SoakGround,
  branch: number,
  label: string,
  random: (below: number) => number
): Promise<Killed> => {
  const all = pointsOf(ground.commands)
  const point = random(5) < 3 ? all[random(all.length)]! : undefined
  const passage = 1 + random(2)
  const lines: SoakLine[] = []
  const saidBefore = point === undefined ? random(14) : 12 + random(12)
  const more = random(20)
  const commands = ground.commands ? "yes" : "no"
  const { victim, directory, source, out } = ground
  const told = [String(1 + random(1_000_000)), label, commands, point === undefined ? "" : callOf(point)!]
  return new Promise((resolve, reject) => {
    const running = spawn(process.execPath, [victim, directory, ground.branches[branch]!.id, source, out, ...told], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...(point === undefined ? {} : { COPPICE_CRASH_AT: `${point}:${passage}` }) }
    })
    let errors = ""
    let timer: NodeJS.Timeout | undefined
    let isOurs = false
    const kill = (): void => {
      isOurs = running.kill("SIGKILL")
    }
    running.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors = (errors + text).slice(-2000)
    })
    createInterface({ input: running.stdout }).on("line", (line) => {
      lines.push(JSON.parse(line) as SoakLine)
      if (lines.length > saidBefore) timer ??= setTimeout(kill, more)
    })
    running.on("error", reject)
    running.on("close", (code, signal) => {
      clearTimeout(timer)
      const killed = signal !== "SIGKILL" ? undefined : isOurs ? "moment" : "point"
      const fault = killed === undefined ? `${label} ended with ${String(code ?? signal)}: ${errors}` : undefined
      resolve({ branch, lines, killed, fault })
    })
  })
}

const movesNoHead: readonly string[] = [
  "fork",
  "importAgain",
  "recover",
  "pin",
  "compact",
  "bundle",
  "patch",
  "exportDirectory"
]

/** Takes over what one process said; a repeated fork and a repeated import must come to the same. */
const takeOver = (ground: SoakGround, { branch, lines }: Killed): void => {
  const own = ground.branches[branch]!
  for (const line of lines) {
    if (line.operationId === undefined) continue
    if (line.starts !== undefined) {
      own.open.set(line.operationId, { name: line.starts, mayHaveMoved: !movesNoHead.includes(line.starts) })
      continue
    }
    own.open.delete(line.operationId)
    // A typed error has done nothing.
    if (line.error !== undefined) continue
    ground.told.set(line.operationId, { ...line, of: own.id, isNew: true })
    if (line.commit !== undefined) ground.commits.add(line.commit)
    if (line.branch !== undefined || line.recovered !== undefined) ground.forks.told += 1
    if (line.head === undefined) continue
    own.head = line.head
    for (const earlier of own.open.values()) earlier.mayHaveMoved = false
  }
}

/** Calls under way when a process was killed are whole or absent; and the head stands where one of them or the last answer left it. */
const settle = async (fs: WorkspaceProvider, ground: SoakGround): Promise<string[]> => {
  const faults: string[] = []
  for (const branch of ground.branches) {
    const { head } = await run(fs.branch(branch.id))
    let isExplained = head === branch.head
    for (const [operation, { name, mayHaveMoved }] of branch.open) {
      const found = await run(fs.findOperation(operation))
      if (found.state === "recorded") {
        ground.commits.add(found.commit)
        isExplained ||= found.commit === head && mayHaveMoved
      }
      if (name === "fork" || name === "recover") ground.forks.unanswered += 1
    }
    if (!isExplained) faults.push(`the head ${head} was never acknowledged; ${branch.head} was`)
    branch.head = head
    branch.open.clear()
  }
  return faults
}

/** Every operation of which somebody was told; its file where it is new, and one in `every` of the old ones. */
const recheck = async (fs: WorkspaceProvider, ground: SoakGround, every: number, random: (below: number) => number) => {
  const faults: string[] = []
  for (const [operation, line] of ground.told) {
    const { recorded, commit, path, digest, branch, root } = line
    if (recorded !== undefined) {
      const found = await run(fs.findOperation(operation))
      if (found.state === "absent" || found.commit !== recorded) faults.push(`${operation}: answered otherwise now`)
    }
    const isRead = line.isNew || random(every) === 0
    line.isNew = false
    if (!isRead || commit === undefined) continue
    if (branch !== undefined) {
      const again = await run(fs.fork(line.of, { operationId: operation }))
      if (again.id !== branch) faults.push(`${operation}: a repeated fork is another branch`)
    }
    const known = await run(fs.commit(commit).pipe(Effect.orElseSucceed(() => undefined)))
    if (known === undefined) faults.push(`${operation}: the commit ${commit} is lost`)
    else if (root !== undefined && known.root !== root) faults.push(`${operation}: an import has another root`)
    if (path === undefined) continue
    const bytes = await run(fs.readAt(commit, path).pipe(Effect.orElseSucceed(() => undefined)))
    if (bytes === undefined || sha256(bytes) !== digest) faults.push(`${operation}: ${path} of ${commit} differs`)
  }
  return faults
}

/** All is read back, and what the store counts is what was asked for. */
const account = async (fs: WorkspaceProvider, ground: SoakGround): Promise<string[]> => {
  const verified = await run(fs.verify())
  const stats = await run(fs.stats)
  const { told, unanswered } = ground.forks
  const wrong: readonly (readonly [boolean, string])[] = [
    [verified.ok, `damaged: ${JSON.stringify([verified.damaged, verified.index])}`],
    [stats.objects === verified.objects, `${stats.objects} objects are counted, ${verified.objects} were read`],
    [stats.freeBytes === verified.unreferencedBytes, "stats and verify differ about free bytes"],
    [stats.commits === ground.commits.size, `${stats.commits} commits, ${ground.commits.size} were asked for`],
    [
      stats.branches >= told && stats.branches <= told + unanswered,
      `${stats.branches} branches, ${told} were acknowledged and ${unanswered} asked for`
    ]
  ]
  return wrong.flatMap(([holds, fault]) => (holds ? [] : [fault]))
}

export interface SoakRound {
  readonly kills: { readonly point: number; readonly moment: number }
  readonly faults: readonly string[]
}

/** One round: processes at once or one after the other, each killed; then the store is opened and compared with what was told. */
export const soakRound = async (
  ground: SoakGround,
  round: number,
  random: (below: number) => number,
  every: number
): Promise<SoakRound> => {
  const ended: Killed[] = []
  const start = (branch: number, nth: number) => oneProcess(ground, branch, `r${round}p${nth}`, random)
  const first = random(3)
  const shape = random(3)
  if (shape === 0) {
    // Two or three at once, each on a branch of its own.
    const branches = [first, (first + 1) % 3, (first + 2) % 3].slice(0, 2 + random(2))
    ended.push(...(await Promise.all(branches.map(start))))
  } else {
    ended.push(await start(first, 0))
    // A second one opens what the first left, before anybody else does.
    if (shape === 1) ended.push(await start(random(3), 1))
  }
  const faults = ended.flatMap(({ fault }) => fault ?? [])
  for (const one of ended) takeOver(ground, one)
  await withStore(ground.directory, async (fs) => {
    for (const left of await run(fs.left)) await run(fs.discardLeft(left.id, "soak"))
    faults.push(...(await settle(fs, ground)))
    faults.push(...(await recheck(fs, ground, every, random)))
    faults.push(...(await account(fs, ground)))
  })
  faults.push(...leftOnDisk(openStoreDirectories(ground.directory)))
  for (const name of readdirSync(ground.out)) rmSync(join(ground.out, name), { recursive: true, force: true })
  const count = (how: "point" | "moment"): number => ended.filter(({ killed }) => killed === how).length
  return { kills: { point: count("point"), moment: count("moment") }, faults }
}
