/** Commands in a workspace: environment, output, limits, background processes, started trees. */
import * as fs from "node:fs"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { describe, expect, it } from "vitest"
import type { OpenOptions, Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, failure, forkOf, ground, processesOf, run, sharedGround, shell, using } from "./projFixture.ts"
import { oneFile } from "../oneFile.ts"

const shared = sharedGround({ "sub/f": "f", run: "#!/bin/sh\necho ran\n" })

const workspaceOf = async (
  use: (workspace: Workspace, root: string) => Promise<void>,
  options: OpenOptions = {}
): Promise<void> => {
  const { provider, commit, root } = await shared()
  const whole = { ...options, projection: "overlay" as const }
  await using(provider, await forkOf(provider, commit), whole, (workspace) => use(workspace, root))
}

/** Polls with a bound: what is awaited is an event, not a span of time. */
const eventually = async (what: string, holds: () => Promise<boolean> | boolean): Promise<void> => {
  for (let tries = 0; tries < 2000; tries += 1) {
    if (await holds()) return
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error(`Never happened: ${what}`)
}

describe.each([
  ["by a launcher of its own", false],
  ["by a resident shell", true]
])("exec %s", (_, residentShell) => {
  it("W4 W9 argv, shell, cwd, stdin, exit codes and signals come through exactly; non-zero is a result", () =>
    workspaceOf(
      async (workspace) => {
        expect((await run(workspace.exec(["printf", "%s|", "a b", "$HOME", ""]))).stdout.text).toBe("a b|$HOME||")
        expect((await run(workspace.exec("pwd", { cwd: "sub" }))).stdout.text).toBe(`${workspace.path}/sub\n`)
        expect((await run(workspace.exec("cat", { stdin: "in\0put" }))).stdout.text).toBe("in\0put")
        expect((await run(workspace.exec("cat; exit 7"))).exitCode).toBe(7)
        expect(await run(workspace.exec("kill -TERM $$"))).toMatchObject({
          exitCode: null,
          signal: "SIGTERM",
          timedOut: false
        })
        const split = await run(workspace.exec("echo out; echo err >&2; touch kept; exit 3"))
        expect([split.stdout.text, split.stderr.text, split.exitCode]).toEqual(["out\n", "err\n", 3])
        expect((await run(workspace.stat("kept"))).type).toBe("file")
        // A program's own 127 is its result.
        expect((await run(workspace.exec("exit 127"))).exitCode).toBe(127)
      },
      { residentShell }
    ))

  it("W4 what cannot start is typed and changes nothing: no program, not executable, NUL, a cwd that is missing or outside", () =>
    workspaceOf(
      async (workspace) => {
        expect(await failure(workspace.exec(["no-such-program"]))).toMatchObject({ _tag: "SpawnFailed" })
        expect(await failure(workspace.exec(["./run"]))).toMatchObject({ _tag: "SpawnFailed", program: "./run" })
        expect(await failure(workspace.exec(["echo", "a\0b"]))).toMatchObject({ _tag: "SpawnFailed" })
        expect(await failure(workspace.exec("true", { cwd: "none" }))).toMatchObject({
          _tag: "PathError",
          reason: "notFound"
        })
        expect(await failure(workspace.exec("true", { cwd: "run" }))).toMatchObject({ reason: "notADirectory" })
        expect(await failure(workspace.exec("true", { cwd: "../" }))).toMatchObject({ _tag: "OutsideWorkspace" })
        expect(await run(workspace.changes)).toEqual([])
      },
      { residentShell }
    ))

  it("W17 W4 a command that signals its own process group reaches nobody outside, and ends itself", () =>
    workspaceOf(
      async (workspace) => {
        // One that nobody dies of, first.
        let heard = 0
        const hear = (): void => void (heard += 1)
        process.on("SIGWINCH", hear)
        atEnd(() => process.off("SIGWINCH", hear))
        await shell(workspace, "kill -WINCH 0")
        await new Promise((resolve) => setTimeout(resolve, 20))
        expect(heard, "the signal reached the SDK").toBe(0)
        expect(await run(workspace.exec("kill -9 0"))).toMatchObject({ exitCode: null, signal: "SIGKILL" })
        expect(await shell(workspace, "trap 'kill 0' TERM; echo still")).toBe("still\n")
        const exit = await run(
          Effect.scoped(Effect.flatMap(workspace.start(["sh", "-c", "kill -9 0"]), (started) => started.wait))
        )
        expect(exit.signal).toBe("SIGKILL")
      },
      { residentShell }
    ))

  it("W4 W19 arguments that are too long for the kernel are SpawnFailed and leave nothing behind", () =>
    workspaceOf(
      async (workspace) => {
        const long = "x".repeat(200_000)
        expect(await failure(workspace.exec(["echo", long]))).toMatchObject({ _tag: "SpawnFailed" })
        expect(await failure(workspace.exec("true", { env: { LONG: long } }))).toMatchObject({ _tag: "SpawnFailed" })
        expect(await failure(Effect.scoped(workspace.start(["echo", long])))).toMatchObject({ _tag: "SpawnFailed" })
        expect(await shell(workspace, "echo next")).toBe("next\n")
        expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
      },
      { residentShell }
    ))

  it("W4 output that arrives while this thread is busy is heard whole, and no child is blamed for it", () =>
    workspaceOf(
      async (workspace) => {
        const busy = setInterval(() => {
          for (const until = performance.now() + 260; performance.now() < until; );
        }, 1)
        const results = [await run(workspace.exec("head -c 100000 /dev/zero")), await run(workspace.exec("echo x"))]
        clearInterval(busy)
        expect(results.map(({ stdout, pipeHeldByChild }) => [stdout.totalBytes, pipeHeldByChild])).toEqual([
          [100_000, false],
          [2, false]
        ])
      },
      { residentShell }
    ))

  it("W4 the environment is an allow-list; the host's variables pass by name and are recorded; git is quiet by default", () =>
    workspaceOf(
      async (workspace) => {
        process.env["COPPICE_TEST_SECRET"] = "hidden"
        process.env["COPPICE_TEST_PASSED"] = "shown"
        atEnd(() => {
          delete process.env["COPPICE_TEST_SECRET"]
          delete process.env["COPPICE_TEST_PASSED"]
        })
        const result = await run(
          workspace.exec("env", { passEnv: ["COPPICE_TEST_PASSED", "COPPICE_TEST_ABSENT"], env: { MINE: "1" } })
        )
        const names = result.stdout.text.split("\n").map((line) => line.split("=")[0])
        expect(names).toContain("PATH")
        expect(names).toContain("MINE")
        expect(names).not.toContain("COPPICE_TEST_SECRET")
        expect(names).not.toContain("NODE_OPTIONS")
        expect(result.stdout.text).toContain("COPPICE_TEST_PASSED=shown")
        expect(result.passedEnv).toEqual(["COPPICE_TEST_PASSED"])
        expect(result.stdout.text).toContain("GIT_OPTIONAL_LOCKS=0")
        expect(await shell(workspace, "git config core.checkstat")).toBe("minimal\n")
        const plain = await run(workspace.exec("env", { gitDefaults: false }))
        expect(plain.stdout.text).not.toContain("GIT_")
      },
      { residentShell }
    ))

  it("W4 output beyond 1 MiB keeps both ends in memory, spills up to 64 MiB, counts the rest, and never blocks the writer", () =>
    workspaceOf(
      async (workspace, root) => {
        const spillDirectory = join(root, `spill-${residentShell}`)
        fs.mkdirSync(spillDirectory)
        const script = `import sys\nw=sys.stdout.buffer.write\nw(b"FIRST")\nfor i in range(70): w(b"x"*(1<<20))\nw(b"LAST")`
        const { stdout } = await run(workspace.exec(["python3", "-c", script], { spillDirectory }))
        expect(stdout.totalBytes).toBe(70 * 2 ** 20 + 9)
        expect(stdout.truncated).toBe(true)
        expect(stdout.bytes.length).toBe(2 ** 20)
        expect(Buffer.from(stdout.bytes.subarray(0, 5)).toString()).toBe("FIRST")
        expect(Buffer.from(stdout.bytes.subarray(-4)).toString()).toBe("LAST")
        expect(fs.statSync(stdout.spill!).size).toBe(64 * 2 ** 20)
        expect(fs.readFileSync(stdout.spill!).subarray(0, 6).toString()).toBe("FIRSTx")
        const small = await run(workspace.exec(["python3", "-c", `print("y"*(1<<20))`]))
        expect([small.stdout.truncated, small.stdout.spill]).toEqual([true, null])
      },
      { residentShell }
    ))

  it("W4 output streams while the command runs; a listener that throws ends the call", () =>
    workspaceOf(
      async (workspace) => {
        const seen: string[] = []
        const script = `trap 'echo two; exit' USR1; echo one; while :; do sleep 0.01; done`
        await run(
          workspace.exec(script, {
            onOutput: (_, bytes) => {
              seen.push(Buffer.from(bytes).toString())
              if (seen.length > 1) return
              for (const line of processesOf("trap 'echo two")) {
                const pid = Number(line.split(" ")[0])
                if (fs.readFileSync(`/proc/${pid}/comm`, "utf8") === "sh\n") process.kill(pid, "SIGUSR1")
              }
            }
          })
        )
        expect(seen.join("")).toBe("one\ntwo\n")
        const thrown = new Error("from the listener")
        const broken = workspace.exec("echo one; sleep 1000", {
          onOutput: () => {
            throw thrown
          }
        })
        await expect(run(broken)).rejects.toThrow("from the listener")
        expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
      },
      { residentShell }
    ))

  it("W9 a time limit ends the whole tree of the call, setsid and cleared environments included, and keeps the files", () =>
    workspaceOf(
      async (workspace) => {
        const script = `echo kept > kept; (setsid env -i sleep 1000 &) ; (trap '' TERM; sleep 1000) & sleep 1000`
        // One that was ended before it had begun shows nothing.
        for (let limit = 300; (await run(workspace.glob("kept"))).length === 0; limit *= 2) {
          const result = await run(workspace.exec(script, { timeLimitMs: limit }))
          expect(result).toMatchObject({ timedOut: true, signal: "SIGKILL", exitCode: null })
        }
        expect(Buffer.from(await run(workspace.read("kept"))).toString()).toBe("kept\n")
        // No process is left: this would be ProcessesRunning.
        expect((await run(workspace.checkpoint())).outcome).toBe("committed")
      },
      { residentShell }
    ))

  it("W9 a time limit spares a process that an earlier call had left", () =>
    workspaceOf(
      async (workspace) => {
        await run(workspace.exec("sleep 1000 > /dev/null 2>&1 & echo $! > pid"))
        await run(workspace.exec("sleep 1000 & sleep 1000", { timeLimitMs: 200 }))
        const error = await failure(workspace.checkpoint())
        expect(error).toMatchObject({ _tag: "ProcessesRunning", processes: [{ command: "sleep" }] })
        await shell(workspace, "kill $(cat pid)")
      },
      { residentShell }
    ))

  it("W9 an interrupted exec leaves no process behind", () =>
    workspaceOf(
      async (workspace) => {
        let started = false
        const call = workspace.exec("echo up; sleep 1000 & sleep 1000", { onOutput: () => (started = true) })
        await run(
          Effect.gen(function* () {
            const fiber = yield* Effect.forkChild(call)
            yield* Effect.promise(() => eventually("the command speaks", () => started))
            yield* Fiber.interrupt(fiber)
          })
        )
        expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
      },
      { residentShell }
    ))

  it("W4 W19 a background child neither holds the call up nor goes unnoticed: the pipe is reported, the checkpoint refused", () =>
    workspaceOf(
      async (workspace) => {
        const result = await run(workspace.exec("sleep 1000 & echo done"))
        expect(result).toMatchObject({ exitCode: 0, pipeHeldByChild: true })
        expect(result.stdout.text).toBe("done\n")
        await run(workspace.write("g", "g"))
        const head = await run(workspace.head)
        expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "ProcessesRunning" })
        expect(await run(workspace.head)).toBe(head)
        const live = await run(workspace.checkpoint({ allowLive: true }))
        expect(live).toMatchObject({ outcome: "committed", live: true })
      },
      { residentShell }
    ))

  it("W11 calls on one workspace run one after the other, also when they are made at once", () =>
    workspaceOf(
      async (workspace) => {
        const append = workspace.exec(`n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n`)
        await run(Effect.all([append, append, append, append], { concurrency: "unbounded" }))
        expect(Buffer.from(await run(workspace.read("n"))).toString()).toBe("4\n")
      },
      { residentShell }
    ))
})

