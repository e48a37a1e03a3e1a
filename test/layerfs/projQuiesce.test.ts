/** Checkpoints beside running processes: held still for one moment, or labelled as caught in motion. */
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describe, expect, it } from "vitest"
import type { SpawnedProcess } from "../../src/base/Spawn.ts"
import type { CheckpointOutcome, Workspace, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { failure, forkOf, run, sharedGround, shell, using } from "./projFixture.ts"

const shared = sharedGround({ f: "f" })

/**
 * Two processes, the second writing from a thread, write the same number into 40 files in turn, one file each by turns, for ever: at any
 * moment the numbers fall along the names, by one at most. It says `ready` after the first round.
 */
const lockStep = `
import os, threading
files = [os.open("n%02d" % i, os.O_RDWR | os.O_CREAT) for i in range(40)]
(r1, w1), (r2, w2) = os.pipe(), os.pipe()
def turns(mine, wait, tell, said):
    n = 0
    while True:
        n += 1
        for i in range(mine, 40, 2):
            os.read(wait, 1)
            os.pwrite(files[i], b"%08d" % n, 0)
            os.write(tell, b".")
        if n == 1 and said: os.write(1, b"ready\\n")
if os.fork() == 0:
    other = threading.Thread(target=turns, args=(1, r1, w2, True))
    other.start()
    other.join()
os.write(w2, b".")
turns(0, r2, w1, False)
`

/** Stores a number per line of its input through a shared mapping, and answers each. */
const mapped = `
import mmap, os, sys
fd = os.open("m", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
page = mmap.mmap(fd, 4096)
for line in sys.stdin:
    page[0:8] = b"%08d" % int(line)
    sys.stdout.write("done " + line)
    sys.stdout.flush()
`

/** The lines that a process prints, one after the other. */
const linesOf = (process: SpawnedProcess) => {
  const lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]()
  return async (): Promise<string> => String((await lines.next()).value)
}

const started = async (
  script: string,
  use: (place: {
    readonly provider: WorkspaceProvider
    readonly workspace: Workspace
    readonly process: SpawnedProcess
    readonly line: () => Promise<string>
    readonly branch: string
  }) => Promise<void>
): Promise<void> => {
  const { provider, commit } = await shared()
  const branch = await forkOf(provider, commit)
  await using(provider, branch, { projection: "overlay" }, (workspace) =>
    run(
      Effect.scoped(
        Effect.flatMap(workspace.start(["python3", "-c", script]), (process) =>
          Effect.promise(() => use({ provider, workspace, process, line: linesOf(process), branch }))
        )
      )
    )
  )
}

const numbersAt = async (provider: WorkspaceProvider, commit: string): Promise<number[]> => {
  const names = (await run(provider.listAt(commit, ""))).map((entry) => entry.path).filter((name) => /^n\d/.test(name))
  const found: number[] = []
  for (const name of names.toSorted())
    found.push(Number(Buffer.from(await run(provider.readAt(commit, name))).toString()))
  return found
}

/** What of the sequence no single moment can have shown. */
const torn = (numbers: readonly number[]): boolean =>
  numbers.some((n, i) => i > 0 && n > numbers[i - 1]!) || numbers[0]! - numbers.at(-1)! > 1

const commitOf = (outcome: CheckpointOutcome): string => {
  expect(outcome.outcome).toBe("committed")
  return outcome.commit
}

const stateOf = (workspace: Workspace, name: string): Promise<string> =>
  shell(
    workspace,
    `for p in /proc/[0-9]*; do grep -aq ${name} $p/cmdline && sed 's/.*) //;s/ .*//' $p/stat; done; true`
  )

