/** What is particular to a workspace whose commands a resident shell starts. The rest is tested as without it: projExec, projIsolation. */
import * as fs from "node:fs"
import { once } from "node:events"
import * as net from "node:net"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import type { Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import { atEnd, failure, forkOf, run, sharedGround, shell, using } from "./projFixture.ts"

const shared = sharedGround({ f: "f" })
const resident = async (use: (workspace: Workspace) => Promise<void>): Promise<void> => {
  const { provider, commit } = await shared()
  await using(provider, await forkOf(provider, commit), { projection: "overlay", residentShell: true }, use)
}

/** Children of this process by what they run. */
const childrenThatRun = (program: string): number[] =>
  fs
    .readFileSync(`/proc/self/task/${process.pid}/children`, "utf8")
    .split(" ")
    .filter((pid) => pid !== "")
    .map(Number)
    .filter((pid) => fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").includes(program))

it("W4 W9 bytes of arguments and variables arrive as they are; a command has three descriptors, and an exit code of 137 is no SIGKILL", () =>
  resident(async (workspace) => {
    const odd = "a\nb\t'\"\\ $x `y` \u00e9 \u{1f333}"
    expect((await run(workspace.exec(["printf", "%s", odd]))).stdout.text).toBe(odd)
    const env = { "not-a.name": odd, EMPTY: "" }
    expect((await run(workspace.exec(["printenv", "not-a.name"], { env }))).stdout.text).toBe(`${odd}\n`)
    expect((await run(workspace.exec(["printenv", "EMPTY"], { env }))).stdout.text).toBe("\n")
    const names = await shell(workspace, "env | sed 's/=.*//' | sort")
    const { provider, commit } = await shared()
    await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (other) => {
      expect(await shell(other, "env | sed 's/=.*//' | sort")).toBe(names)
      // What this test's own process was started with beyond three is no business of either.
      const open = "for d in /proc/self/fd/*; do readlink $d; done | grep -c layerfs"
      expect([(await run(workspace.exec(open))).stdout.text, (await run(other.exec(open))).stdout.text]).toEqual([
        "0\n",
        "0\n"
      ])
    })
    expect(await run(workspace.exec("exit 137"))).toMatchObject({ exitCode: 137, signal: null })
    expect(await run(workspace.exec("kill -9 $$"))).toMatchObject({ exitCode: null, signal: "SIGKILL" })
    const large = "x".repeat(3_000_000)
    expect((await run(workspace.exec("wc -c", { stdin: large }))).stdout.text).toBe("3000000\n")
    expect((await run(workspace.exec("true", { stdin: large }))).exitCode).toBe(0)
  }))

it("W17 C95 a command that kills and stops everything it can see reaches neither the shell nor the holder", () =>
  resident(async (workspace) => {
    await shell(workspace, "true")
    const [perl] = childrenThatRun("-e")
    expect(await run(workspace.exec("kill -9 -1"))).toMatchObject({ timedOut: false })
    expect(await run(workspace.exec("kill -STOP -1; kill -9 $$"))).toMatchObject({ signal: "SIGKILL" })
    // The first process, this shell, ls and grep.
    expect(await shell(workspace, "ls /proc | grep -c '^[0-9]'")).toMatch(/^[34]\n$/)
    expect(childrenThatRun("-e")).toEqual([perl])
  }))

it("W9 W12 of a command whose shell was killed from outside nobody says how it ended: it is ended, the files stay, the next one runs", () =>
  resident(async (workspace) => {
    const said: unknown[] = []
    const call = workspace.exec("echo kept > kept; echo up; sleep 1000", { onOutput: (_, bytes) => said.push(bytes) })
    const killed = Effect.promise(async () => {
      while (said.length === 0) await new Promise((resolve) => setTimeout(resolve, 2))
      for (const pid of childrenThatRun("-e")) process.kill(pid, "SIGKILL")
    })
    const [error] = await run(Effect.all([Effect.flip(call), killed], { concurrency: "unbounded" }))
    expect(error).toMatchObject({ _tag: "SpawnFailed", message: expect.stringContaining("nobody knows") })
    expect(await shell(workspace, "cat kept; echo again")).toBe("kept\nagain\n")
    // Nothing of it runs any more: this would be ProcessesRunning.
    expect((await run(workspace.checkpoint())).outcome).toBe("committed")
  }))

it("W9 W4 a shell that was stopped from outside is woken: the command's end is told, and a time limit ends it", () =>
  resident(async (workspace) => {
    await shell(workspace, "true")
    const stop = (): void => childrenThatRun("-e").forEach((pid) => process.kill(pid, "SIGSTOP"))
    stop()
    expect(await shell(workspace, "echo on")).toBe("on\n")
    const stopping = { timeLimitMs: 300, onOutput: stop }
    expect(await run(workspace.exec("echo up; sleep 1000", stopping))).toMatchObject({ timedOut: true })
    expect(await shell(workspace, "echo again")).toBe("again\n")
    stop()
  }))

it("W9 W12 a command whose streams cannot be joined is SpawnFailed, not an exit code; a stream that says nothing holds the end up no longer", async () => {
  const { provider, commit, store } = await shared()
  await using(
    provider,
    await forkOf(provider, commit),
    { projection: "overlay", residentShell: true },
    async (workspace) => {
      await shell(workspace, "true")
      const door = join(store, "layerfs/work", workspace.id, "door/s")
      const mute = net.connect(door)
      atEnd(() => mute.destroy())
      await once(mute, "connect")
      fs.rmSync(door)
      expect(await failure(workspace.exec("touch begun"))).toMatchObject({ _tag: "SpawnFailed" })
      expect(await run(workspace.changes)).toEqual([])
    }
  )
})

it("P4 W12 nothing of it is there where nobody asked, and nothing is left behind the scope", async () => {
  const { provider, commit } = await shared()
  await using(provider, await forkOf(provider, commit), { projection: "overlay" }, async (workspace) => {
    await shell(workspace, "true")
    expect(childrenThatRun("-e")).toEqual([])
  })
  await resident(async (workspace) => {
    await shell(workspace, "true")
    expect(childrenThatRun("-e").length).toBe(1)
    await run(workspace.discard("done"))
    expect(await failure(workspace.exec("true"))).toMatchObject({ _tag: "WorkspaceClosed" })
  })
  expect(childrenThatRun("-e")).toEqual([])
})
