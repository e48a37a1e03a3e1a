/**
 * The rows of single calls: `fork`, `commit.empty`, `commit.10of100k`, `diff.neighbours.100k`, `lookup.depth`, `restore.one`,
 * `restore.10k`, `verify`, `splice.4k`, `splice.bytes`.
 * Promise: each call alternates with its yardstick; what a call made is read back before its time counts. Rules: 04 "Numbers"; L1, L3, L10.
 */
import { createCipheriv, createHash } from "node:crypto"
import { closeSync, openSync, readFileSync, writeSync } from "node:fs"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { FileOperation, WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { cachedTree } from "./cached-tree.ts"
import { census, differences } from "./compare.ts"
import { manyFiles } from "./layerfs-import.ts"
import { commitName, type LayerFsBench, storedBytes } from "./layerfs-scene.ts"
import { bareCommit, command, interleave, timed } from "./measure.ts"
import { filesOf, forkOf, withStore } from "./provider.ts"
import { figures, rate, type Row } from "./report.ts"
import { fullSize, Random } from "./tree.ts"
import { verdict } from "./workspace.ts"

const run = Effect.runPromise
const noted = (...parts: readonly string[]): string => parts.filter((part) => part !== "").join("; ")

/** Calls in turn with a bare commit; the first ones warm up and do not count. */
const besideCommits = async (
  bench: LayerFsBench,
  rounds: number,
  call: (round: number) => Promise<number>
): Promise<{ readonly ours: readonly number[]; readonly bare: readonly number[] }> => {
  const yardstick = bareCommit(bench.scratch)
  const [ours, bare] = [[] as number[], [] as number[]]
  try {
    for (let round = -5; round < rounds; round++) {
      const commit = yardstick.commit()
      const ms = await call(round + 5)
      if (round < 0) continue
      ours.push(ms)
      bare.push(commit)
    }
  } finally {
    yardstick.close()
  }
  return { ours, bare }
}

const difference = (ours: readonly number[], bare: readonly number[]): string =>
  `p50 difference ${(figures(ours).p50 - figures(bare).p50).toFixed(3)} ms, interleaved`

const row = (
  id: string,
  { ours, bare }: { readonly ours: readonly number[]; readonly bare: readonly number[] },
  faults: Iterable<string>,
  note: string
): Row => {
  const judged = verdict(faults)
  return {
    id,
    unit: "ms",
    ours: figures(ours),
    yardstick: { name: commitName, ...figures(bare) },
    peers: {},
    correct: judged.correct,
    note: noted(note, difference(ours, bare), judged.note)
  }
}

/** Rows on a tree of 100,000 files. */
export const manyCallRows = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const { scratch, delay } = bench
  const store = join(scratch, "calls-store")
  const rows: Row[] = []
  await withStore(store, async (provider) => {
    const base = await run(provider.importDirectory({ source: manyFiles(bench) }))
    const size = `${base.files} files`

    const forks = new Set<string>()
    const forked = await besideCommits(bench, 200, async () => {
      const [ms, made] = await delay.timed(provider.fork(base.commit))
      if (made.head === base.commit) forks.add(made.id)
      return ms
    })
    rows.push(row("fork", forked, forks.size === 205 ? [] : ["a fork stands elsewhere, or two share an id"], size))

    const branch = await forkOf(provider, base.commit)
    const all = await filesOf(provider, base.commit, base.files)
    const known = all[Math.floor(all.length / 2)] as string
    const bytes = await run(provider.readAt(base.commit, known))
    const emptyFaults = new Set<string>()
    const empty = await besideCommits(bench, 40, async () => {
      const [ms, outcome] = await delay.timed(provider.applyTo(branch, [{ op: "write", path: known, bytes }]))
      if (outcome.outcome !== "unchanged") emptyFaults.add("writing the same bytes made a commit")
      return ms
    })
    rows.push(row("commit.empty", empty, emptyFaults, `the bytes of one file written once more; ${size}`))

    const pairs: (readonly [string, string, readonly string[]])[] = []
    const tenFaults = new Set<string>()
    let head = base.commit
    const ten = await besideCommits(bench, 30, async (round) => {
      const paths = Array.from({ length: 10 }, (_, i) => all[(round * 10_007 + i * 9973) % all.length] as string)
      const operations = paths.map(
        (path): FileOperation => ({ op: "write", path, bytes: `edit ${round} of ${path}\n` })
      )
      const [ms, outcome] = await delay.timed(provider.applyTo(branch, operations))
      for (const path of paths) {
        const read = Buffer.from(await run(provider.readAt(outcome.commit, path))).toString()
        if (read !== `edit ${round} of ${path}\n`) tenFaults.add("an edit reads back differently")
      }
      pairs.push([head, outcome.commit, paths])
      head = outcome.commit
      return ms
    })
    rows.push(row("commit.10of100k", ten, tenFaults, `ten files in ten places of ${size}, one commit`))

    const diffs: number[] = []
    const diffFaults = new Set<string>()
    for (const [from, to, paths] of pairs) {
      const [ms, page] = await delay.timed(provider.diff(from, to))
      const changed = page.changes.map((change) => change.path).sort()
      if (changed.join("\n") !== [...new Set(paths)].sort().join("\n")) diffFaults.add("a diff names other files")
      diffs.push(ms)
    }
    const judged = verdict(diffFaults)
    rows.push({
      id: "diff.neighbours.100k",
      unit: "ms",
      ours: figures(diffs),
      yardstick: null,
      peers: {},
      correct: judged.correct,
      note: noted(`two neighbouring commits of ${size} that differ in ten`, judged.note)
    })
  })
  await rm(store, { recursive: true })
  return rows
}

