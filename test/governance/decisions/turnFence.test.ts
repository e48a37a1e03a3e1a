/** Whether a turn's processes may still run, who may move it, what follows its phase, and what is tried again. Rules: G80, G81, G82, G84, G85. */
import { assert, test } from "vitest"
import type { Json } from "../../../src/base/Digest.ts"
import type { ProcessIdentity } from "../../../src/base/Spawn.ts"
import { Turns } from "../../../src/governance/index.ts"
import { mayTryAgain, triedAgain, triesOf } from "../../../src/governance/RetryPolicy.ts"
import {
  besideNone,
  driven,
  inFlight,
  known,
  liveness,
  type Observed,
  sameProcess,
  seenAlive,
  thisProcess
} from "../../../src/governance/TurnFence.ts"
import {
  inPhase,
  nextStep,
  phases,
  type TurnAttempt,
  type TurnRecord,
  turnTable
} from "../../../src/governance/TurnRecord.ts"
import { recording, rowOf, told } from "./decide.ts"
import { fence, hostResult, me, other, third, turn } from "./workRecords.ts"

test("G81 a process is the same one where its pid, start, boot and namespace are", () => {
  assert.isTrue(sameProcess(me, { ...me }))
  for (const change of [{ pid: 99 }, { startTime: "99" }, { bootId: "99" }, { pidNamespace: "99" }])
    assert.isFalse(sameProcess(me, { ...me, ...change }))
})

const running = thisProcess()
const gone: ProcessIdentity = { ...running, startTime: "1" }
/** In another pid namespace, under a pid that is not here. */
const hidden: ProcessIdentity = { pid: 2 ** 30, startTime: "1", bootId: running.bootId, pidNamespace: "pid:[1]" }

test("G81 G85 S21 a driver that lives or cannot be seen decides; of a dead one, what is known of its executor does", () => {
  assert.equal(liveness(turn({ fence: running, phase: "execute" }), me), true)
  assert.equal(liveness(turn({ fence: hidden, phase: "execute" }), me), "unknown")
  // One's own process is at nothing but what it says.
  assert.equal(liveness(turn({ fence: running, phase: "execute" }), running), "unknown")
  assert.equal(liveness(turn({ fence: running }), running), false)
  for (const mine of [true, false]) {
    const observer = mine ? gone : running
    for (const phase of phases) {
      for (const [executor, its] of [
        [null, null],
        [running, true],
        [gone, false],
        [hidden, "unknown"]
      ] as const) {
        for (const provenGone of ["none", null, true, false] as const) {
          for (const diesWithParent of [null, true, false]) {
            for (const survived of [true, false]) {
              const record = turn({
                fence: gone,
                phase,
                executor,
                result: provenGone === "none" ? null : hostResult({ provenGone }),
                guarantee: diesWithParent === null ? null : { diesWithParent, wholeTree: true },
                failure: survived ? { class: "supervisionFailed", reason: "r" } : null
              })
              const expected = survived
                ? "unknown"
                : phase === "admit" || provenGone === true
                  ? false
                  : its !== null
                    ? its
                    : provenGone === "none"
                      ? diesWithParent === true && !mine
                        ? false
                        : "unknown"
                      : provenGone === false
                        ? "unknown"
                        : false
              assert.equal(
                liveness(record, observer),
                expected,
                JSON.stringify([mine, phase, its, provenGone, diesWithParent, survived])
              )
            }
          }
        }
      }
    }
  }
  // A failure of another class says nothing of survivors.
  assert.equal(liveness(turn({ fence: gone, failure: { class: "lost", reason: "r" } }), me), false)
})