describe("quiesce", () => {
  it("W19 two processes and a thread that write in lock step are never torn, and go on afterwards", () =>
    started(lockStep, async ({ provider, workspace, line }) => {
      expect(await line()).toBe("ready")
      let last = 0
      for (let round = 0; round < 6; round += 1) {
        const outcome = await run(workspace.checkpoint({ quiesce: true }))
        expect(outcome).toMatchObject({ live: false, quiesced: expect.any(Number) })
        const numbers = await numbersAt(provider, commitOf(outcome))
        expect(numbers).toHaveLength(40)
        expect(torn(numbers), numbers.join(" ")).toBe(false)
        expect(numbers[0], "it went on").toBeGreaterThan(last)
        last = numbers[0]!
        await run(provider.candidate(outcome.commit, { environment: `sha256:${"0".repeat(64)}`, parent: null }))
        // Somebody gets a turn in between, however busy the machine.
        while (Number(Buffer.from(await run(workspace.read("n00"))).toString()) <= last);
      }
    }))

  it("W19 stores through a shared mapping that were complete before the call are captured, each time anew", () =>
    started(mapped, async ({ provider, workspace, process, line }) => {
      for (const how of [
        { quiesce: true },
        { quiesce: true },
        { allowLive: true },
        { allowLive: true },
        { quiesce: true }
      ]) {
        const value = Math.floor(Math.random() * 1e8)
        process.stdin.write(`${value}\n`)
        expect(await line()).toBe(`done ${value}`)
        // Older than what a stat cache would call fresh: from here on nothing but the page itself tells of the next store.
        const at = Number((await run(workspace.stat("m"))).mtimeNs) / 1e6
        while (Date.now() - at < 30) await new Promise((resolve) => setTimeout(resolve, 5))
        const commit = commitOf(await run(workspace.checkpoint(how)))
        const bytes = Buffer.from(await run(provider.readAt(commit, "m")))
        expect(bytes.subarray(0, 8).toString()).toBe(String(value).padStart(8, "0"))
      }
    }))

  it("W19 only what was stopped for the capture is let go: also after a refusal and after a cancellation", () =>
    started(lockStep, async ({ provider, workspace, line, branch }) => {
      expect(await line()).toBe("ready")
      await run(
        Effect.scoped(
          Effect.gen(function* () {
            const asleep = yield* workspace.start(["sleep", "86399"])
            yield* workspace.exec('pid=; while [ -z "$pid" ]; do pid=$(pgrep -x sleep); done; kill -STOP $pid')
            const settled = Effect.gen(function* () {
              expect((yield* Effect.promise(() => stateOf(workspace, "sleep.86399"))).trim()).toMatch(/^T/)
              const before = Buffer.from(yield* workspace.read("n00")).toString()
              // Going on means writing on.
              while (Buffer.from(yield* workspace.read("n00")).toString() === before) yield* Effect.yieldNow
            })
            yield* workspace.checkpoint({ quiesce: true })
            yield* settled
            const asked = yield* Effect.forkChild(workspace.checkpoint({ quiesce: true }))
            yield* Fiber.interrupt(asked)
            yield* settled
            yield* provider.applyTo(branch, [{ op: "write", path: "other", bytes: "moved" }])
            expect(yield* Effect.flip(workspace.checkpoint({ quiesce: true }))).toMatchObject({ _tag: "HeadMoved" })
            yield* settled
            yield* asleep.kill({ graceMs: 0 })
          })
        )
      )
      await run(workspace.discard("seen"))
    }))
})

it("W9 a command that was stopped and goes on is heard of to its end", async () => {
  const { provider, commit } = await shared()
  await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
    const waits = "(until grep -q ') T' /proc/$$/stat; do :; done; sleep 0.1; kill -CONT $$) &"
    expect(await run(workspace.exec(`${waits} kill -STOP $$; echo on; exit 5`))).toMatchObject({
      exitCode: 5,
      stdout: { text: "on\n" }
    })
  })
})

describe("live", () => {
  it("W19 a commit caught in motion says so for good and is no candidate; the same state at rest is committed again and is one", () =>
    started(mapped, async ({ provider, workspace, process, line, branch }) => {
      process.stdin.write("1\n")
      await line()
      expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "ProcessesRunning" })
      const live = await run(workspace.checkpoint({ allowLive: true }))
      expect(live).toMatchObject({ outcome: "committed", live: true })
      const options = { environment: `sha256:${"0".repeat(64)}`, parent: null } as const
      for (const ref of [live.commit, branch, await forkOf(provider, live.commit)]) {
        expect(await failure(provider.candidate(ref, options))).toMatchObject({
          _tag: "CandidateRefused",
          reason: "live",
          commit: live.commit
        })
      }
      expect(await run(provider.commit(live.commit))).toMatchObject({ live: true })
      process.stdin.end()
      await run(process.wait)
      const rest = await run(workspace.checkpoint())
      expect(rest).toMatchObject({ outcome: "committed", live: false, root: live.root, changedPaths: 0 })
      expect(await run(provider.candidate(branch, options))).toMatchObject({ commit: rest.commit, root: live.root })
      expect(await run(workspace.checkpoint())).toMatchObject({ outcome: "unchanged", commit: rest.commit })
    }))

  it("W19 what has no process inside is quiet already: quiesce changes nothing about it", async () => {
    const { provider, commit } = await shared()
    await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
      await run(workspace.write("f", "changed"))
      const outcome = await run(workspace.checkpoint({ quiesce: true }))
      expect(outcome).toMatchObject({ outcome: "committed", live: false })
      expect(outcome).not.toHaveProperty("quiesced")
    })
  })
})
