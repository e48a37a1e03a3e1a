/**
 * The peers of `import.seconds`: backup programs that store the same tree.
 * Promise: a peer that is not installed is named as skipped; one whose archive does not give a random file of the tree back, byte
 * for byte, gets no time. Each keeps its caches in the scratch space. Rules: workspaces.md, "Figures".
 */
import { execFile } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { mkdir, rm } from "node:fs/promises"
import { join, relative } from "node:path"
import { promisify } from "node:util"
import { command, timed } from "./measure.ts"

const bytesOf = async (argv: readonly string[], cwd: string): Promise<Buffer> => {
  const [file, ...args] = argv as [string, ...string[]]
  const options = { cwd, encoding: "buffer", maxBuffer: 1024 * 1024 * 1024 } as const
  return (await promisify(execFile)(file, args, options)).stdout
}

interface Peer {
  /** As it stands in the row, with the settings that matter. */
  readonly name: string
  readonly programs: readonly string[]
  /** Made before the clock runs. */
  readonly prepare: (place: string) => Promise<unknown>
  readonly store: (place: string, source: string) => readonly [string, ...string[]]
  /** Prints one file of what was stored. */
  readonly restore: (place: string, file: string) => readonly string[]
}

const borg = (place: string): readonly [string, ...string[]] => [
  "env",
  `BORG_BASE_DIR=${join(place, "base")}`,
  "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes",
  "borg"
]
const restic = (place: string): readonly [string, ...string[]] => [
  "env",
  "RESTIC_PASSWORD=bench",
  "restic",
  "--quiet",
  `--cache-dir=${join(place, "cache")}`,
  `--repo=${join(place, "repository")}`
]

const peers: readonly Peer[] = [
  {
    name: "borg zstd,1",
    programs: ["borg"],
    prepare: (place) => command([...borg(place), "init", "--encryption=none", join(place, "repository")]),
    store: (place) => [...borg(place), "create", "--compression=zstd,1", `${join(place, "repository")}::tree`, "."],
    restore: (place, file) => [...borg(place), "extract", "--stdout", `${join(place, "repository")}::tree`, file]
  },
  {
    name: "restic",
    programs: ["restic"],
    prepare: (place) => command([...restic(place), "init"]),
    store: (place) => [...restic(place), "backup", "."],
    restore: (place, file) => [...restic(place), "dump", "latest", `/${file}`]
  },
  {
    name: "tar+zstd -1",
    programs: ["tar", "zstd"],
    prepare: () => Promise.resolve(),
    store: (place) => ["tar", "--use-compress-program=zstd -q -1", "-cf", join(place, "tree.tar.zst"), "."],
    restore: (place, file) => [
      "tar",
      "--use-compress-program=zstd -q",
      "-xOf",
      join(place, "tree.tar.zst"),
      `./${file}`
    ]
  }
]

const isInstalled = (program: string): Promise<boolean> =>
  command(["sh", "-c", 'command -v "$1"', "sh", program]).then(
    () => true,
    () => false
  )

export interface PeerRun {
  readonly name: string
  /** One round: stores the tree afresh and checks it. Adds its time in seconds to `seconds`. */
  readonly round: () => Promise<void>
  readonly seconds: readonly number[]
}

/** The installed peers, ready to run in turn with the rest, and the others by name with what lacks. */
export const peersOf = async (
  source: string,
  scratch: string,
  seed: number
): Promise<{ readonly runs: readonly PeerRun[]; readonly missing: readonly string[] }> => {
  const files = readdirSync(source, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(source, join(entry.parentPath, entry.name)))
    .sort()
  const runs: PeerRun[] = []
  const missing: string[] = []
  for (const peer of peers) {
    const absent: string[] = []
    for (const program of peer.programs) if (!(await isInstalled(program))) absent.push(program)
    if (absent.length > 0) {
      missing.push(`peer ${peer.name}: ${absent.join(" and ")} not installed`)
      continue
    }
    const seconds: number[] = []
    let broken = false
    const attempt = async (): Promise<void> => {
      const place = join(scratch, "peer")
      await mkdir(place)
      try {
        await peer.prepare(place)
        await command(["sync"])
        const [ms] = await timed(() => command(peer.store(place, source), source))
        const file = files[(seed * 7919 + seconds.length * 104_729) % files.length] as string
        const restored = await bytesOf(peer.restore(place, file), source)
        if (!restored.equals(readFileSync(join(source, file)))) throw new Error(`${peer.name} gives other bytes back`)
        seconds.push(ms / 1000)
      } finally {
        await rm(place, { recursive: true, force: true })
      }
    }
    // What a peer cannot do here is said of it, and is no fault of ours.
    const round = async (): Promise<void> => {
      if (broken) return
      await attempt().catch((error: Error) => {
        broken = true
        seconds.length = 0
        missing.push(`peer ${peer.name}: ${error.message.split("\n", 1)[0]}`)
      })
    }
    runs.push({ name: peer.name, round, seconds })
  }
  return { runs, missing }
}
