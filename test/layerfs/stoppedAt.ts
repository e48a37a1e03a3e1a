/**
 * A process that stands still at the crash point after one that it has passed, until it is let go: the log of its passages is a fifo that
 * nobody reads meanwhile. Promise: it has passed that point and none after it; it is gone after the test.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import type { CrashPointName } from "../../src/base/CrashPointList.ts"
import { atEnd, scratch } from "./projFixture.ts"

export interface Stopped {
  /** Lets it go on to its end, and answers what it printed. */
  readonly go: () => Promise<string>
}

const oneMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1))

/** What the processes that wait at a fifo write to it; nothing where nobody waits. */
const readOf = async (fifo: number): Promise<string> => {
  const buffer = Buffer.alloc(4096)
  for (let text = ""; ; await oneMoment()) {
    try {
      const length = fs.readSync(fifo, buffer)
      if (length === 0) return text
      text += buffer.toString("utf8", 0, length)
    } catch (error) {
      // Somebody has it open and has not written yet.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error
    }
  }
}

export const stoppedAt = async (program: string, argv: readonly string[], point: CrashPointName): Promise<Stopped> => {
  const directory = scratch()
  const log = join(directory, "passed")
  const older = join(directory, "older")
  const makeFifo = (): string => {
    const made = join(directory, "next")
    execFileSync("mkfifo", [made])
    return made
  }
  fs.renameSync(makeFifo(), log)
  const env = { ...process.env, COPPICE_CRASH_LOG: log }
  const child = spawn(process.execPath, [program, ...argv], { env, stdio: ["ignore", "pipe", "inherit"] })
  const closed = once(child, "close")
  atEnd(async () => {
    child.kill("SIGKILL")
    await closed
  })
  let printed = ""
  child.stdout.setEncoding("utf8").on("data", (part: string) => (printed += part))
  /** Answers who waits at the log; `next` lies there for the passage after that. */
  const answer = (next: string | undefined): number => {
    fs.linkSync(log, older)
    if (next === undefined) fs.unlinkSync(log)
    else fs.renameSync(next, log)
    const fifo = fs.openSync(older, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
    fs.unlinkSync(older)
    return fifo
  }
  for (let passed = ""; !passed.split("\n").includes(point); await oneMoment()) {
    const fifo = answer(makeFifo())
    passed += await readOf(fifo)
    fs.closeSync(fifo)
    if (child.exitCode !== null) throw new Error(`${point} was not passed: ${passed}${printed}`)
  }
  return {
    go: async () => {
      // Whoever comes later makes a file in its place.
      const fifo = answer(undefined)
      await closed
      fs.closeSync(fifo)
      return printed
    }
  }
}
