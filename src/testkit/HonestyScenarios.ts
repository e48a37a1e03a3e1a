/**
 * What the suite asks of failures: each is told as what it is, nothing is done twice, and no work is lost by one (K3).
 * Promise: see WorkspaceConformance.ts. Rules: K3, W4, W9, W10, W12, W15, W19, W23, L8, L10.
 */
import assert from "node:assert/strict"
import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { readdirSync, readFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import type { CheckpointOutcome } from "../workspace/WorkspaceProvider.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { offers, secondProcess } from "./WorkspaceNeeds.ts"
import { answered, committed, headOf, inside, textAt, type WorkspaceScene } from "./WorkspaceScene.ts"
import type { WorkspaceWorker } from "./WorkspaceWorker.ts"

/** Processes of this machine that were started with this word. */
const processesWith = (word: string): readonly string[] =>
  readdirSync("/proc").filter((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return readFileSync(`/proc/${name}/cmdline`, "utf8").split("\0").includes(word)
    } catch {
      return false
    }
  })

/** A number of seconds that nothing else on the machine sleeps for. */
const longSleep = (): string => `${10_000 + (process.pid % 1000)}.${Date.now() % 100_000}`

/** Opens a workspace in a worker; its id. */
const openThere = async (worker: WorkspaceWorker, branch: string, options: object): Promise<string> =>
  (answered(await worker.call("open", branch, options)) as { readonly id: string }).id

/** Ends what a provider without a namespace may not have ended with its process. */
const endSleepers = (sleep: string): void => {
  for (const pid of processesWith(sleep)) process.kill(Number(pid), "SIGKILL")
}

/** A workspace that a killed process left behind, with `made` in it: what becomes of it. */
const interrupted = async (
  scene: WorkspaceScene,
  decide: (left: string, at: { readonly branch: string; readonly head: string }) => Promise<void>
): Promise<void> => {
  const { branch, head } = await scene.branchOn({ f: "f" })
  const sleep = longSleep()
  try {
    const left = await killedIn(scene, branch, sleep)
    await decide(left, { branch, head })
    assert.deepEqual(await scene.run(scene.provider.left), [])
    assert.equal(await headOf(scene, branch), head)
  } finally {
    endSleepers(sleep)
  }
}

const killedIn = async (scene: WorkspaceScene, branch: string, sleep: string): Promise<string> => {
  const worker = await scene.worker()
  const workspace = await openThere(worker, branch, scene.options)
  answered(await worker.inside(workspace, "write", "made", "inside"))
  answered(await worker.inside(workspace, "start", ["sleep", sleep]))
  await worker.kill()
  const [left, ...more] = await scene.run(scene.provider.left)
  assert.deepEqual([left?.branch, left?.state, more], [branch, "interrupted", []])
  return left!.id
}

const diskFull = ["FILE_SYSTEM_FAILURE", "STORAGE_FAILURE", "STORE_LOCATION", "UNAVAILABLE", "PATH_ERROR"]

