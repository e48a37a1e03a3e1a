import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { assert, describe, test } from "vitest"
import { commandHost, inProcessHost, processHost } from "../../providers/host-process/index.ts"
import { sha256 } from "../../src/base/Digest.ts"
import { Leases, Todos } from "../../src/governance/index.ts"
import type { Host, TurnRequest } from "../../src/host/index.ts"
import { eventually, mark, marked } from "../host/scenes.ts"
import { newScene, read, type Scene } from "./scene.ts"
import { answer, exists, shellWriter, writer } from "./hosts.ts"

const phases = [
  "turn.admitted",
  "turn.contextIssued",
  "turn.attemptSaved",
  "turn.resultRecorded",
  "turn.validated",
  "turn.settled",
  "turn.closed"
]

describe("a turn on the minimal preset", () => {
  test("G80 G72 S54 in process: phases in order, the result kept, accepted by the callback, settled once, labelled as in-process", async () => {
    const scene = await newScene()
    const asked: TurnRequest[] = []
    const done = await scene.run(scene.drive(writer(scene, "right", asked)))
    assert.deepEqual(
      (await scene.journal("turn.")).map((entry) => entry.type),
      phases
    )
    assert.equal(asked.length, 1)
    assert.deepInclude(asked[0]!, {
      turnKey: done.turn.id,
      instruction: "write the value",
      root: scene.files,
      budget: { usd: 1, timeLimitMs: 30_000 }
    })
    const [turn] = await scene.turns()
    assert.deepInclude(turn!, { state: "closed", phase: "close", settlement: done.settlement })
    assert.equal(turn!.attempts[0]!.host, "in-process:writer")
    // No executor was proven gone, because there was none.
    assert.equal(turn!.result!.provenGone, null)
    assert.equal(turn!.result!.digest, sha256(readFileSync(join(scene.place, "results", `${turn!.id}.json`))))
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
  })

  test("G82 a closed turn that is driven again gives the same receipt: no host, no fact, no spend", async () => {
    const scene = await newScene()
    const asked: TurnRequest[] = []
    const first = await scene.run(scene.drive(writer(scene, "right", asked)))
    const before = (await scene.journal()).length
    const again = await scene.run(scene.drive(writer(scene, "wrong", asked), { interrupted: "retry" }))
    assert.deepEqual([again.settlement, again.turn.id, again.outcome], [first.settlement, first.turn.id, first.outcome])
    assert.equal(asked.length, 1)
    assert.equal((await scene.journal()).length, before)
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
  })

  test("G80 G72 a todo that was kept open gets a further turn after the settled one, once, however often it is asked for", async () => {
    const scene = await newScene()
    const asked: TurnRequest[] = []
    const first = await scene.run(scene.drive(writer(scene, "nearly", asked)))
    const after = first.turn.id
    const second = await scene.run(scene.drive(writer(scene, "right", asked), { after }))
    const again = await scene.run(scene.drive(writer(scene, "wrong", asked), { after }))
    assert.notEqual(second.turn.id, after)
    assert.deepEqual([again.turn.id, again.settlement], [second.turn.id, second.settlement])
    assert.deepEqual(
      asked.map((request) => request.turnKey),
      [after, second.turn.id]
    )
    assert.deepEqual(await scene.settlements(), { total: 2, accepted: 1 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.5, owed: 0 })
    assert.deepInclude(await scene.fails(scene.drive(writer(scene), { after: "turn_nowhere" })), { code: "NOT_FOUND" })
  })

  test("S24 a turn adds no signal or exit handler to the application's process, neither while it runs nor afterwards", async () => {
    const scene = await newScene()
    const events = ["SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "beforeExit", "exit", "uncaughtException"]
    const listeners = () => events.map((event) => process.listenerCount(event))
    const before = listeners()
    let during: readonly number[] = []
    const script = 'echo \'{"coppice":"progress","text":"here"}\' >&2; cat > /dev/null; exit 1'
    await scene.run(
      scene.drive(processHost(["sh", "-c", script]), {
        onProgress: () => {
          during = listeners()
        }
      })
    )
    assert.deepEqual(during, before)
    assert.deepEqual(listeners(), before)
  })

  test("G80 G72 S51 S23 with a process: its identity and guarantee are journaled between dispatch and result, and it is proven gone", async () => {
    const scene = await newScene()
    const done = await scene.run(scene.drive(shellWriter()))
    const types = (await scene.journal("turn.")).map((entry) => entry.type)
    assert.deepEqual(types, [...phases.slice(0, 3), "turn.executorStarted", ...phases.slice(3)])
    const [turn] = await scene.turns()
    assert.equal(turn!.attempts[0]!.host, "host-process")
    assert.isNumber(turn!.executor!.pid)
    assert.isBoolean(turn!.guarantee!.diesWithParent)
    assert.equal(turn!.result!.provenGone, true)
    assert.equal(read(scene, "dispatches"), "dispatched\n")
    assert.deepInclude(done.outcome, { status: "ok" })
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
  })

  test("G71 G72 a host that says completed is not accepted when the validator refuses its files", async () => {
    const scene = await newScene()
    const done = await scene.run(scene.drive(shellWriter("echo nearly > value")))
    assert.deepInclude((done.outcome as { readonly result: object }).result, { outcome: "completed" })
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 0 })
    assert.equal((await scene.run(Todos.get({ todo: scene.todo }))).state, "open")
  })
})