/** A chain of 10,000 commits; each lookup is of a file that an older state put there. */
export const lookupRow = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const store = join(bench.scratch, "depth-store")
  const depth = 10_000
  const [deep, shallow] = [[] as number[], [] as number[]]
  const faults = new Set<string>()
  await withStore(store, async (provider) => {
    const { layer } = await run(provider.createEmpty({ name: "depth" }))
    const branch = await forkOf(provider, layer)
    const heads: string[] = []
    for (let n = 0; n < depth; n++) {
      const operation = { op: "write" as const, path: `part-${n % 50}/file-${n % 997}`, bytes: `content ${n}\n` }
      heads.push((await run(provider.applyTo(branch, [operation]))).commit)
    }
    for (let round = 0; round < 100; round++) {
      for (const [at, into] of [
        [10, shallow],
        [depth - 1, deep]
      ] as const) {
        const path = `part-${round % 10}/file-${round % 10}`
        const [ms, read] = await bench.delay.timed(provider.readAt(heads[at] as string, path))
        if (!/^content \d+\n$/.test(Buffer.from(read).toString())) faults.add("a lookup gives another file")
        into.push(ms)
      }
    }
  })
  await rm(store, { recursive: true })
  const judged = verdict(faults)
  return [
    {
      id: "lookup.depth",
      unit: "ms",
      ours: figures(deep),
      yardstick: { name: "at depth 10", ...figures(shallow) },
      peers: {},
      correct: judged.correct,
      note: noted(`a file read at commit ${depth} of a chain, and at its tenth, in turn`, judged.note)
    }
  ]
}

