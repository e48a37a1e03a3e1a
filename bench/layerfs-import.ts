/**
 * The rows of imports: `import.21k`, `import.bytes`, `import.again`, `import.100k`, `import.100k.memory`.
 * Promise: ours includes its fsyncs; every round's receipt is compared with the source, and one export with every byte of it.
 * Rules: workspaces.md, "Figures"; W13, L8; 04 "Numbers".
 */
import { statSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { cachedTree } from "./cached-tree.ts"
import { census, differences } from "./compare.ts"
import { type LayerFsBench, storedBytes } from "./layerfs-scene.ts"
import { command, interleave } from "./measure.ts"
import { peersOf } from "./peers.ts"
import { withStore } from "./provider.ts"
import { figures, rate, type Row } from "./report.ts"
import { fullSize } from "./tree.ts"
import { verdict } from "./workspace.ts"

const sentence = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("; ")

/** A tree of the area: what --tree names, or a generated one that is kept. */
export const treeOf = ({ options }: LayerFsBench): string =>
  options.tree ?? cachedTree(options.root, options, options.progress)

const git = (repository: string, source: string): readonly [string, string, string] => [
  "git",
  `--git-dir=${repository}`,
  `--work-tree=${source}`
]

export const importRows = async (
  bench: LayerFsBench
): Promise<{ readonly rows: readonly Row[]; readonly missing: readonly string[] }> => {
  const { options, scratch, delay } = bench
  const source = treeOf(bench)
  const expected = census(source)
  const [first, again] = [[] as number[], [] as number[]]
  const gitSeconds = { first: [] as number[], again: [] as number[] }
  const bytes: number[] = []
  const faults = new Set<string>()
  let gitBytes = 0

  const ours = async (round: number): Promise<void> => {
    const store = join(scratch, "import-store")
    await withStore(store, async (provider) => {
      await command(["sync"])
      const [ms, receipt] = await delay.timed(provider.importDirectory({ source }))
      first.push(ms / 1000)
      if (
        receipt.files !== expected.files ||
        receipt.symlinks !== expected.symlinks ||
        receipt.bytes !== expected.bytes
      )
        faults.add("the receipt does not count what lies in the source")
      if (round === 0) {
        const exported = join(scratch, "exported")
        await Effect.runPromise(provider.exportDirectory(receipt.commit, exported))
        for (const difference of differences(source, exported)) faults.add(difference)
        await rm(exported, { recursive: true })
      }
    })
    bytes.push(storedBytes(store).all)
    await withStore(store, async (provider) => {
      const before = (await Effect.runPromise(provider.stats)).objects
      const [ms, receipt] = await delay.timed(provider.importDirectory({ source }))
      again.push(ms / 1000)
      const after = (await Effect.runPromise(provider.stats)).objects
      if (receipt.files !== expected.files || receipt.bytes !== expected.bytes || after !== before)
        faults.add("the second import differs from the first or stored something")
    })
    await rm(store, { recursive: true })
  }
  const byGit = async (): Promise<void> => {
    const repository = join(scratch, "git")
    const at = git(repository, source)
    await command(["git", "init", "-q", "--bare", repository])
    await command(["sync"])
    const add = async (): Promise<number> => {
      const from = process.hrtime.bigint()
      await command([...at, "add", "-A", "-f", "."], source)
      return Number(process.hrtime.bigint() - from) / 1e9
    }
    gitSeconds.first.push(await add())
    gitSeconds.again.push(await add())
    const listed = (await command([...at, "ls-files", "-z"], source)).split("\0").length - 1
    if (listed !== expected.files + expected.symlinks) faults.add("git did not store the whole tree")
    gitBytes = census(repository).bytes
    await rm(repository, { recursive: true })
  }
  const others = await peersOf(source, scratch, options.seed)
  await interleave(options.runs, [ours, byGit, ...others.runs.map(({ round }) => round)])
  const archive = join(scratch, "tree.tar.zst")
  await command(["tar", "--use-compress-program=zstd -q -3", "-cf", archive, "."], source)
  const tarBytes = statSync(archive).size
  await rm(archive)

  const judged = verdict(faults)
  const size = `${expected.files} files, ${(expected.bytes / 1e6).toFixed(0)} MB`
  return {
    missing: others.missing,
    rows: [
      {
        id: "import.21k",
        unit: "s",
        ours: rate(first, expected.files),
        yardstick: { name: "git add -A", ...rate(gitSeconds.first, expected.files) },
        peers: Object.fromEntries(
          others.runs.filter(({ seconds }) => seconds.length > 0).map((peer) => [peer.name, figures(peer.seconds)])
        ),
        correct: judged.correct,
        note: sentence(
          `${size}, warm page cache; ours includes its fsyncs, git's default has none; perSecond counts files`,
          judged.note
        )
      },
      {
        id: "import.again",
        unit: "s",
        ours: rate(again, expected.files),
        yardstick: { name: "git add -A again", ...rate(gitSeconds.again, expected.files) },
        peers: {},
        correct: judged.correct,
        note: sentence("the same unchanged source once more into the same store, opened anew", judged.note)
      },
      {
        id: "import.bytes",
        unit: "bytes",
        ours: figures(bytes),
        yardstick: { name: "tar | zstd -3", ...figures([tarBytes]) },
        peers: { "git objects after git add -A": figures([gitBytes]) },
        correct: judged.correct,
        note: `packs and index, apparent sizes; ${(expected.bytes / 1e6).toFixed(0)} MB logical`
      }
    ]
  }
}

interface Child {
  readonly files: number
  readonly bytes: number
  readonly seconds: number
  readonly peakBytes: number
  readonly delayP99Ms: number
}

/** 100,000 files and 500 MB at full size; a smaller bench takes as much less. */
export const manyFiles = ({ options }: LayerFsBench): string => {
  const share = options.files / fullSize.files
  const files = Math.max(20, Math.round(100_000 * share))
  const bytes = Math.max(1e6, Math.round(500e6 * share))
  return cachedTree(options.root, { seed: options.seed, files, bytes }, options.progress)
}

export const manyFilesRows = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const { options, scratch } = bench
  const source = manyFiles(bench)
  const expected = census(source)
  const program = join(options.root, "bench", "import-child.ts")
  const child = async (...args: readonly string[]): Promise<Child> =>
    JSON.parse(await command([process.execPath, program, ...args])) as Child
  const empty = await child(join(scratch, "many-empty"))
  const told: Child[] = []
  const faults = new Set<string>()
  for (let round = 0; round < options.runs; round++) {
    const store = join(scratch, "many-store")
    await command(["sync"])
    const one = await child(store, source)
    told.push(one)
    if (one.files !== expected.files || one.bytes !== expected.bytes)
      faults.add("the import did not store the whole tree")
    await rm(store, { recursive: true })
  }
  await rm(join(scratch, "many-empty"), { recursive: true })
  const judged = verdict(faults)
  const size = `${expected.files} files, ${(expected.bytes / 1e6).toFixed(0)} MB, in a process of its own`
  const delay = Math.max(...told.map((one) => one.delayP99Ms))
  return [
    {
      id: "import.100k",
      unit: "s",
      ours: rate(
        told.map((one) => one.seconds),
        expected.files
      ),
      yardstick: null,
      peers: {},
      correct: judged.correct,
      note: sentence(`${size}; p99 of the delay of its main thread ${delay.toFixed(1)} ms at most`, judged.note)
    },
    {
      id: "import.100k.memory",
      unit: "bytes",
      ours: figures(told.map((one) => one.peakBytes)),
      yardstick: { name: "a process that opens an empty store", ...figures([empty.peakBytes]) },
      peers: {},
      correct: judged.correct,
      note: sentence(`${size}; resident memory at its peak (VmHWM), workers included`, judged.note)
    }
  ]
}