describe("what goes wrong", () => {
  const failures: readonly (readonly [name: string, host: (scene: Scene) => Host, class_: string, check: string])[] = [
    ["ends with a code", () => shellWriter("exit 3"), "unknown", "exit-code"],
    ["answers for another turn", () => shellWriter(`request='"turnKey":"another"'`), "contract", "turn-key"],
    [
      "throws",
      () =>
        inProcessHost("thrower", () => {
          throw new Error("secret")
        }),
      "unknown",
      "threw"
    ]
  ]
  for (const [name, host, class_, check] of failures) {
    test(`G84 G55 a host that ${name} settles as failed, and its cost stays held as unknown`, async () => {
      const scene = await newScene()
      const done = await scene.run(scene.drive(host(scene)))
      assert.deepInclude(done.outcome, { status: "failed", class: class_, check })
      const [turn] = await scene.turns()
      assert.deepInclude(turn!, { state: "closed" })
      assert.deepInclude(turn!.result!, { status: "failed", usd: "unknown", failure: { class: class_, check } })
      assert.deepEqual(await scene.settlements(), { total: 1, accepted: 0 })
      assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0, owed: 1 })
      assert.notInclude(JSON.stringify(await scene.journal()), "secret")
    })
  }

  test("G55 a host whose program cannot be started has cost nothing, and that is known: it settles as failed and frees what was held", async () => {
    const scene = await newScene()
    const done = await scene.run(scene.drive(processHost(["no-such-program"])))
    assert.deepInclude(done.outcome, { status: "failed", check: "spawn", started: false })
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 0 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0, owed: 0 })
  })

  test("S23 G85 an interrupted turn ends its whole process group, is recorded as failed, and is started again only by name", async () => {
    const scene = await newScene()
    const { name, value } = mark()
    const host = processHost(["sh", "-c", "sleep 1000 & echo started > started; sleep 1000"], {
      env: { [name]: value },
      graceMs: 100
    })
    const fiber = await scene.run(Effect.forkDetach(scene.drive(host)))
    await eventually("the host and its child run", () => marked(value).length >= 2 && exists(scene, "started"))
    await Effect.runPromise(Fiber.interrupt(fiber))
    assert.deepEqual(marked(value), [])
    const [turn] = await scene.turns()
    assert.deepInclude(turn!, { state: "failed" })
    assert.deepInclude(turn!.failure!, { class: "failed" })
    assert.include(turn!.failure!.reason, "cancelled")
    assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0, owed: 1 })
    assert.deepEqual(await scene.settlements(), { total: 0, accepted: 0 })

    const explained = await scene.fails(scene.drive(shellWriter()))
    assert.deepInclude(explained, { code: "TURN_INTERRUPTED", turn: turn!.id })
    assert.include(explained.message, "cancelled by the caller")
    assert.isFalse(exists(scene, "dispatches"))
    const done = await scene.run(scene.drive(shellWriter(), { interrupted: "retry" }))
    assert.equal(done.turn.id, turn!.id)
    const [retried] = await scene.turns()
    assert.deepEqual(
      retried!.attempts.map((a) => [a.number, a.retry]),
      [
        [1, null],
        [2, "the earlier attempt was failed: cancelled by the caller"]
      ]
    )
    // The first attempt's cost is still unknown; the second's is known and paid.
    assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0.25, owed: 1 })
  })

  test("G85 S54 an in-process host that ignores its abort is a supervision failure, so no second executor starts", async () => {
    const scene = await newScene()
    let release = (): void => {}
    let started = false
    const host = inProcessHost("deaf", async ({ request }) => {
      started = true
      await new Promise<void>((done) => {
        release = done
      })
      return answer(request)
    })
    const failed = await scene.fails(scene.drive(host, { timeLimitMs: 50 }))
    assert.isTrue(started)
    assert.equal(failed.code, "SUPERVISION_FAILED")
    const asked: TurnRequest[] = []
    const next = await scene.fails(scene.drive(writer(scene, "right", asked), { interrupted: "retry" }))
    assert.equal(next.code, "TURN_IN_FLIGHT")
    assert.equal(asked.length, 0)
    release()
  })

  test("G85 S54 the same host interrupted by the caller is not written down as a normal failure either", async () => {
    const scene = await newScene()
    let release = (): void => {}
    let started = false
    const host = inProcessHost("deaf", async ({ request }) => {
      started = true
      await new Promise<void>((done) => {
        release = done
      })
      return answer(request)
    })
    const fiber = await scene.run(Effect.forkDetach(scene.drive(host)))
    await eventually("the host runs", () => started)
    await Effect.runPromise(Fiber.interrupt(fiber))
    assert.equal((await scene.turns())[0]!.failure?.class, "supervisionFailed")
    assert.equal((await scene.turns())[0]!.state, "open")
    const asked: TurnRequest[] = []
    const next = await scene.fails(scene.drive(writer(scene, "right", asked), { interrupted: "retry" }))
    assert.equal(next.code, "TURN_IN_FLIGHT")
    assert.equal(asked.length, 0)
    release()
  })

  test("P3 a host that is not ready is refused before anything is admitted, held or dispatched, and says what it lacks", async () => {
    const scene = await newScene()
    const before = (await scene.journal()).length
    for (const argv of [[], ["sh", "-c", "x".repeat(1025)]]) {
      const error = await scene.fails(scene.drive(processHost(argv)))
      assert.deepInclude(error, { code: "HOST_NOT_READY", host: "host-process" })
      assert.equal(error.missing.length, 1)
    }
    assert.equal((await scene.journal()).length, before)
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0, owed: 0 })
    await scene.run(scene.drive(shellWriter()))
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
  })

  test("G55 C58 a bound that the budget does not hold is refused before dispatch: no host, no turn, no hold", async () => {
    for (const budget of [
      { usd: 0.5, slots: 5 },
      { usd: 0, slots: 5 },
      { usd: 5, slots: 0 }
    ]) {
      const scene = await newScene(budget)
      const asked: TurnRequest[] = []
      const error = await scene.fails(scene.drive(writer(scene, "right", asked)))
      assert.equal(error.code, "QUOTA_EXCEEDED")
      assert.equal(asked.length, 0)
      assert.deepEqual(await scene.turns(), [])
      assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0, owed: 0 })
    }
  })

  test("G35 C64 when the lease goes to another while the host runs, the result and cost are kept and nothing settles under the old fence", async () => {
    const scene = await newScene()
    const asked: TurnRequest[] = []
    const host = inProcessHost("slow", async ({ request }) => {
      asked.push(request)
      await scene.run(Leases.release({ fence: scene.fence }))
      writeFileSync(join(scene.files, "value"), "right")
      return answer(request)
    })
    const lost = await scene.fails(scene.drive(host))
    assert.equal(lost.code, "LEASE_LOST")
    const [turn] = await scene.turns()
    assert.deepInclude(turn!.result!, { status: "ok", usd: 0.25 })
    assert.deepEqual([turn!.state, turn!.phase], ["open", "validate"])
    assert.equal(read(scene, "value"), "right")
    assert.deepEqual(await scene.settlements(), { total: 0, accepted: 0 })
    assert.equal((await scene.fails(scene.drive(host))).code, "LEASE_LOST")

    const { fence } = await scene.run(Leases.acquire({ todo: scene.todo, agent: "ada" }))
    const done = await scene.run(scene.drive(host, { fence }))
    assert.deepEqual([done.turn.id, asked.length], [turn!.id, 1])
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
  })

  for (const [how, harm] of [
    ["removed", (path: string) => rmSync(path)],
    ["altered", (path: string) => writeFileSync(path, readFileSync(path, "utf8").replace("0.25", "0.01"))]
  ] as const) {
    test(`G51 G82 a result file that was ${how} reads as unknown, and the journaled amount is what is paid`, async () => {
      const scene = await newScene()
      const asked: TurnRequest[] = []
      const host = inProcessHost("writer", async ({ request }) => {
        asked.push(request)
        await scene.run(Leases.release({ fence: scene.fence }))
        writeFileSync(join(scene.files, "value"), "right")
        return answer(request)
      })
      assert.equal((await scene.fails(scene.drive(host))).code, "LEASE_LOST")
      const [turn] = await scene.turns()
      harm(join(scene.place, "results", `${turn!.id}.json`))
      const { fence } = await scene.run(Leases.acquire({ todo: scene.todo, agent: "ada" }))
      const done = await scene.run(scene.drive(host, { fence }))
      assert.equal(done.outcome, null)
      assert.equal(asked.length, 1)
      assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
    })
  }
})