export const honestyScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K3", "W9"],
    name: "a command that fails is a result: its exit code or signal, its output, and the files that it left",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      await scene.using(branch, async (workspace) => {
        const failed = await scene.run(workspace.exec("echo half > half; echo told; echo why >&2; exit 7"))
        assert.deepEqual(
          [failed.exitCode, failed.signal, failed.timedOut, failed.stdout.text, failed.stderr.text],
          [7, null, false, "told\n", "why\n"]
        )
        const killed = await scene.run(workspace.exec(["sh", "-c", "echo more > more; kill -9 $$"]))
        assert.ok(killed.signal === "SIGKILL" || killed.exitCode === 137, `exit ${killed.exitCode} ${killed.signal}`)
        await scene.refused("SPAWN_FAILED", workspace.exec(["no-such-program-anywhere"]))
        await committed(scene, workspace)
      })
      assert.deepEqual([await textAt(scene, branch, "half"), await textAt(scene, branch, "more")], ["half\n", "more\n"])
    }
  },
  {
    rules: ["K3", "W9"],
    name: "a time limit ends the command and what it started, says so, and the workspace goes on with its files",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const sleep = longSleep()
      try {
        await scene.using(branch, async (workspace) => {
          const command = `echo before > before; sleep ${sleep} & sleep ${sleep}`
          // A limit that ends it before it has begun shows too little: a slow machine gets more.
          for (let limit = 500, began = false; !began; limit *= 2) {
            const result = await scene.run(workspace.exec(command, { timeLimitMs: limit }))
            assert.deepEqual([result.timedOut, result.exitCode === 0], [true, false])
            assert.deepEqual(processesWith(sleep), [])
            began = (await inside(scene, workspace, "cat before || true")) === "before\n"
            assert.ok(began || limit < 60_000, "the command had not begun when its time was over")
          }
          await committed(scene, workspace)
        })
      } finally {
        endSleepers(sleep)
      }
      assert.equal(await textAt(scene, branch, "before"), "before\n")
    }
  },
  {
    rules: ["K3", "W10"],
    name: "an operation whose reply was lost is found by its id after a restart, and repeating it makes no second commit",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f" })
      assert.deepEqual(await scene.run(scene.provider.findOperation("op-none")), { state: "absent" })
      const write = { op: "write", path: "f", bytes: "direct" } as const
      const made = await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("f", "changed"))
        return (await committed(scene, workspace, { operationId: "op-lost" })).commit
      })
      await scene.reopen()
      assert.deepEqual(await scene.run(scene.provider.findOperation("op-lost")), { state: "recorded", commit: made })
      await scene.using(branch, async (workspace) => {
        const again = await scene.run(workspace.checkpoint({ operationId: "op-lost" }))
        assert.equal(again.commit, made)
      })
      const first = await scene.run(scene.provider.applyTo(branch, [write], { operationId: "op-direct" }))
      const second = await scene.run(scene.provider.applyTo(branch, [write], { operationId: "op-direct" }))
      assert.deepEqual([second.commit, await headOf(scene, branch)], [first.commit, first.commit])
      assert.notEqual(first.commit, head)
      const fork = await scene.run(scene.provider.fork(branch, { operationId: "op-fork" }))
      const forked = await scene.run(scene.provider.fork(branch, { operationId: "op-fork" }))
      assert.equal(forked.id, fork.id)
    }
  },
  {
    rules: ["K3", "W10"],
    name: "an operation id that stands for something else is OperationUsed, and nothing is done",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const other = await scene.run(scene.provider.fork(branch))
      await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("f", "changed"))
        await committed(scene, workspace, { operationId: "op-taken" })
      })
      const branches = (await scene.run(scene.provider.stats)).branches
      await scene.using(other.id, async (workspace) => {
        await scene.run(workspace.write("f", "other"))
        await scene.refused("OPERATION_USED", workspace.checkpoint({ operationId: "op-taken" }))
        assert.equal(Buffer.from(await scene.run(workspace.read("f"))).toString(), "other")
        await scene.run(workspace.discard("refused"))
      })
      const write = { op: "write", path: "g", bytes: "g" } as const
      await scene.refused("OPERATION_USED", scene.provider.applyTo(other.id, [write], { operationId: "op-taken" }))
      await scene.refused("OPERATION_USED", scene.provider.fork(branch, { operationId: "op-taken" }))
      assert.equal(await headOf(scene, other.id), other.head)
      assert.equal((await scene.run(scene.provider.stats)).branches, branches)
    }
  },
  {
    rules: ["K3", "W12", "W23"],
    name: "a workspace whose process was killed is told as interrupted, and recovered to a branch of its own",
    needs: [secondProcess],
    body: (scene) =>
      interrupted(scene, async (left, { branch }) => {
        const { branch: recovered, checkpoint } = await scene.run(
          scene.provider.recover(left, { operationId: "op-recover" })
        )
        assert.equal(checkpoint.outcome, "committed")
        assert.notEqual(recovered, branch)
        assert.deepEqual([await textAt(scene, recovered, "made"), await textAt(scene, recovered, "f")], ["inside", "f"])
        await scene.refused("REF_NOT_FOUND", scene.provider.recover(left))
      })
  },
  {
    rules: ["K3", "W12", "W23"],
    name: "a workspace whose process was killed is dropped by command only, and the branch stays where it was",
    needs: [secondProcess],
    body: (scene) =>
      interrupted(scene, async (left, { branch }) => {
        await scene.reopen()
        assert.equal((await scene.run(scene.provider.left))[0]?.id, left)
        await scene.run(scene.provider.discardLeft(left, "not wanted"))
        await scene.refused("REF_NOT_FOUND", scene.provider.discardLeft(left, "again"))
        await scene.using(branch, async (workspace) => {
          assert.equal(await inside(scene, workspace, "ls"), "f\n")
        })
      })
  },
  {
    rules: ["K3", "L8", "W10"],
    name: "what a process was answered before it was killed is there; what it was not is there once or not at all",
    needs: [secondProcess],
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const worker = await scene.worker()
      const write = (n: number) => [{ op: "write", path: `n${n}`, bytes: `${n}` } as const]
      const answers: number[] = []
      const sent = Array.from({ length: 30 }, async (_, n) => {
        answered(await worker.call("applyTo", branch, write(n), { operationId: `op-${n}` }))
        answers.push(n)
        if (answers.length === 8) await worker.kill()
      })
      await Promise.allSettled(sent)
      assert.ok(answers.length >= 8)
      await scene.reopen()
      for (const n of answers) {
        assert.equal((await scene.run(scene.provider.findOperation(`op-${n}`))).state, "recorded")
        assert.equal(await textAt(scene, branch, `n${n}`), `${n}`)
      }
      for (let n = 0; n < 30; n += 1) {
        await scene.run(scene.provider.applyTo(branch, write(n), { operationId: `op-${n}` }))
      }
      assert.equal((await scene.run(scene.provider.listAt(branch, ""))).length, 31)
      if (scene.manifest.history) {
        const { commits } = await scene.run(scene.provider.log(branch))
        const operations = commits.map(({ operationId }) => operationId).filter((id) => id.startsWith("op-"))
        assert.deepEqual([operations.length, new Set(operations).size], [30, 30])
      }
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
    }
  },
  {
    rules: ["K3", "W10", "W23"],
    name: "a checkpoint whose process was killed in the middle of it is committed whole or not at all, and nothing of the work is lost",
    needs: [secondProcess],
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f" })
      const worker = await scene.worker()
      const workspace = await openThere(worker, branch, scene.options)
      answered(await worker.inside(workspace, "exec", "for n in $(seq 300); do echo $n > n$n; done"))
      const reply = worker.inside(workspace, "checkpoint", { operationId: "op-killed" }).then(
        (end) => answered(end) as CheckpointOutcome,
        () => undefined
      )
      // By now the store may have it or not: what is found out later is the only truth.
      await scene.run(scene.provider.findOperation("op-killed"))
      await worker.kill()
      const told = await reply
      const found = await scene.run(scene.provider.findOperation("op-killed"))
      if (told !== undefined) assert.deepEqual(found, { state: "recorded", commit: told.commit })
      assert.equal(await headOf(scene, branch), found.state === "recorded" ? found.commit : head)
      const left = await scene.run(scene.provider.left)
      assert.equal(left.length, 1)
      const recovered = await scene.run(scene.provider.recover(left[0]!.id))
      for (const ref of [recovered.branch, ...(found.state === "recorded" ? [branch] : [])]) {
        assert.equal((await scene.run(scene.provider.listAt(ref, ""))).length, 301)
        assert.equal(await textAt(scene, ref, "n300"), "300\n")
      }
    }
  },
  {
    rules: ["K3", "W12"],
    name: "what no checkpoint holds is kept at the end of a workspace, and nothing is left of one that had nothing",
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f" })
      await scene.using(branch, async () => undefined)
      assert.deepEqual(await scene.run(scene.provider.left), [])
      await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("kept", "kept"))
        await inside(scene, workspace, "rm f")
      })
      await scene.reopen()
      const [left] = await scene.run(scene.provider.left)
      assert.deepEqual([left?.branch, left?.base, left?.state], [branch, head, "kept"])
      const recovered = await scene.run(scene.provider.recover(left!.id))
      const listed = await scene.run(scene.provider.listAt(recovered.branch, ""))
      assert.deepEqual(
        listed.map(({ path }) => path),
        ["kept"]
      )
      assert.equal(await headOf(scene, branch), head)
    }
  },
  {
    rules: ["K3", "W19"],
    name: "a checkpoint beside running processes is refused by their names, frozen, or labelled live and no candidate",
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const sleep = longSleep()
      await scene.using(branch, async (workspace) => {
        await scene.run(
          Effect.scoped(
            Effect.gen(function* () {
              yield* workspace.write("made", "made")
              const running = yield* workspace.start(["sh", "-c", `echo ready; sleep ${sleep}`])
              yield* Effect.promise(() => once(running.stdout, "data"))
              const refusal = yield* Effect.promise(() => scene.refused("PROCESSES_RUNNING", workspace.checkpoint()))
              const named = refusal["processes"] as readonly { readonly command: string }[]
              assert.ok(named.some(({ command }) => /sh|sleep/.test(command)))
              const live = yield* workspace.checkpoint({ allowLive: true })
              assert.deepEqual([live.outcome, live.outcome === "committed" && live.live], ["committed", true])
              const options = { environment: `sha256:${"0".repeat(64)}`, parent: null } as const
              yield* Effect.promise(() =>
                scene.refused("CANDIDATE_REFUSED", scene.provider.candidate(live.commit, options))
              )
              yield* workspace.write("made", "again")
              const still = yield* workspace.checkpoint({ quiesce: true })
              assert.ok(still.outcome === "committed" && !still.live && (still.quiesced ?? 0) >= 1)
              yield* scene.provider.candidate(still.commit, options)
              yield* running.kill({ graceMs: 0 })
              assert.equal(yield* running.provenGone, true)
            })
          )
        )
        const { outcome } = await scene.run(workspace.checkpoint())
        assert.equal(outcome, "unchanged")
      })
      assert.deepEqual(processesWith(sleep), [])
    }
  },
  {
    rules: ["K3", "W15"],
    name: "a cap that would be passed is StoreQuotaExceeded: nothing moves, the files stay, and with more room they are recovered",
    needs: [
      ({ manifest }) => (manifest.quota ? null : "the manifest says quota: false"),
      offers("openCapped", "the store cannot be opened with a cap")
    ],
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f" })
      const noise = randomBytes(6 * 2 ** 20)
      // Where it is not measured the cap is one that this tree stays far below.
      const used = (await scene.run(scene.provider.stats)).storedBytes ?? 2 ** 20
      await scene.reopen(scene.place.openCapped!(used + 2 ** 20))
      await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("noise", noise))
        const refusal = await scene.refused("STORE_QUOTA_EXCEEDED", workspace.checkpoint())
        assert.equal(refusal["limitBytes"], used + 2 ** 20)
        assert.ok(Buffer.from(await scene.run(workspace.read("noise"))).equals(noise))
      })
      assert.equal(await headOf(scene, branch), head)
      assert.equal(await textAt(scene, branch, "f"), "f")
      await scene.reopen()
      const [left] = await scene.run(scene.provider.left)
      const { branch: recovered } = await scene.run(scene.provider.recover(left!.id))
      assert.ok(Buffer.from(await scene.run(scene.provider.readAt(recovered, "noise"))).equals(noise))
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
    }
  },
  {
    rules: ["K3", "W15"],
    name: "a full disk is told, loses nothing that was acknowledged, and work goes on once there is room",
    small: true,
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      const noise = randomBytes(2 ** 20)
      const { first: kept, shared } = await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("first", noise))
        const first = (await committed(scene, workspace)).commit
        await scene.run(workspace.write("second", randomBytes(4 * 2 ** 20)))
        scene.place.leaveFree!(512 * 1024)
        // One whose states share what is there already needs no room for them.
        const shared = await scene.run(
          workspace.checkpoint({ operationId: "op-full" }).pipe(
            Effect.map((outcome) => (outcome.outcome === "committed" ? outcome.commit : null)),
            Effect.catch(() => Effect.succeed(null))
          )
        )
        if (shared === null) await scene.refused(diskFull, workspace.checkpoint({ operationId: "op-full" }))
        const full = await scene.run(workspace.exec("head -c 8000000 /dev/urandom > third"))
        assert.notEqual(full.exitCode, 0, "a file that has no room was written")
        return { first, shared }
      })
      assert.equal(await headOf(scene, branch), shared ?? kept)
      assert.ok(Buffer.from(await scene.run(scene.provider.readAt(kept, "first"))).equals(noise))
      scene.place.leaveFree!(32 * 2 ** 20)
      await scene.reopen()
      assert.deepEqual(
        await scene.run(scene.provider.findOperation("op-full")),
        shared === null ? { state: "absent" } : { state: "recorded", commit: shared }
      )
      const [left] = await scene.run(scene.provider.left)
      const { branch: recovered } = await scene.run(scene.provider.recover(left!.id))
      assert.equal((await scene.run(scene.provider.statAt(recovered, "second"))).size, 4 * 2 ** 20)
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
      await scene.using(branch, async (workspace) => {
        await inside(scene, workspace, "echo on > f")
        await committed(scene, workspace)
      })
      assert.equal(await textAt(scene, branch, "f"), "on\n")
    }
  },
  {
    rules: ["K3", "L10"],
    name: "stored bytes that were altered are named by verify, and are never handed out: not by a read, not by an export, nor, where the manifest says so, in a workspace",
    needs: [offers("damage", "there is no way to alter stored bytes")],
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: randomBytes(2 ** 20), "d/g": randomBytes(2 ** 20) })
      await scene.close()
      await scene.place.damage!()
      await scene.reopen()
      const { ok, damaged } = await scene.run(scene.provider.verify())
      assert.equal(ok, false)
      assert.ok(
        damaged.some(({ paths, commits }) => paths.length > 0 && commits.length > 0),
        "no path, or no commit"
      )
      for (const path of ["f", "d/g"]) await scene.refused("OBJECT_DAMAGED", scene.provider.readAt(branch, path))
      if (scene.manifest.checksOpened) {
        await scene.refused("OBJECT_DAMAGED", Effect.scoped(scene.provider.open(branch, scene.options)))
      }
      await scene.refused("OBJECT_DAMAGED", scene.provider.exportDirectory(branch, scene.directory("export")))
    }
  }
]
