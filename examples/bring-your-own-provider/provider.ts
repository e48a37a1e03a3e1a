/**
 * A workspace provider of an application's own: every state is one compressed tar archive.
 * Promise: an archive stands whole or not at all; it is never written again; what tar cannot do is said in `capabilities`.
 *
 * Three functions do the work: `keep` packs a directory, `make` unpacks one, `contents` reads files out of one. All the rest of a
 * provider (branches, history, isolation, candidates, exports) is `coppice/provider-kit`.
 */
import { execFile, type ExecFileException } from "node:child_process"
import { mkdir, mkdtemp, open, readdir, rename, rm, stat } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  type BackendPlace,
  contentsOfDirectory,
  makeSnapshotProvider,
  type Snapshot,
  type SnapshotBackend,
  type SnapshotProviderOptions
} from "coppice/provider-kit"

/** Says what this is: the preset compares it with what the application registered. */
export const coppice = { name: "tarballs", kind: "workspace", version: "1.0.0", contract: 1 } as const

/** Paths of trees are byte strings: one character a byte. */
const bytesOf = (path: string): Buffer => Buffer.from(path, "latin1")
const textOf = (path: string): string => bytesOf(path).toString("utf8")

/** Runs tar. What it refuses is told as the system's error that it is, by which the kit knows a full disk. */
const tar = (args: readonly string[], input: Buffer, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const done = (error: ExecFileException | null, _: string, said: string): void => {
      if (error === null) return resolve()
      if (signal?.aborted === true) return reject(signal.reason)
      const code = said.includes("No space left") ? "ENOSPC" : "EIO"
      reject(Object.assign(new Error(said), { code, syscall: "tar" }))
    }
    const child = execFile("tar", args, { env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C" } }, done)
    signal?.addEventListener("abort", () => child.kill(), { once: true })
    child.stdin!.on("error", () => undefined)
    child.stdin!.end(input)
  })

/** Names for tar's `--null` lists, `./` in front so that none is taken for an option. */
const list = (paths: readonly string[]): Buffer => Buffer.concat(paths.map((path) => bytesOf(`./${path}\0`)))

const flush = async (path: string): Promise<void> => {
  const file = await open(path, "r")
  await file.sync()
  await file.close()
}

const backendAt = async ({ directory, durability }: BackendPlace): Promise<SnapshotBackend> => {
  const archives = join(directory, "archives")
  await mkdir(archives, { recursive: true, mode: 0o700 })
  const archiveOf = ({ project, commit }: Snapshot): string => join(archives, `${project}.${commit}.tar.gz`)
  return {
    provider: coppice.name,
    version: coppice.version,
    projection: "copy",
    capabilities: {
      copyFreeFork: true,
      symlinks: true,
      hardLinks: "preserved",
      modes: true,
      nanosecondMtimes: true,
      xattrs: false,
      sparseFiles: true,
      nonUtf8Names: true,
      crossMachine: false,
      mountAtChosenPath: true,
      quota: true
    },
    restores: false,
    probe: async () => {
      const works = await tar(["--version"], Buffer.alloc(0)).then(
        () => true,
        () => false
      )
      return works ? [] : [{ what: "the program tar", remedy: "Install GNU tar and put it on PATH." }]
    },
    keep: async ({ snapshot, tree, leaveOut, signal }) => {
      const target = archiveOf(snapshot)
      const excluded = leaveOut.map((path) => `--exclude=./${textOf(path)}`)
      const pack = ["--create", "--gzip", "--sparse", "--format=posix", `--file=${target}.part`]
      const names = ["--no-wildcards", "--anchored", ...excluded, `--directory=${textOf(tree)}`, "."]
      await tar([...pack, ...names], Buffer.alloc(0), signal)
      if (durability === "full") await flush(`${target}.part`)
      await rename(`${target}.part`, target)
      if (durability === "full") await flush(archives)
      return { method: "tar", copiedBytes: (await stat(target)).size }
    },
    make: async ({ snapshot, target, signal }) => {
      await mkdir(textOf(target), { mode: 0o700 })
      const unpack = ["--extract", `--file=${archiveOf(snapshot)}`, `--directory=${textOf(target)}`]
      await tar([...unpack, "--preserve-permissions", "--no-same-owner"], Buffer.alloc(0), signal)
      return { method: "tar", copiedBytes: (await stat(archiveOf(snapshot))).size }
    },
    drop: async (snapshot) => {
      for (const end of ["", ".part"]) await rm(archiveOf(snapshot) + end, { force: true })
    },
    kept: async () =>
      (await readdir(archives)).map((name) => {
        const [project = "", commit = ""] = name.split(".")
        return { project, commit }
      }),
    contents: async function* (snapshot, paths) {
      // One reading of the archive for all of them.
      const scratch = await mkdtemp(join(tmpdir(), "tarballs-"))
      try {
        const unpack = ["--extract", `--file=${archiveOf(snapshot)}`, `--directory=${scratch}`, "--no-same-owner"]
        await tar([...unpack, "--null", "--verbatim-files-from", "--files-from=-"], list(paths)).catch(() => undefined)
        yield* contentsOfDirectory(Buffer.from(scratch).toString("latin1"), paths)
      } finally {
        await rm(scratch, { recursive: true, force: true })
      }
    },
    storedBytes: async () => {
      let bytes = 0
      for (const name of await readdir(archives))
        bytes += (await stat(join(archives, name)).catch(() => ({ size: 0 }))).size
      return bytes
    }
  }
}

/** What the preset calls. */
export const openWorkspaces = (options: SnapshotProviderOptions) =>
  makeSnapshotProvider(coppice.name, backendAt, options)