test("G81 S21 an executor is gone with the first process of its pid namespace, and with no other; what was seen to survive is not", () => {
  const first: ProcessIdentity = { ...hidden, pid: 1 }
  const inside = { ...hidden, pid: 7 }
  const sight = ({ pid }: ProcessIdentity): boolean | "unknown" => (pid === 1 || pid === 2 ? false : "unknown")
  const seen = (change: Parameters<typeof turn>[0]) =>
    liveness(turn({ phase: "execute", executor: inside, ...change }), me, sight)
  assert.equal(seen({ fence: first }), false)
  assert.equal(seen({ fence: { ...first, pid: 2 } }), "unknown")
  assert.equal(seen({ fence: { ...first, pid: 3 } }), "unknown")
  assert.equal(seen({ fence: first, executor: { ...inside, pidNamespace: "pid:[2]" } }), "unknown")
  assert.equal(seen({ fence: first, executor: { ...inside, bootId: "another" } }), "unknown")
  assert.equal(
    seen({ fence: { ...first, pidNamespace: null }, executor: { ...inside, pidNamespace: null } }),
    "unknown"
  )
  assert.equal(seen({ fence: first, failure: { class: "supervisionFailed", reason: "r" } }), "unknown")
})

const looked = (change: Partial<Observed> = {}): Observed => ({
  process: other,
  turn: "turn-a",
  driver: me,
  alive: false,
  ...change
})

test("G81 what was seen counts for the turn and the driver that were looked at", () => {
  for (const alive of [true, false, "unknown"] as const) assert.equal(seenAlive(turn(), looked({ alive })), alive)
  for (const missed of [
    undefined,
    looked({ turn: "turn-b" }),
    looked({ turn: null }),
    looked({ driver: null }),
    looked({ driver: third })
  ])
    assert.equal(seenAlive(turn(), missed), "unknown")
})

test("G81 G85 only the driver of a turn moves it, and nobody one with a survivor", () => {
  assert.equal(told(driven(turn(), looked({ process: me }))).refused, undefined)
  assert.deepInclude(told(driven(turn(), looked({ alive: true }))).error, { _tag: "TurnInFlight", alive: true })
  assert.deepInclude(told(driven(turn(), looked({ alive: false }))).error, {
    turn: "turn-a",
    phase: "admit",
    alive: false
  })
  assert.deepInclude(told(driven(turn(), undefined)).error, { alive: "unknown" })
  for (const kind of ["lost", "failed", "supervisionFailed"] as const) {
    const record = turn({ failure: { class: kind, reason: "r" } })
    const refused = kind === "supervisionFailed" ? "TurnInFlight" : undefined
    assert.equal(told(driven(record, looked({ process: me }))).refused, refused, kind)
  }
  assert.match(inFlight(turn(), true).remedy, /^Wait/)
  assert.match(inFlight(turn(), false).remedy, /^Wait/)
  assert.match(inFlight(turn(), "unknown").remedy, /seenGone/)
  assert.match(inFlight(turn(), "unknown").message, /cannot be seen/)
  assert.notMatch(inFlight(turn(), true).message, /cannot be seen/)
  assert.equal(told(known(turn(), "turn-a")).refused, undefined)
  assert.deepInclude(told(known(undefined, "turn-z")).error, { _tag: "NotFound", kind: "turn", id: "turn-z" })
})

test("G81 a write about a turn says who asks, and of the turn that is concerned or in the way whether it still runs", async () => {
  const dead = turn({ fence: gone, phase: "execute", executor: running })
  for (const [records, seen] of [
    [[], { turn: null, driver: null, alive: false }],
    [[dead], { turn: "turn-a", driver: gone, alive: true }],
    [[turn({ fence: gone })], { turn: "turn-a", driver: gone, alive: false }]
  ] as const) {
    const { commands, run } = recording({ turn: records.map((one) => rowOf(turnTable.put(one))) })
    const spend = { usd: 0 }
    await run(Turns.fail({ turn: "turn-a", reason: "r", spend }))
    await run(Turns.retry({ turn: "turn-a", fence: fence(), bound: {}, reason: "r" }))
    await run(Turns.admit({ goal: "goal-a", agent: "ada", fence: fence(), bound: {} }))
    for (const { observed } of commands) assert.deepEqual(observed, { process: running, ...seen } as unknown as Json)
    await run(Turns.fail({ turn: "turn-z", reason: "r", spend }))
    assert.deepInclude(commands.at(-1)!.observed as object, { turn: null, alive: false })
  }
})

