import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { describe, expect, test } from "vitest"
import { processHost } from "../../providers/host-process/index.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"
import type { TurnEnvironment } from "../../src/host/TurnEnvironment.ts"
import type { TurnProgress } from "../../src/host/TurnProtocol.ts"
import { answer, directory, eventually, failureOf, holdsHere, mark, marked, request, shellTurn } from "./scenes.ts"

const say = (text = answer()): string => `cat >/dev/null; printf '%s' '${text}'`

describe("the exchange", () => {
  test("S51 the request arrives whole on stdin, the result and the progress come back, the rest of stderr is private", async () => {
    const root = directory()
    const progress: TurnProgress[] = []
    const privateText: Buffer[] = []
    const script =
      `cat >request.json; echo '{"coppice":"progress","text":"half way"}' >&2; echo 'token=s3cret' >&2; ` +
      `echo '{"coppice":"progress","text":"x","extra":1}' >&2; printf '%s' '${answer({ outcome: "completed", usage: { usd: 0.25 } })}'`
    const host = processHost(["sh", "-c", script], { onPrivateText: (chunk) => privateText.push(Buffer.from(chunk)) })
    const asked = request(root, { findings: [{ id: "fnd_1", status: "refuted", text: "not this way" }] })
    const report = await Effect.runPromise(
      host.turn({
        environment: plainDirectory(root),
        request: asked,
        timeLimitMs: 30_000,
        onProgress: (line) => progress.push(line)
      })
    )
    expect(JSON.parse(readFileSync(join(root, "request.json"), "utf8"))).toEqual(asked)
    expect(report.result).toEqual(JSON.parse(answer({ outcome: "completed", usage: { usd: 0.25 } })))
    expect(report.lingered).toBe(false)
    expect(progress).toEqual([{ coppice: "progress", text: "half way" }])
    expect(Buffer.concat(privateText).toString()).toContain("token=s3cret")
  })

  test("S51 a request of almost 8 MiB is delivered, and a larger one is refused before anything starts", async () => {
    const root = directory()
    const fits = request(root, { instruction: "x".repeat(8 * 1024 * 1024 - 1000) })
    const host = processHost(["sh", "-c", `wc -c >size; printf '%s' '${answer()}'`])
    const turn = (asked: typeof fits) =>
      host.turn({ environment: plainDirectory(root), request: asked, timeLimitMs: 30_000 })
    await Effect.runPromise(turn(fits))
    expect(Number(readFileSync(join(root, "size"), "utf8"))).toBe(Buffer.byteLength(JSON.stringify(fits)))
    writeFileSync(join(root, "size"), "untouched")
    const failure = await Effect.runPromise(
      Effect.flip(turn(request(root, { instruction: "x".repeat(8 * 1024 * 1024) })))
    )
    expect(failure).toMatchObject({ _tag: "HostFailure", check: "request-size" })
    expect(readFileSync(join(root, "size"), "utf8")).toBe("untouched")
  })

  test("S51 a host that answers without reading its request is heard all the same", async () => {
    const root = directory()
    const asked = request(root, { instruction: "x".repeat(4 * 1024 * 1024) })
    const report = await Effect.runPromise(shellTurn(`printf '%s' '${answer()}'`, { turn: { request: asked } }))
    expect(report.result.summary).toBe("did it")
  })

  test.for([
    ["no item", [], "is empty"],
    ["33 items", Array.from({ length: 33 }, () => "x"), "more than 32 items"],
    ["an item of 1,025 characters", ["sh", "x".repeat(1025)], "more than 1024 characters"],
    ["a NUL", ["sh", "a\0b"], "NUL"]
  ] as const)("S51 a command with %s is refused, by the probe and by the turn", async ([, argv, text]) => {
    const root = directory()
    const host = processHost(argv)
    const probe = await Effect.runPromise(host.probe)
    expect(probe.ready).toBe(false)
    expect(probe.missing.join()).toContain(text)
    const failure = await Effect.runPromise(
      Effect.flip(host.turn({ environment: plainDirectory(root), request: request(root), timeLimitMs: 1000 }))
    )
    expect(failure).toMatchObject({ _tag: "HostFailure", class: "contract", check: "argv" })
  })

  test("S51 argv is passed without a shell", async () => {
    const root = directory()
    const script = `cat >/dev/null; printf '%s' "$1" >arg; printf '%s' '${answer()}'`
    const host = processHost(["sh", "-c", script, "sh", "$(touch owned); `id` * \n"])
    await Effect.runPromise(
      host.turn({ environment: plainDirectory(root), request: request(root), timeLimitMs: 30_000 })
    )
    expect(readFileSync(join(root, "arg"), "utf8")).toBe("$(touch owned); `id` * \n")
  })

  test("S51 a non-zero exit is a failure although the result is whole, and private text is not echoed", async () => {
    const failure = await failureOf(`echo 'password hunter2' >&2; ${say()}; exit 3`)
    expect(failure).toMatchObject({ _tag: "HostFailure", class: "unknown", check: "exit-code", exitCode: 3 })
    expect(JSON.stringify(failure)).not.toContain("hunter2")
  })

  test("S51 a host that dies by a signal is a failure, whatever it had printed", async () => {
    const failure = await failureOf(`${say()}; kill -9 $$`)
    expect(failure).toMatchObject({ _tag: "HostFailure", check: "exit-code", exitCode: 137 })
    const inGroup = await failureOf(`${say()}; kill -9 $$`, { hold: "processGroup" })
    expect(inGroup).toMatchObject({ _tag: "HostFailure", check: "exit-code", exitCode: null })
  })

  test("S51 a missing program and a missing directory fail before dispatch", async () => {
    const root = directory()
    const turn = (argv: readonly string[], path: string) =>
      Effect.runPromise(
        Effect.flip(
          processHost(argv).turn({ environment: plainDirectory(path), request: request(root), timeLimitMs: 1000 })
        )
      )
    expect(await turn(["no-such-program-here"], root)).toMatchObject({ _tag: "HostFailure", check: "spawn" })
    expect(await turn(["true"], join(root, "missing"))).toMatchObject({ _tag: "HostFailure", check: "spawn" })
  })

  test("S24 a turn leaves the signal handlers of the process as they were", async () => {
    const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGCHLD", "SIGPIPE"] as const
    const counts = () => [...signals, "exit", "beforeExit"].map((name) => process.listenerCount(name))
    const before = counts()
    let during: readonly number[] = []
    await Effect.runPromise(
      shellTurn(`echo '{"coppice":"progress","text":"now"}' >&2; ${say()}`, {
        turn: {
          onProgress: () => {
            during = counts()
          }
        }
      })
    )
    expect(during).toEqual(before)
    expect(counts()).toEqual(before)
  })
})