describe("start", () => {
  it("S23 C95 kill takes the whole tree, setsid grandchildren included, and provenGone is an observation", () =>
    workspaceOf(async (workspace) => {
      await run(
        Effect.scoped(
          Effect.gen(function* () {
            const process = yield* workspace.start(["sh", "-c", "(setsid sleep 1000 &); echo up; cat"])
            yield* Effect.promise(() => once(process.stdout, "data"))
            expect(process.guarantee).toEqual({ diesWithParent: true, wholeTree: true, isolation: "enforced" })
            expect(process.identity?.pid).toBeGreaterThan(1)
            expect(yield* process.provenGone).toBe(false)
            expect(yield* Effect.flip(workspace.checkpoint())).toMatchObject({ _tag: "ProcessesRunning" })
            yield* process.kill({ graceMs: 50 })
            expect(yield* process.provenGone).toBe(true)
            expect(fs.existsSync(`/proc/${process.identity!.pid}`)).toBe(false)
            expect((yield* workspace.checkpoint()).outcome).toBe("unchanged")
          })
        )
      )
    }))

  it("S23 a leader that exits while its child goes on is not proven gone; the end of the scope takes the child", () =>
    workspaceOf(async (workspace) => {
      await run(
        Effect.scoped(
          Effect.gen(function* () {
            const process = yield* workspace.environment.spawn(["sh", "-c", "sleep 1000 >/dev/null 2>&1 & exit 5"])
            expect(yield* process.wait).toEqual({ code: 5, signal: null })
            expect(yield* process.provenGone).toBe(false)
          })
        )
      )
      expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
    }))

  it("S23 a clean exit leaves nothing: its tree is proven gone without a kill", () =>
    workspaceOf(async (workspace) => {
      await run(
        Effect.scoped(
          Effect.gen(function* () {
            const process = yield* workspace.start(["sh", "-c", "read x; echo got $x; exit 0"])
            process.stdin.end("line\n")
            const [data] = yield* Effect.promise(() => once(process.stdout, "data"))
            expect(String(data)).toBe("got line\n")
            expect(yield* process.wait).toEqual({ code: 0, signal: null })
            expect(yield* process.provenGone).toBe(true)
            expect((yield* workspace.checkpoint()).outcome).toBe("unchanged")
          })
        )
      )
      expect(await failure(Effect.scoped(workspace.start(["no-such-program"])))).toMatchObject({ _tag: "SpawnFailed" })
    }))
})

