/**
 * How this provider runs git: argv without a shell, an allow-listed environment, and none of the machine's settings.
 * Promise: no hook, filter, file-system monitor, prompt, transport or garbage collection is started by a command of ours, whatever the
 * configuration of the repository says; a command that is cancelled or whose reader gives up is ended, and its process is gone before
 * anybody is told. Rules: GW2, W4, W17.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import type { Readable, Writable } from "node:stream"
import { gitEnvironment } from "../../src/base/Command.ts"
import { FileSystemFailure, Unavailable } from "../../src/workspace/WorkspaceError.ts"

/** The first version with `merge-tree --write-tree` and `cat-file -z`. */
export const oldestGit = [2, 38] as const

const settings: readonly string[] = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  "core.protectHFS=false",
  "core.protectNTFS=false",
  "core.alternateRefsCommand=true",
  "gc.auto=0",
  "maintenance.auto=0",
  "protocol.allow=never",
  "safe.directory=*",
  "worktree.useRelativePaths=false",
  "advice.graftFileDeprecated=false"
]

const environment = (): Record<string, string> => ({
  ...gitEnvironment(),
  GIT_ALLOW_PROTOCOL: "none",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_NO_LAZY_FETCH: "1",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_AUTHOR_NAME: "coppice",
  GIT_AUTHOR_EMAIL: "coppice@localhost",
  GIT_COMMITTER_NAME: "coppice",
  GIT_COMMITTER_EMAIL: "coppice@localhost"
})

export interface GitOptions {
  /** The repository; found from `cwd` when absent. */
  readonly gitDir?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  readonly settings?: readonly string[]
  readonly signal?: AbortSignal
  /** Exit codes that are answers; 0 alone unless told. */
  readonly answers?: readonly number[]
  /** Called whenever it says something on stderr: where it was asked to tell how far it is, a sign of life. */
  readonly onSaid?: () => void
}

export type Stoppable = Pick<GitOptions, "signal">

export interface RunningGit {
  readonly stdin: Writable
  readonly stdout: Readable
  /** When its process is gone: what it said on stderr. Rejects when it failed or was cancelled. */
  readonly ended: Promise<string>
  /** Ends it, and resolves when its process is gone. */
  readonly stop: () => Promise<void>
}

/** Why a command failed, in its own words, without what it names of this machine; else how it ended. */
const reasonOf = (stderr: string, ending: string): string => {
  const lines = stderr.split(/[\r\n]/).filter((line) => line.trim() !== "")
  const said = lines.find((line) => /^(?:fatal|error): /.test(line)) ?? lines[0] ?? ending
  return said.replace(/'?\/[^\s':]+'?/g, "…").slice(0, 200)
}

/** A command that was ended before it had said all: what it would have said is unknown, so it is neither a no nor damage. */
class CutShort extends Unavailable {}

/** Git itself gave a code that means a failure: not one that was missing, ended from outside, or out of disk. */
export const saysNo = (error: unknown): boolean =>
  error instanceof Unavailable && error.what !== "git" && !(error instanceof CutShort)

/** A wrapper of git tells so of the signal that ended what it ran; git's own codes end at 129. */
const isSignal = (code: number | null): boolean => code === null || (code > 129 && code < 192)

/** What a failed command comes to. A full disk is told as such. */
const gitFailed = (command: string, stderr: string, code: number | null, ending: string) =>
  /No space left on device|Disk quota exceeded|Out of diskspace/.test(stderr)
    ? new FileSystemFailure({
        message: `git ${command} found no room on the disk.`,
        remedy:
          "Free space on the disk that holds the store, then repeat the same call; nothing acknowledged was lost.",
        syscallCode: "ENOSPC"
      })
    : new (isSignal(code) ? CutShort : Unavailable)({
        message: `git ${command} failed: ${reasonOf(stderr, ending)}`,
        remedy: "Look at what git says, put it right, then repeat the same call; nothing was half done.",
        what: `git ${command}`,
        missing: [reasonOf(stderr, ending)]
      })

const missing = (): Unavailable =>
  new Unavailable({
    message: "The program git could not be started.",
    remedy: `Install git ${oldestGit.join(".")} or newer and make sure that it is on PATH.`,
    what: "git",
    missing: ["git"]
  })