describe.for(holdsHere)("no host stays behind a dead turn, held by %s", (hold) => {
  const wholeTree = hold !== "processGroup"

  test("C80 S23 the leader exits while a child keeps writing: the answer counts and the child is gone", async () => {
    const { name, value } = mark()
    const script = `(while :; do echo more >&2; sleep 0.01; done) >/dev/null & ${say()}`
    const report = await Effect.runPromise(shellTurn(script, { hold, options: { env: { [name]: value } } }))
    expect(report.result.outcome).toBe("progress")
    expect(report.guarantee).toEqual({ diesWithParent: wholeTree, wholeTree, isolation: "none" })
    expect(marked(value)).toEqual([])
  })

  test("C90 a host that prints its result and never exits is drained for a bounded time, then ended", async () => {
    const { name, value } = mark()
    const script = `${say()}; sleep 1000`
    const options = { env: { [name]: value }, drainMs: 100, graceMs: 100 }
    const report = await Effect.runPromise(shellTurn(script, { hold, options }))
    expect(report).toMatchObject({ lingered: true, result: { summary: "did it" } })
    expect(marked(value)).toEqual([])
  })

  test("C90 a host that closes stdout and leaves a child with the pipe does not hold the turn up", async () => {
    const { name, value } = mark()
    const script = `sleep 1000 & ${say()}; exec 1>&-; exit 0`
    const report = await Effect.runPromise(
      shellTurn(script, { hold, options: { env: { [name]: value }, graceMs: 100 } })
    )
    expect(report.result.summary).toBe("did it")
    expect(marked(value)).toEqual([])
  })

  test("S23 G85 the time limit ends the whole tree, also when TERM is ignored, and is an executorTimeout", async () => {
    const { name, value } = mark()
    const script = `trap '' TERM; sleep 1000 & sleep 1000`
    const failure = await failureOf(script, {
      hold,
      options: { env: { [name]: value }, graceMs: 50 },
      turn: { timeLimitMs: 100 }
    })
    expect(failure).toMatchObject({ _tag: "HostFailure", class: "executorTimeout", check: "time-limit" })
    expect(marked(value)).toEqual([])
  })

  test("G85 a flood on stdout ends the tree at the output limit", async () => {
    const { name, value } = mark()
    const failure = await failureOf("yes 'no end'", { hold, options: { env: { [name]: value }, graceMs: 50 } })
    expect(failure).toMatchObject({ _tag: "HostFailure", class: "outputBudget", check: "stdout-size" })
    expect(marked(value)).toEqual([])
  })

  test("G85 S51 a gigabyte on stderr ends the tree at the output limit, with a whole result or without", async () => {
    const { name, value } = mark()
    const options = { env: { [name]: value }, drainMs: 60_000, graceMs: 50 }
    const failure = await failureOf(`${say()}; head -c 1G /dev/zero >&2`, { hold, options })
    expect(failure).toMatchObject({ _tag: "HostFailure", class: "outputBudget", check: "stderr-size" })
    expect(marked(value)).toEqual([])
  })

  test("C81 S23 an interrupt during a long shell command returns after the shell is dead", async () => {
    const { name, value } = mark()
    const fiber = Effect.runFork(shellTurn("sh -c 'sleep 1000; :'", { hold, options: { env: { [name]: value } } }))
    await eventually("the shell and its sleep run", () => marked(value).length >= 3)
    await Effect.runPromise(Fiber.interrupt(fiber))
    expect(marked(value)).toEqual([])
    expect(Exit.isFailure(await Effect.runPromise(Fiber.await(fiber)))).toBe(true)
  })

  test("S23 TERM comes first, so a host can clean up", async () => {
    const root = directory()
    const script = "trap 'echo cleaned >cleaned; exit 0' TERM; echo up >up; while :; do sleep 0.01; done"
    const environment = plainDirectory(root, { hold })
    const fiber = Effect.runFork(shellTurn(script, { hold, turn: { environment } }))
    await eventually("the host has set its trap", () => existsSync(join(root, "up")))
    await Effect.runPromise(Fiber.interrupt(fiber))
    expect(readFileSync(join(root, "cleaned"), "utf8")).toBe("cleaned\n")
  })
})

