/**
 * A second process that is asked things: one JSON object a line, on its stdin and back on its stdout.
 * Promise: an answer came from the running process; questions that are not awaited run at the same time; the process is killed for real,
 * with SIGKILL, and a question that it did not live to answer rejects. Rules: G2, G3, L8, W23.
 */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"

/** Serves questions on stdin until it ends; what `answer` throws is a defect, and reaches the asker as such. */
export const serveLines = async <Question>(answer: (question: Question) => Promise<object>): Promise<void> => {
  const say = (line: object) => process.stdout.write(`${JSON.stringify(line)}\n`)
  const under = new Set<Promise<void>>()
  const serve = async (line: string): Promise<void> => {
    const { id, ...question } = JSON.parse(line) as { id: number }
    try {
      say({ id, ...(await answer(question as Question)) })
    } catch (error) {
      say({ id, bug: String(error) })
    }
  }
  say({ id: 0, ok: "ready" })
  for await (const line of createInterface({ input: process.stdin })) {
    const served = serve(line)
    under.add(served)
    void served.then(() => under.delete(served))
  }
  await Promise.all(under)
}

export interface WorkerLines<Question, Answer> {
  readonly ask: (question: Question) => Promise<Answer>
  /** Ends it with SIGKILL, and waits until it is gone. */
  readonly kill: () => Promise<void>
  /** To stop it and let it go on. */
  readonly signal: (signal: "SIGSTOP" | "SIGCONT") => void
  /** Lets it close what it opened and end. */
  readonly end: () => Promise<void>
}

/** Starts a worker program and waits until it serves. */
export const startLines = async <Question extends object, Answer>(
  argv: readonly [string, ...string[]]
): Promise<WorkerLines<Question, Answer>> => {
  const child = spawn(argv[0], argv.slice(1), { stdio: ["pipe", "pipe", "inherit"] })
  const waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: Error) => void }>()
  let last = 0
  const answer = (id: number): Promise<Answer> => new Promise((resolve, reject) => waiting.set(id, { resolve, reject }))
  const gone = once(child, "close")
  child.once("close", () => {
    for (const one of waiting.values()) one.reject(new Error("the worker process has ended"))
    waiting.clear()
  })
  child.stdin.on("error", () => undefined)
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, bug, ...end } = JSON.parse(line) as { id: number; bug?: string } & Answer
    const one = waiting.get(id)
    waiting.delete(id)
    if (bug === undefined) one?.resolve(end as unknown as Answer)
    else one?.reject(new Error(bug))
  })
  await answer(0)
  return {
    ask: (question) => {
      last += 1
      const ended = answer(last)
      child.stdin.write(`${JSON.stringify({ ...question, id: last })}\n`)
      return ended
    },
    signal: (signal) => void child.kill(signal),
    kill: async () => {
      child.kill("SIGKILL")
      await gone
    },
    end: async () => {
      child.stdin.end()
      await gone
    }
  }
}