describe("execOn", () => {
  it("L2 mounted, run, captured, unmounted: a background process of the call is ended, its files are committed", async () => {
    const { provider, commit, root, store } = await ground({ f: "1" })
    const branch = await forkOf(provider, commit)
    const { result, checkpoint } = await run(provider.execOn(branch, "echo 2 > f; (sleep 1000 > /dev/null 2>&1 &)"))
    expect(result.exitCode).toBe(0)
    expect(checkpoint).toMatchObject({ outcome: "committed", changedPaths: 1, live: false })
    expect(processesOf(root)).toEqual([])
    expect(fs.readdirSync(join(store, "layerfs", "work"))).toEqual([])
    expect(await failure(provider.execOn("brn_none", "true"))).toMatchObject({ _tag: "RefNotFound" })
    const failed = await run(provider.execOn(branch, "exit 9"))
    expect([failed.result.exitCode, failed.checkpoint.outcome]).toEqual([9, "unchanged"])
  })
})

describe("the SDK's own death", () => {
  it.each([["by launchers"], ["resident"]])(
    "S23 SIGKILL of the SDK ends every process inside, detached ones too: %s",
    async (what) => {
      const { origin, store, provider, commit } = await ground({ f: "1" })
      const branch = await forkOf(provider, commit)
      const program = await oneFile(join(import.meta.dirname, "projVictim.ts"))
      const child = spawn(process.execPath, [program, store, branch, what], { stdio: ["ignore", "pipe", "inherit"] })
      const [line] = (await once(child.stdout, "data")) as [Buffer]
      const pids = JSON.parse(line.toString()) as number[]
      expect(pids.length).toBeGreaterThan(2)
      for (const pid of pids) expect(fs.existsSync(`/proc/${pid}`)).toBe(true)
      child.kill("SIGKILL")
      await once(child, "close")
      await eventually("the kernel has ended them all", () => pids.every((pid) => !fs.existsSync(`/proc/${pid}`)))
      expect(fs.readFileSync(join(origin, "f"), "utf8")).toBe("1")
      const [left] = await run(provider.left)
      expect(left).toMatchObject({ state: "interrupted", branch })
      const { branch: recovered, checkpoint } = await run(provider.recover(left!.id))
      expect(checkpoint.outcome).toBe("committed")
      expect(Buffer.from(await run(provider.readAt(recovered, "made"))).toString()).toBe("inside\n")
      expect((await run(provider.branch(branch))).head).toBe(commit)
      expect(await run(provider.left)).toEqual([])
    }
  )
})