describe("a plain command on the minimal preset", () => {
  test("S50 G72 its files are judged, its stated price is spent, its output is in the record and nowhere else", async () => {
    const scene = await newScene()
    const script = "cat >/dev/null; echo right > value; echo hunter2; seq 1 400000 >&2; echo the last line >&2"
    const done = await scene.run(scene.drive(commandHost(script, { usd: 0 })))
    assert.deepEqual([done.turn.result!.claim, done.turn.result!.summary], ["completed", "exit code 0"])
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 1 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0, owed: 0 })
    const text = (stream: string) => readFileSync(join(scene.place, "results", `${done.turn.id}.${stream}`), "utf8")
    assert.equal(text("stdout"), "hunter2\n")
    // Its first MiB and its last 64 KiB, and how much is missing between them.
    const all = `${Array.from({ length: 400_000 }, (_, index) => index + 1).join("\n")}\nthe last line\n`
    const [head, tail] = [all.slice(0, 1024 * 1024), all.slice(-64 * 1024)]
    assert.equal(text("stderr"), `${head}\n[${all.length - head.length - tail.length} bytes left out]\n${tail}`)
    assert.notInclude(JSON.stringify([await scene.journal(), await scene.turns()]), "hunter2")
  })

  test("S50 G55 a command that fails is a claim of failure, and without a stated price its reservation is held", async () => {
    const scene = await newScene()
    const done = await scene.run(scene.drive(commandHost("exit 7")))
    assert.deepEqual([done.turn.result!.claim, done.turn.result!.summary], ["failed", "exit code 7"])
    assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0, owed: 1 })
    assert.deepEqual(await scene.settlements(), { total: 1, accepted: 0 })
  })
})