export const restoreRows = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const { options, scratch, delay } = bench
  const share = options.files / fullSize.files
  const tree = { seed: options.seed, files: Math.max(20, Math.round(10_000 * share)), bytes: Math.round(190e6 * share) }
  const source = cachedTree(options.root, tree, options.progress)
  const store = join(scratch, "restore-store")
  const archive = join(scratch, "restore.tar")
  await command(["tar", "-cf", archive, "."], source)
  const faults = new Set<string>()
  const [ours, untar, one] = [[] as number[], [] as number[], [] as number[]]
  // All stay until the end: ext4 without a journal looks in vain, file by file, at every inode that was given back in the last minutes.
  const restored = join(scratch, "restored")
  await mkdir(restored)
  await withStore(store, async (provider) => {
    const base = await run(provider.importDirectory({ source }))
    await interleave(options.runs, [
      async (round) => {
        const target = join(restored, `ours-${round}`)
        await command(["sync"])
        const [ms] = await delay.timed(provider.exportDirectory(base.commit, target))
        ours.push(ms / 1000)
        if (round === 0) for (const found of differences(source, target)) faults.add(found)
      },
      async (round) => {
        const target = join(restored, `untar-${round}`)
        await mkdir(target)
        await command(["sync"])
        const [ms] = await timed(() => command(["tar", "-xf", archive, "-C", target]))
        untar.push(ms / 1000)
      }
    ])
    await rm(restored, { recursive: true })
    const files = await filesOf(provider, base.commit, base.files)
    for (let n = 0; n < 200; n++) {
      const path = files[(n * 7919) % files.length] as string
      const [ms, read] = await delay.timed(provider.readAt(base.commit, path))
      if (!readFileSync(join(source, path)).equals(read)) faults.add("a restored file differs")
      one.push(ms)
    }
  })
  // Opened anew, with nothing decoded yet.
  const seconds: number[] = []
  const cpu: number[] = []
  let bytes = 0
  for (let round = 0; round < options.runs; round++) {
    await withStore(store, async (provider) => {
      const before = process.cpuUsage()
      const [ms, report] = await delay.timed(provider.verify())
      const used = process.cpuUsage(before)
      if (!report.ok) faults.add("verify finds damage")
      seconds.push(ms / 1000)
      cpu.push((used.user + used.system) / 1e6)
      bytes = census(source).bytes
    })
  }
  await rm(store, { recursive: true })
  await rm(archive)
  const judged = verdict(faults)
  const of = `${tree.files} files, ${(tree.bytes / 1e6).toFixed(0)} MB`
  return [
    {
      id: "restore.one",
      unit: "ms",
      ours: figures(one),
      yardstick: null,
      peers: {},
      correct: judged.correct,
      note: noted(`one file anywhere in ${of}`, judged.note)
    },
    {
      id: "restore.10k",
      unit: "s",
      ours: figures(ours),
      yardstick: { name: "tar -xf, not compressed", ...figures(untar) },
      peers: {},
      correct: judged.correct,
      note: noted(of, judged.note)
    },
    {
      id: "verify",
      unit: "s",
      ours: rate(cpu, bytes / 1e6),
      yardstick: { name: "the same by the clock", ...rate(seconds, bytes / 1e6) },
      peers: {},
      correct: judged.correct,
      note: noted(
        `processor seconds of the whole process; perSecond counts MB of content a core; ${of}, each counted once`,
        judged.note
      )
    }
  ]
}

const kinds = ["overwrite", "insert", "delete", "append", "prepend"] as const
const mebibyte = 1024 * 1024

/** Sizes in MiB; a smaller bench takes smaller ones, each once. */
const scaled = (sizes: readonly number[], share: number): ReadonlySet<number> =>
  new Set(sizes.map((size) => Math.max(1, Math.round(size * Math.min(1, share)))))

const spliceOf = (kind: (typeof kinds)[number], size: number, at: number, bytes: Buffer) => {
  const offset = { overwrite: at, insert: at, delete: at, append: size, prepend: 0 }[kind]
  const deleteCount = kind === "overwrite" || kind === "delete" ? bytes.length : 0
  return {
    op: "splice" as const,
    path: "file",
    offset,
    deleteCount,
    bytes: kind === "delete" ? Buffer.alloc(0) : bytes
  }
}

/** A file of random bytes below a directory of its own, written piece by piece. */
const randomFile = async (directory: string, mebibytes: number, seed: number): Promise<string> => {
  await mkdir(directory, { recursive: true })
  const random = new Random(seed)
  const fd = openSync(join(directory, "file"), "w")
  for (let n = 0; n < mebibytes; n++) {
    const piece = createHash("sha256").update(String(random.next())).digest()
    writeSync(fd, createCipheriv("aes-256-ctr", piece, Buffer.alloc(16)).update(Buffer.alloc(mebibyte)))
  }
  closeSync(fd)
  return directory
}

const withFile = async <A>(
  bench: LayerFsBench,
  mebibytes: number,
  use: (provider: WorkspaceProvider, branch: () => Promise<string>, store: string) => Promise<A>
): Promise<A> => {
  const source = await randomFile(join(bench.scratch, "splice-source"), mebibytes, bench.options.seed)
  const store = join(bench.scratch, "splice-store")
  try {
    return await withStore(store, async (provider) => {
      const base = await run(provider.importDirectory({ source }))
      return use(provider, () => forkOf(provider, base.commit), store)
    })
  } finally {
    for (const directory of [store, source]) await rm(directory, { recursive: true })
  }
}