test("S23 G85 a host that cannot be stopped is a supervision failure, never a result", async () => {
  const root = directory()
  const real = plainDirectory(root)
  // An environment whose power to kill is gone; the process and the observation that it survives are real.
  const powerless: TurnEnvironment = {
    root,
    guarantee: real.guarantee,
    spawn: (argv, options) => Effect.map(real.spawn(argv, options), (tree) => ({ ...tree, kill: () => Effect.void }))
  }
  const { name, value } = mark()
  const options = { env: { [name]: value }, drainMs: 50 }
  const answered = await failureOf(`${say()}; sleep 1000`, { options, turn: { environment: powerless } })
  expect(answered).toMatchObject({ _tag: "SupervisionFailed", code: "SUPERVISION_FAILED" })
  const late = await failureOf("sleep 1000", { options, turn: { environment: powerless, timeLimitMs: 50 } })
  expect(late).toMatchObject({ _tag: "SupervisionFailed" })
  const fiber = Effect.runFork(shellTurn("sleep 1000", { options, turn: { environment: powerless } }))
  await eventually("the host runs", () => marked(value).length > 0)
  await Effect.runPromise(Fiber.interrupt(fiber))
  const exit = await Effect.runPromise(Fiber.await(fiber))
  expect(JSON.stringify(exit)).toContain("SUPERVISION_FAILED")
  expect(marked(value)).toEqual([])
})
