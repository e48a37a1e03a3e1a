/**
 * Clocks, yardsticks and scratch space of the bench.
 * Promise: a yardstick is taken in the same run, alternating with what it is held against; a scratch directory is gone when the
 * bench ends, also after a failure. Rules: workspaces.md, "Figures".
 */
import { execFile, execFileSync, spawn } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync, statfsSync } from "node:fs"
import { rm } from "node:fs/promises"
import { arch, cpus, release, tmpdir, totalmem } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { promisify } from "node:util"

const executed = promisify(execFile)

/** Milliseconds that `work` took, and what it gave. */
export const timed = async <A>(work: () => Promise<A>): Promise<readonly [ms: number, value: A]> => {
  const start = process.hrtime.bigint()
  const value = await work()
  return [Number(process.hrtime.bigint() - start) / 1e6, value]
}

/** Runs each of `works` once per round, in turn, so that a slow minute of the machine hits all of them alike. */
export const interleave = async (
  rounds: number,
  works: readonly ((round: number) => Promise<void>)[]
): Promise<void> => {
  for (let round = 0; round < rounds; round++) for (const work of works) await work(round)
}

/** The yardstick of processes: milliseconds from the spawn of `true` until its end is known. */
export const spawnTrue = async (): Promise<number> => {
  const [ms] = await timed(
    () =>
      new Promise<void>((resolve, reject) => {
        const child = spawn("true", [], { stdio: ["ignore", "pipe", "pipe"] })
        child.on("error", reject)
        child.on("close", () => resolve())
      })
  )
  return ms
}

/** The yardstick of durability: milliseconds of one bare one-row SQLite commit with `synchronous=FULL`. */
export const bareCommit = (directory: string): { readonly commit: () => number; readonly close: () => void } => {
  const db = new DatabaseSync(join(directory, "yardstick.db"))
  db.exec(
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE IF NOT EXISTS row (id INTEGER PRIMARY KEY, name TEXT, base TEXT, at INTEGER)"
  )
  const insert = db.prepare("INSERT INTO row (name, base, at) VALUES (?, ?, ?)")
  let number = 0
  return {
    commit: () => {
      const start = process.hrtime.bigint()
      db.exec("BEGIN IMMEDIATE")
      insert.run(`branch-${number++}`, "cmt_00000000-0000-0000-0000-000000000000", Date.now())
      db.exec("COMMIT")
      return Number(process.hrtime.bigint() - start) / 1e6
    },
    close: () => db.close()
  }
}

/** Runs a peer's command; throws when it fails, so that a peer is never credited with work it did not do. */
export const command = async (
  argv: readonly [string, ...string[]],
  cwd?: string,
  encoding: BufferEncoding = "utf8"
): Promise<string> => {
  const [file, ...args] = argv
  const { stdout } = await executed(file, args, {
    ...(cwd === undefined ? {} : { cwd }),
    maxBuffer: 256 * 1024 * 1024,
    encoding,
    env: { ...process.env, GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", LC_ALL: "C" }
  })
  return stdout
}

/** A directory below the temporary one, readable by others, removed with everything in it when `use` ends. */
export const withScratch = async <A>(use: (directory: string) => Promise<A>): Promise<A> => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-bench-"))
  chmodSync(directory, 0o755)
  // A bench that is stopped half way exits through this; it may have written hundreds of megabytes.
  const clear = () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 })
  process.once("exit", clear)
  try {
    return await use(directory)
  } finally {
    process.off("exit", clear)
    await rm(directory, { recursive: true, force: true, maxRetries: 5 })
  }
}

const fileSystems: Readonly<Record<number, string>> = {
  0xef53: "ext4",
  0x01021994: "tmpfs",
  0x794c7630: "overlayfs",
  0x9123683e: "btrfs",
  0x58465342: "xfs"
}

/** What a reader needs to know about the machine to place the figures. */
export const describeMachine = (): Readonly<Record<string, string | number>> => {
  const type = statfsSync(tmpdir()).type
  let git = "not installed"
  try {
    git = execFileSync("git", ["--version"], { encoding: "utf8" }).trim()
  } catch {
    // Named as missing above; the rows that need it say so again.
  }
  let cpu = cpus()[0]?.model.trim() ?? ""
  if (cpu === "" || cpu === "unknown") cpu = arch()
  return {
    cpu,
    cpus: cpus().length,
    memoryBytes: totalmem(),
    kernel: release(),
    node: process.versions.node,
    git,
    fileSystem: fileSystems[type] ?? `type 0x${type.toString(16)}`,
    user: process.getuid?.() === 0 ? "root" : "ordinary user"
  }
}

/** The commit that is measured, `unknown` outside a repository. */
export const describeCommit = (root: string): string => {
  try {
    const git = (args: readonly string[]) =>
      execFileSync("git", ["-C", root, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim()
    return git(["rev-parse", "HEAD"]) + (git(["status", "--porcelain", "--untracked-files=no"]) === "" ? "" : "-dirty")
  } catch {
    return "unknown"
  }
}

/** Free numeric user id from 20000 on, for the ordinary-user rows. */
export const freeUserId = (): number => {
  const taken = new Set(
    ["passwd", "group"].flatMap((file) =>
      readFileSync(`/etc/${file}`, "utf8")
        .split("\n")
        .map((line) => Number(line.split(":")[2]))
    )
  )
  let uid = 20_000
  while (taken.has(uid)) uid++
  return uid
}