test("G80 nothing is settled or completed by hand beside an open turn on the same todo", () => {
  for (const asked of ["settle", "complete"] as const) {
    assert.equal(told(besideNone(undefined, "todo-a", asked)).refused, undefined)
    assert.equal(told(besideNone(turn(), "todo-b", asked)).refused, undefined)
    for (const phase of phases) {
      const got = told(besideNone(turn({ phase }), "todo-a", asked))
      assert.equal(got.refused, phase === "settle" ? undefined : "PhaseOrder", phase)
      if (got.refused === undefined) continue
      assert.deepInclude(got.error, { turn: "turn-a", phase, asked })
      assert.include(got.error["message"], asked === "settle" ? "is settled" : "is completed")
      assert.include(got.error["remedy"], `then ${asked} what`)
    }
  }
})

test("G80 G82 each phase is followed by one other; an ended turn by none", () => {
  const steps = {
    admit: "run",
    execute: "readBackOrRetry",
    result: "validate",
    validate: "settle",
    settle: "close",
    close: "none"
  } as const
  for (const state of ["open", "closed", "failed"] as const) {
    for (const phase of phases) {
      const record = turn({ state, phase })
      assert.equal(nextStep(record), state === "open" ? steps[phase] : "none", `${state} ${phase}`)
      for (const asked of phases) {
        const got = told(inPhase(record, asked))
        const may = state === "open" && phases.indexOf(asked) === phases.indexOf(phase) + 1
        assert.equal(got.refused, may ? undefined : "PhaseOrder", `${state} ${phase} ${asked}`)
        if (may) continue
        assert.deepInclude(got.error, { turn: "turn-a", asked, phase: state === "open" ? phase : state })
        assert.include(got.error["message"], state === "open" ? `is in phase ${phase};` : `is ${state};`)
        const ended = state !== "open" || phase === "close"
        assert.include(got.error["remedy"], ended ? "has ended" : `next step is: ${steps[phase]}.`)
      }
    }
  }
})

test("G84 a time limit is tried twice in all, capacity, overload, rate limit and a lost connection three times, nothing else ever", () => {
  const attempt = (number: number, failed: boolean): TurnAttempt => ({
    number,
    startedAt: 1,
    retry: null,
    ...(failed ? { failure: { class: "capacity", check: "c" }, effectId: "e" } : {})
  })
  const most = { executorTimeout: 2, capacity: 3, overloaded: 3, rateLimited: 3, transportLost: 3 }
  assert.deepEqual(triesOf, most)
  for (const failure of [...Object.keys(most), "auth", "contract", "unknown", "toString", ""]) {
    const tries = Object.entries(most).find(([name]) => name === failure)?.[1] ?? 1
    assert.isFalse(triedAgain([], failure), failure)
    for (let tried = 1; tried <= 4; tried += 1) {
      // The run of attempts that failed and were tried again, and the one that failed now; what was before an answer is another run.
      const run = Array.from({ length: tried - 1 }, (_, n) => attempt(n + 1, true))
      for (const before of [[], [attempt(1, true), attempt(2, false)]]) {
        const record: Pick<TurnRecord, "id" | "attempts"> = {
          id: "turn-a",
          attempts: [...before, ...run, attempt(9, false)]
        }
        assert.equal(triedAgain(record.attempts, failure), tried < tries, `${failure} ${tried}`)
        const got = told(mayTryAgain(record, failure))
        assert.equal(got.refused, tried < tries ? undefined : "RetryRefused")
        if (got.refused === undefined) continue
        assert.deepInclude(got.error, { turn: "turn-a", class: failure, tries })
        assert.include(got.error["message"], `at attempt ${tried}:`)
      }
    }
  }
})
