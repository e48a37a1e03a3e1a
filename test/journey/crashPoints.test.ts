/** The list of crash points against the sources, and against what runs really pass. Rules: G75, G82, L8. */
import { spawnSync } from "node:child_process"
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { afterEach, expect, it } from "vitest"
import { crashPoints } from "../../src/base/CrashPointList.ts"
import { faultPoints } from "../../src/base/FaultPoint.ts"
import { Todos } from "../../src/governance/index.ts"
import { newBench, newGoal, newTodo } from "../governance/authority.ts"
import { forkOf, ground } from "../layerfs/projFixture.ts"
import { repository } from "../git-worktree/ground.ts"
import { historyOf, makeTiny, runTiny } from "./tiny.ts"
import { oneFile } from "../oneFile.ts"
import { lackOf, loopImage } from "../reflink/loopImage.ts"

const root = fileURLToPath(new URL("../..", import.meta.url))
const cleanups: (() => void)[] = []
afterEach(() => {
  for (const remove of cleanups.splice(0)) remove()
})

const calledIn = (call: string): string[] => {
  const names: string[] = []
  for (const room of ["src", "providers"]) {
    for (const file of readdirSync(join(root, room), { recursive: true, encoding: "utf8" })) {
      if (!file.endsWith(".ts")) continue
      for (const match of readFileSync(join(root, room, file), "utf8").matchAll(
        new RegExp(`${call}\\(\\s*"([^"]+)"`, "g")
      ))
        names.push(match[1]!)
    }
  }
  return [...new Set(names)].toSorted()
}

it("L8 G82 every crash point and every fault point of the list is called in the sources, and no other", () => {
  expect(calledIn("crashPoint")).toEqual(Object.keys(crashPoints).toSorted())
  expect(calledIn("faultPoint")).toEqual([...faultPoints].toSorted())
})

it("L8 G75 G82 every crash point is passed: by a repair, by the rerun of a killed one, by a workspace that is kept or dropped, by a delivery, an older file, or external operations", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-points-"))
  cleanups.push(() => rmSync(directory, { recursive: true, force: true }))
  const log = join(directory, "passed")
  const whole = makeTiny()
  cleanups.push(whole.remove)
  expect(runTiny(whole.record, { log }).status).toBe(0)
  const killed = makeTiny()
  cleanups.push(killed.remove)
  expect(runTiny(killed.record, { log, crashAt: "turn.hostEnded" }).signal).toBe("SIGKILL")
  // One attempt is begun again by name, the files of both are recovered; killed again in the middle of it.
  expect(runTiny(killed.record, { log, crashAt: "workspace.closed" }).signal).toBe("SIGKILL")
  expect(runTiny(killed.record, { log }).status).toBe(0)
  expect([historyOf(whole.record), historyOf(killed.record)]).toEqual([[], []])

  const { provider, commit, store } = await ground({ a: "a" })
  const victim = await oneFile(join(root, "test/layerfs/projVictim.ts"))
  for (const what of ["evict", "keep", "discard"]) {
    const { status, stderr } = spawnSync(process.execPath, [victim, store, await forkOf(provider, commit), what], {
      encoding: "utf8",
      env: { ...process.env, COPPICE_CRASH_LOG: log }
    })
    expect([status, stderr]).toEqual([0, ""])
  }
  const writer = await oneFile(join(root, "test/layerfs/storeCrashChild.ts"))
  const bundle = join(directory, "bundle")
  const branch = await forkOf(provider, commit)
  for (const args of [
    [store, "commit", branch, "1", "x"],
    [store, "reset", branch, commit],
    [store, "compact"],
    [store, "bundle", commit, bundle],
    [join(directory, "s"), "unbundle", bundle]
  ]) {
    const written = spawnSync(process.execPath, [writer, ...args], {
      encoding: "utf8",
      env: { ...process.env, COPPICE_CRASH_LOG: log }
    })
    expect([written.status, written.stderr]).toEqual([0, ""])
  }
  const life = await oneFile(join(root, "test/git-worktree/programs/life.ts"))
  const lived = spawnSync(process.execPath, [life, join(directory, "worktrees"), repository({ a: "a" })], {
    encoding: "utf8",
    env: { ...process.env, COPPICE_CRASH_LOG: log }
  })
  expect([lived.status, lived.stderr]).toEqual([0, ""])
  const kind = lackOf("btrfs") === null ? "btrfs" : "xfs"
  const lack = lackOf(kind)
  if (lack === null) {
    const { path, remove } = loopImage(kind)
    cleanups.push(remove)
    mkdirSync(join(path, "reflink"))
    const keeper = await oneFile(join(root, "test/reflink/programs/keeper.ts"))
    for (const args of [
      ["keep", "cmt_1", directory],
      ["make", "cmt_1", join(path, "made")],
      ["drop", "cmt_1"]
    ]) {
      const kept = spawnSync(process.execPath, [keeper, join(path, "reflink"), ...args], {
        encoding: "utf8",
        env: { ...process.env, COPPICE_CRASH_LOG: log }
      })
      expect([kept.status, kept.stderr]).toEqual([0, ""])
    }
  } else process.stderr.write(`No state is kept by clones here: ${lack}.\n`)
  // A repair has no origin: a result of its own goes on its way, to where nobody listens.
  const bench = await newBench()
  const todo = await newTodo(bench, await newGoal(bench), {
    origin: { destination: "nobody", channel: "none", requestId: "r" }
  })
  const done = await bench.run(Todos.complete({ todo: todo.id, continuation: { kind: "noFollowUp" } }))
  const sender = await oneFile(join(root, "test/session/programs/sender.ts"))
  const sent = spawnSync(process.execPath, [sender, bench.directory, directory, done.delivery!, ""], {
    encoding: "utf8",
    env: { ...process.env, COPPICE_CRASH_LOG: log }
  })
  expect([sent.status, sent.stderr]).toEqual([0, ""])
  const older = join(directory, "older")
  mkdirSync(older, { mode: 0o700 })
  copyFileSync(join(root, "test/golden/authority-v1.db"), join(older, "authority.db"))
  const opener = await oneFile(join(root, "test/governance/programs/opener.ts"))
  const opened = spawnSync(process.execPath, [opener, older, "cmd_o", "t"], {
    encoding: "utf8",
    env: { ...process.env, COPPICE_CRASH_LOG: log }
  })
  expect([opened.status, opened.stderr]).toEqual([0, ""])
  const operations = await oneFile(join(root, "examples/external-operation/run.ts"))
  const { status, stderr } = spawnSync(process.execPath, [operations], {
    encoding: "utf8",
    env: { ...process.env, COPPICE_CRASH_LOG: log }
  })
  expect(status, stderr).toBe(0)
  const passed = new Set(readFileSync(log, "utf8").trim().split("\n"))
  const possible = Object.keys(crashPoints).filter((name) => lack === null || !name.startsWith("reflink."))
  expect(possible.filter((name) => !passed.has(name))).toEqual([])
}, 600_000)
