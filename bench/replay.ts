/**
 * The rows `replay.*`: one scripted sequence of file, build and test steps over each provider, with several workers and branches.
 * Promise: every provider ends with the same trees, checked by their digests; what a row survives is told with it, and a provider is held
 * against another only where both survive the same; cells that are not run are listed before the first one is. Rules: E19, L8, W6.
 */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openGitWorktree } from "../providers/git-worktree/index.ts"
import { openLayerFs } from "../providers/layerfs/index.ts"
import { openReflink } from "../providers/reflink/index.ts"
import { sha256 } from "../src/base/Digest.ts"
import type { Workspace, WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { lackOf, loopImage } from "../test/reflink/loopImage.ts"
import { ByHand } from "./by-hand.ts"
import type { BenchOptions } from "./main.ts"
import { command, timed } from "./measure.ts"
import { forkOf, openWorkspace, withProvider } from "./provider.ts"
import { figures, type Row, rowLine, type Skipped } from "./report.ts"
import { fullSize, generateTree } from "./tree.ts"
import { joined, verdict } from "./workspace.ts"

/** `byHand` is no provider: plain git, against which the providers are held. */
const grounds = ["byHand", "worktree", "layerfs", "reflink"] as const
type Ground = (typeof grounds)[number]

interface Cell {
  readonly workers: number
  readonly branches: number
}

const cells: readonly Cell[] = [1, 3, 8].flatMap((workers) => [1, 4, 16].map((branches) => ({ workers, branches })))
const isRun = ({ workers, branches }: Cell): boolean => workers <= branches
const nameOf = ({ workers, branches }: Cell, ground: Ground): string => `replay.w${workers}.b${branches}.${ground}`

export const replayIds: readonly string[] = cells.flatMap((cell) => grounds.map((ground) => nameOf(cell, ground)))

/** What every branch of a run must come to, by its number. */
type Ends = Map<number, string>

const run = async (workspace: Workspace, text: string): Promise<void> => {
  const { exitCode, stderr } = await Effect.runPromise(workspace.exec(text))
  if (exitCode !== 0) throw new Error(`a step ended with ${exitCode}: ${stderr.text.split("\n", 1)[0]}`)
}

/** What a round writes. */
const writesOf = (number: number, round: number): ReadonlyMap<string, string> =>
  new Map([0, 1, 2].map((file) => [`work/src/f${file}.txt`, `branch ${number} round ${round} file ${file}\n`]))

const digestOf = async (provider: WorkspaceProvider, ref: string): Promise<string> => {
  const environment = sha256("bench")
  const { treeDigest, profile } = await Effect.runPromise(provider.candidate(ref, { environment, parent: null }))
  return `${profile} ${treeDigest}`
}

/** Files are edited, built and tested, kept; one more round upon that; the end is a candidate. */
const attempt = async (provider: WorkspaceProvider, commit: string, number: number): Promise<string> => {
  const branch = await forkOf(provider, commit)
  const { workspace, close } = await openWorkspace(provider, branch)
  try {
    for (const round of [1, 2]) {
      for (const [path, text] of writesOf(number, round)) await Effect.runPromise(workspace.write(path, text))
      await run(workspace, "sh work/build.sh")
      await run(workspace, "sh work/test.sh")
      const saved = await Effect.runPromise(workspace.checkpoint({ message: `round ${round}` }))
      if (saved.outcome !== "committed") throw new Error(`round ${round} came to ${saved.outcome}`)
    }
  } finally {
    await close()
  }
  return digestOf(provider, branch)
}

/** Compiles each source to a file of its digests, and links them; both keep what they made beside the sources. */
const build = `set -e
mkdir -p work/out
for f in work/src/*.txt; do sha256sum < "$f" > "work/out/$(basename "$f").o"; done
cat work/out/*.o > work/out/all
`
const test = `set -e
for f in work/src/*.txt; do grep -q "$(sha256sum < "$f" | cut -c 1-64)" work/out/all; done
`

/** Of 2,000 files, 40 MB, unless another size was asked for: a run of all cells makes nearly 1,200 workspaces. */
const sizeOf = ({ seed, files, bytes }: BenchOptions) =>
  files === fullSize.files ? { seed, files: 2000, bytes: 40e6 } : { seed, files, bytes }

const makeSource = async (target: string, options: BenchOptions): Promise<void> => {
  generateTree(target, sizeOf(options))
  mkdirSync(join(target, "work/src"), { recursive: true })
  // Git knows no empty directory.
  writeFileSync(join(target, "work/src/f0.txt"), "base\n")
  writeFileSync(join(target, "work/build.sh"), build)
  writeFileSync(join(target, "work/test.sh"), test)
  writeFileSync(join(target, ".gitignore"), "node_modules\nwork/out\n")
}

interface Open {
  readonly ground: Ground
  readonly durability: string
  /** Works on a branch of its own, and tells what it came to. */
  readonly attempt: (number: number) => Promise<string>
  /** What that stands for in all of them alike; nothing to do where `attempt` says it already. */
  readonly end?: (came: string) => Promise<string>
}

/** One run of a cell: seconds, and what its branches came to. */
const runCell = async ({ attempt, end }: Open, { workers, branches }: Cell): Promise<[seconds: number, ends: Ends]> => {
  const ends: Ends = new Map()
  let next = 0
  const worker = async (): Promise<void> => {
    for (let number = next++; number < branches; number = next++) ends.set(number, await attempt(number))
  }
  const [ms] = await timed(() => Promise.all(Array.from({ length: workers }, worker)))
  if (end !== undefined) for (const [number, came] of ends) ends.set(number, await end(came))
  return [ms / 1000, ends]
}

const sameEnds = (a: Ends, b: Ends): boolean =>
  a.size === b.size && [...a].every(([number, end]) => b.get(number) === end)

const cellRows = async (cell: Cell, opened: readonly Open[], options: BenchOptions): Promise<readonly Row[]> => {
  const samples = new Map<Ground, number[]>(opened.map(({ ground }) => [ground, []]))
  const faults = new Map<Ground, Set<string>>(opened.map(({ ground }) => [ground, new Set()]))
  let reference: Ends | undefined
  for (let round = 0; round < options.runs; round++) {
    for (const one of opened) {
      try {
        const [seconds, ends] = await runCell(one, cell)
        reference ??= ends
        if (!sameEnds(reference, ends)) faults.get(one.ground)!.add("it ended with other trees than the first provider")
        samples.get(one.ground)!.push(seconds)
      } catch (error) {
        faults.get(one.ground)!.add((error as Error).message.split("\n", 1)[0]!)
      }
    }
  }
  const base = samples.get("byHand")
  const level = opened.find(({ ground }) => ground === "byHand")?.durability
  return opened.flatMap(({ ground, durability }): Row[] => {
    const own = samples.get(ground)!
    if (own.length === 0) throw new Error(`${ground}: ${[...faults.get(ground)!][0] ?? "no run"}`)
    const isRanked = ground !== "byHand" && durability === level
    const { correct, note } = verdict(faults.get(ground)!)
    return [
      {
        id: nameOf(cell, ground),
        unit: "s",
        ours: figures(own),
        yardstick:
          isRanked && base !== undefined && base.length > 0
            ? { name: "warm worktree by hand", ...figures(base) }
            : null,
        peers: {},
        correct,
        note: joined(
          `${sizeOf(options).files} files, ${cell.workers} workers, ${cell.branches} branches, two rounds of edit, build, test and checkpoint each; durability ${durability}`,
          note
        )
      }
    ]
  })
}

/** Opens each provider on its own store and its own copy of the source, warm: one attempt has run. */
const withGrounds = async (
  options: BenchOptions,
  scratch: string,
  use: (opened: readonly Open[], missing: ReadonlyMap<Ground, string>) => Promise<void>
): Promise<void> => {
  const source = join(scratch, "replay-source")
  await makeSource(source, options)
  const repository = join(scratch, "replay-repository")
  await command(["cp", "-a", source, repository])
  const git = ["git", "-C", repository, "-c", "user.name=bench", "-c", "user.email=bench@localhost"] as const
  await command(["git", "init", "-q", repository])
  await command([...git, "add", "-A"])
  await command([...git, "commit", "-q", "-m", "base"])
  const missing = new Map<Ground, string>()
  const opened: Open[] = []
  const warm = async (ground: Ground, provider: WorkspaceProvider, from: string): Promise<void> => {
    const { commit } = await Effect.runPromise(provider.importDirectory({ source: from }))
    const own = (number: number) => attempt(provider, commit, number)
    await own(-1)
    const { durability } = await Effect.runPromise(provider.manifest)
    opened.push({ ground, durability, attempt: own })
  }
  const lack = lackOf("btrfs")
  const image = lack === null ? loopImage("btrfs", { bytes: 16 * 2 ** 30 }) : undefined
  // Also when the bench is stopped: with what is still open on it.
  const leave = () => image?.remove({ lazily: true })
  process.once("exit", leave)
  if (lack !== null) missing.set("reflink", lack)
  try {
    await withProvider(openGitWorktree({ store: join(scratch, "replay-git") }), (worktrees) =>
      withProvider(openLayerFs({ store: join(scratch, "replay-layerfs") }), async (layerfs) => {
        const byHand = new ByHand(scratch)
        await byHand.prepare(source)
        const rounds = (number: number) => [writesOf(number, 1), writesOf(number, 2)]
        await byHand.attempt(rounds(-1))
        opened.push({
          ground: "byHand",
          durability: "full",
          attempt: (number) => byHand.attempt(rounds(number)),
          end: (came) => byHand.end(came, layerfs, (ref) => digestOf(layerfs, ref))
        })
        await warm("worktree", worktrees, repository)
        await warm("layerfs", layerfs, source)
        if (image === undefined) return use(opened, missing)
        const own = join(image.path, "source")
        await command(["cp", "-a", source, own])
        await withProvider(openReflink({ store: join(image.path, "store") }), async (reflinks) => {
          await warm("reflink", reflinks, own)
          await use(opened, missing)
        })
      })
    )
  } finally {
    process.off("exit", leave)
    image?.remove()
  }
}

/** All wanted cells, and why the others are not run. */
export const replayRows = async (
  options: BenchOptions,
  scratch: string
): Promise<{ readonly rows: readonly Row[]; readonly skipped: readonly Skipped[] }> => {
  const rows: Row[] = []
  const skipped: Skipped[] = []
  const { only } = options
  const isWanted = (id: string): boolean => only === undefined || id.startsWith(only)
  const wanted = cells.filter((cell) => grounds.some((ground) => isWanted(nameOf(cell, ground))))
  const skip = (cell: Cell, ground: Ground, reason: string): void => {
    if (isWanted(nameOf(cell, ground))) skipped.push({ id: nameOf(cell, ground), reason })
  }
  for (const cell of wanted) {
    if (isRun(cell)) continue
    for (const ground of grounds) skip(cell, ground, "more workers than branches")
  }
  await withGrounds(options, scratch, async (opened, missing) => {
    for (const cell of wanted.filter(isRun)) for (const [ground, reason] of missing) skip(cell, ground, reason)
    for (const { id, reason } of skipped) options.progress(`${id} is not run: ${reason}`)
    for (const cell of wanted.filter(isRun)) {
      options.progress(`replay with ${cell.workers} workers and ${cell.branches} branches`)
      const found = await cellRows(cell, opened, options).catch((error: Error) => {
        for (const { ground } of opened) skip(cell, ground, error.message)
        return []
      })
      for (const row of found.filter(({ id }) => isWanted(id))) {
        rows.push(row)
        options.progress(rowLine(row))
      }
    }
  })
  return { rows, skipped }
}