/** Starts git with pipes. */
export const startGit = (args: readonly string[], options: GitOptions = {}): RunningGit => {
  const child = spawn(
    "git",
    [
      ...[...settings, ...(options.settings ?? [])].flatMap((setting) => ["-c", setting]),
      ...(options.gitDir === undefined ? [] : [`--git-dir=${options.gitDir}`]),
      ...args
    ],
    {
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      ...(options.signal === undefined ? {} : { signal: options.signal, killSignal: "SIGKILL" as const }),
      env: { ...environment(), ...options.env },
      stdio: ["pipe", "pipe", "pipe"]
    }
  )
  let stderr = ""
  child.stderr.setEncoding("latin1").on("data", (text: string) => {
    if (stderr.length < 65_536) stderr += text
    options.onSaid?.()
  })
  // Who reads or writes learns of the end by `ended`.
  child.stdin.on("error", () => {})
  child.stdout.on("error", () => {})
  const ended = new Promise<string>((resolve, reject) => {
    let failure: unknown
    child.on("error", (error: NodeJS.ErrnoException) => {
      failure = error.code === "ENOENT" || error.code === "EACCES" ? missing() : error
      // One that never started is not closed either.
      if (child.pid === undefined) reject(failure)
    })
    child.on("close", (code, signal) => {
      if (failure !== undefined) return reject(failure)
      const ending = signal === null ? `it ended with exit code ${code}` : `it was ended by ${signal}`
      if (code !== null && (options.answers ?? [0]).includes(code)) resolve(stderr)
      else reject(gitFailed(args[0] ?? "", stderr, code, ending))
    })
  })
  const over = ended.then(
    () => undefined,
    () => undefined
  )
  const stop = (): Promise<void> => {
    child.kill("SIGKILL")
    // What nobody reads any more would keep its pipe open.
    child.stdout.destroy()
    return over
  }
  return { stdin: child.stdin, stdout: child.stdout, ended, stop }
}

/** Writes with the reader's pace; false when nobody reads any more. */
export const send = async (to: Writable, bytes: Uint8Array | string): Promise<boolean> => {
  if (to.destroyed) return false
  if (to.write(bytes)) return true
  // The loser of a race would go on listening, one more each time.
  const over = new AbortController()
  const { signal } = over
  await Promise.race([once(to, "drain", { signal }), once(to, "close", { signal })]).catch(() => undefined)
  over.abort()
  return !to.destroyed
}

/** Runs a command whose output fits in memory. */
export const git = async (
  args: readonly string[],
  options: GitOptions & { readonly input?: Uint8Array | string } = {}
): Promise<Buffer> => {
  const running = startGit(args, options)
  running.stdin.end(options.input ?? "")
  const parts: Buffer[] = []
  for await (const part of running.stdout) parts.push(part as Buffer)
  await running.ended
  return Buffer.concat(parts)
}

/** The same as text without the last line feed; undefined when git says no. */
export const ask = async (
  args: readonly string[],
  options: GitOptions & { readonly input?: Uint8Array | string } = {}
): Promise<string | undefined> => {
  try {
    return (await git(args, options)).toString("utf8").replace(/\n$/, "")
  } catch (error) {
    if (saysNo(error)) return undefined
    throw error
  }
}

/** The output of one command as the input of another. Answers its bytes. When both fail, the one that failed first is told. */
export const pipeGit = async (
  from: { readonly args: readonly string[]; readonly options: GitOptions; readonly input: string },
  into: { readonly args: readonly string[]; readonly options: GitOptions },
  onBytes?: (bytes: number) => void
): Promise<number> => {
  const source = startGit(from.args, from.options)
  const target = startGit(into.args, into.options)
  target.stdout.resume()
  source.stdin.end(from.input)
  let bytes = 0
  try {
    for await (const part of source.stdout) {
      // It reads no more: why is told by its end. The other one fails only because nobody reads it.
      if (!(await send(target.stdin, part as Buffer))) await target.ended
      bytes += (part as Buffer).length
      onBytes?.(bytes)
    }
    await source.ended
    target.stdin.end()
    await target.ended
    return bytes
  } catch (error) {
    await Promise.all([target.stop(), source.stop()])
    throw error
  }
}