/** A splice is right when the bytes around its place are what they must be. */
const isSpliced = async (
  provider: WorkspaceProvider,
  before: string,
  after: string,
  { offset, deleteCount, bytes }: ReturnType<typeof spliceOf>
): Promise<boolean> => {
  const read = async (ref: string, at: number, length: number) =>
    Buffer.from(await run(provider.readAt(ref, "file", { offset: Math.max(0, at), length })))
  const back = Math.min(offset, 100)
  const head = await read(before, offset - back, back)
  const tail = await read(before, offset + deleteCount, 100)
  const all = await read(after, offset - back, back + bytes.length + 100)
  return all.equals(Buffer.concat([head, bytes, tail]))
}

export const spliceRows = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const rows: Row[] = []
  const share = bench.options.files / fullSize.files
  for (const size of scaled([1, 10, 100, 500], share)) {
    await withFile(bench, size, async (provider, fork) => {
      for (const kind of kinds) {
        const branch = await fork()
        const faults = new Set<string>()
        let head = (await run(provider.branch(branch))).head
        const random = new Random(size)
        const took = await besideCommits(bench, 20, async () => {
          const { size: length } = await run(provider.statAt(head, "file"))
          const bytes = Buffer.from(Array.from({ length: 4096 }, () => random.below(256)))
          const splice = spliceOf(kind, length, random.below(length - 8192), bytes)
          const [ms, outcome] = await bench.delay.timed(provider.applyTo(branch, [splice]))
          if (!(await isSpliced(provider, head, outcome.commit, splice))) faults.add("other bytes around the splice")
          head = outcome.commit
          return ms
        })
        rows.push(row(`splice.4k.${kind}.${size}`, took, faults, `4 KiB, ${size} MiB of random bytes, with its commit`))
      }
    })
  }
  return rows
}

export const spliceBytesRows = async (bench: LayerFsBench): Promise<readonly Row[]> => {
  const rows: Row[] = []
  const share = bench.options.files / fullSize.files
  const packs = (store: string): number => storedBytes(store).packs
  for (const size of scaled([32, 500], share)) {
    await withFile(bench, size, async (provider, fork, store) => {
      const random = new Random(size)
      const measure = async (
        name: string,
        edit: number,
        make: (length: number) => readonly ReturnType<typeof spliceOf>[]
      ) => {
        const samples: number[] = []
        const faults = new Set<string>()
        for (let round = 0; round < 5; round++) {
          const branch = await fork()
          const { size: length } = await run(provider.statAt(branch, "file"))
          const base = (await run(provider.branch(branch))).head
          const before = packs(store)
          const splices = make(length)
          const [, { commit }] = await bench.delay.timed(provider.applyTo(branch, splices))
          samples.push(packs(store) - before)
          // Several edits of one batch may lie beside one another: of those only the bytes themselves are looked at.
          for (const splice of splices) {
            const range = { offset: splice.offset, length: splice.bytes.length }
            const isRight =
              splices.length === 1
                ? await isSpliced(provider, base, commit, splice)
                : splice.bytes.equals(await run(provider.readAt(commit, "file", range)))
            if (!isRight) faults.add("other bytes at the splice")
          }
        }
        rows.push({
          id: `splice.bytes.${name}.${size}`,
          unit: "bytes",
          ours: figures(samples),
          yardstick: { name: "the edit itself", ...figures([edit]) },
          peers: {},
          correct: faults.size === 0,
          note: noted(`new bytes in packs; ${size} MiB of random bytes`, ...faults)
        })
      }
      const noise = (length: number): Buffer => Buffer.from(Array.from({ length }, () => random.below(256)))
      await measure("append10", 10, (length) => [spliceOf("append", length, 0, noise(10))])
      for (const kind of ["overwrite", "insert", "prepend"] as const) {
        await measure(`${kind}4k`, 4096, (length) => [spliceOf(kind, length, random.below(length - 8192), noise(4096))])
      }
      await measure("scattered16", 160, (length) =>
        Array.from({ length: 16 }, () => spliceOf("overwrite", length, random.below(length - 100), noise(10)))
      )
    })
  }
  return rows
}