describe("a session of the host", () => {
  const session = { id: "s-1", directory: "/agent/tree", home: "/agent/state" }

  test("S22 P3 a host that cannot resume is refused before anything is held, and another session than the one asked for counts for nothing", async () => {
    const scene = await newScene()
    const refused = await scene.fails(scene.drive(shellWriter(), { resume: session }))
    assert.deepInclude(refused, { code: "RESUME_UNSUPPORTED" })
    assert.deepEqual([await scene.turns(), await scene.quota()], [[], { reserved: 0, spent: 0, owed: 0 }])
    const script = `key=$(sed 's/.*"turnKey":"\\([^"]*\\)".*/\\1/'); echo right > value
      printf '{"protocol":"coppice.turn","version":1,"turnKey":"%s","outcome":"completed","summary":"s","session":{"id":"s-2","directory":"/agent/tree","home":"/agent/state"}}' "$key"`
    const host = processHost(["sh", "-c", script], { resumes: true })
    const mismatch = await scene.fails(scene.drive(host, { resume: session }))
    assert.deepInclude(mismatch, { code: "RESUME_MISMATCH", field: "id" })
    const [turn] = await scene.turns()
    assert.deepInclude(turn!, { state: "failed", settlement: null })
    assert.deepEqual(await scene.quota(), { reserved: 1, spent: 0, owed: 1 })
    assert.notMatch(JSON.stringify(await scene.journal()), /s-[12]|agent\/state/)
  })
})
