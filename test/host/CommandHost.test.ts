import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, test } from "vitest"
import { commandHost, type CommandHostOptions } from "../../providers/host-process/index.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"
import type { Host, HostTurnOptions } from "../../src/host/Host.ts"
import type { TurnRequest } from "../../src/host/TurnProtocol.ts"
import { directory, holdsHere, mark, marked, request } from "./scenes.ts"

const turnOf = (host: Host, root: string, changes: Partial<TurnRequest> = {}, more: Partial<HostTurnOptions> = {}) =>
  host.turn({ environment: plainDirectory(root), request: request(root, changes), timeLimitMs: 30_000, ...more })

const run = (
  command: string | readonly string[],
  options: CommandHostOptions = {},
  changes: Partial<TurnRequest> = {}
) => {
  const root = directory()
  return Effect.runPromise(
    Effect.map(turnOf(commandHost(command, options), root, changes), (report) => ({ root, report }))
  )
}

const refused = (
  command: string | readonly string[],
  options: CommandHostOptions = {},
  changes: Partial<TurnRequest> = {},
  more: Partial<HostTurnOptions> = {}
) => Effect.runPromise(Effect.flip(turnOf(commandHost(command, options), directory(), changes, more)))

describe("a plain command as a host", () => {
  test("S50 a command that exits with 0 claims completed, one that does not claims failed, and neither repeats its output", async () => {
    const text: string[] = []
    const onPrivateText: CommandHostOptions["onPrivateText"] = (chunk, stream) =>
      text.push(`${stream}:${Buffer.from(chunk).toString()}`)
    const done = await run("echo new >file; echo hunter2; cat file", { usd: 0, onPrivateText })
    expect(readFileSync(join(done.root, "file"), "utf8")).toBe("new\n")
    expect(done.report.result).toEqual({
      protocol: "coppice.turn",
      version: 1,
      turnKey: "turn-key-1",
      outcome: "completed",
      summary: "exit code 0",
      usage: { usd: 0 }
    })
    const failed = await run("echo hunter3 >&2; exit 3", { usd: 0.5, onPrivateText })
    expect(failed.report.result).toMatchObject({ outcome: "failed", summary: "exit code 3", usage: { usd: 0.5 } })
    const all = text.join("")
    expect(all).toContain("stdout:hunter2")
    expect(all).toContain("stderr:hunter3")
    expect(JSON.stringify([done.report, failed.report])).not.toContain("hunter")
  })

  test("S50 G55 the price is unknown unless the caller states one", async () => {
    const { report } = await run("true")
    expect(report.result).not.toHaveProperty("usage")
    expect(commandHost("true").descriptor.capabilities).not.toContain("usage")
    expect(commandHost("true", { usd: 0 }).descriptor).toMatchObject({
      kind: "host-process:command",
      inProcess: false,
      capabilities: ["turn", "interrupt", "usage"]
    })
  })

  test("S50 the instruction is in a variable, and stdin holds the request, the instruction or nothing", async () => {
    const instruction = "make it `$(touch owned)` right\nthen stop"
    const script = 'cat >stdin; printf "%s" "$COPPICE_INSTRUCTION" >instruction'
    const given = async (stdin: CommandHostOptions["stdin"]) => {
      const options = { ...(stdin === undefined ? {} : { stdin }), env: { COPPICE_INSTRUCTION: "another", MORE: "1" } }
      const { root } = await run(`${script}; printf "%s" "$MORE" >more`, options, { instruction })
      expect(readFileSync(join(root, "instruction"), "utf8")).toBe(instruction)
      expect(readFileSync(join(root, "more"), "utf8")).toBe("1")
      expect(existsSync(join(root, "owned"))).toBe(false)
      return { root, text: readFileSync(join(root, "stdin"), "utf8") }
    }
    const asked = await given(undefined)
    expect(JSON.parse(asked.text)).toEqual(request(asked.root, { instruction }))
    expect((await given("instruction")).text).toBe(instruction)
    expect((await given("empty")).text).toBe("")
  })

  test("S51 a list is an argv without a shell, and the root of the environment is where it runs", async () => {
    const root = directory()
    writeFileSync(join(root, "value"), "wrong\n")
    const argv = ["sed", "-i", "s/wrong/right; $(id)/", "value"]
    const report = await Effect.runPromise(turnOf(commandHost(argv), root))
    expect(report.result.outcome).toBe("completed")
    expect(readFileSync(join(root, "value"), "utf8")).toBe("right; $(id)\n")
  })

  test.for([
    ["an empty line", "  ", {}, "argv"],
    ["no item", [], {}, "argv"],
    ["an item with a NUL", ["sh", "a\0b"], {}, "argv"],
    ["a line with a NUL", "echo a\0b", {}, "argv"],
    ["a line of 20,000 characters", `: ${"x".repeat(20_000)}`, {}, "argv"],
    ["a price below zero", "true", { usd: -1 }, "usd"],
    ["a price that is no number", "true", { usd: Number.NaN }, "usd"]
  ] as const)("S51 a command with %s is refused by the probe and by the turn, and nothing starts", async (row) => {
    const [, command, options, check] = row
    const probe = await Effect.runPromise(commandHost(command, options).probe)
    expect(probe.ready).toBe(false)
    expect(await refused(command, options)).toMatchObject({
      _tag: "HostFailure",
      class: "contract",
      check,
      started: false
    })
  })

  test("S51 an instruction that no variable can hold is refused before anything starts", async () => {
    const long = { instruction: "x".repeat(130_000) }
    expect(await refused("true", {}, long)).toMatchObject({ class: "contract", check: "instruction", started: false })
    expect(await refused("true", {}, { instruction: "a\0b" })).toMatchObject({ check: "instruction", started: false })
    const most = await run('printf "%s" "$COPPICE_INSTRUCTION" | wc -c >size', {}, { instruction: "x".repeat(122_880) })
    expect(readFileSync(join(most.root, "size"), "utf8").trim()).toBe("122880")
  })

  test("S51 a program that does not exist was never started", async () => {
    expect(await refused(["no-such-program-here"])).toMatchObject({ class: "unknown", check: "spawn", started: false })
  })
})

describe.for(holdsHere)("nothing stays behind a plain command, held by %s", (hold) => {
  const scene = () => {
    const { name, value } = mark()
    const root = directory()
    return {
      value,
      root,
      options: { env: { [name]: value }, graceMs: 50 },
      more: { environment: plainDirectory(root, { hold }) }
    }
  }

  test("C90 C80 a command that exits and leaves children with its pipes is done, and they are gone", async () => {
    const { value, root, options, more } = scene()
    const host = commandHost("sleep 1000 & (while :; do echo more; sleep 0.01; done) & exit 0", options)
    const report = await Effect.runPromise(turnOf(host, root, {}, more))
    expect(report.result.outcome).toBe("completed")
    expect(marked(value)).toEqual([])
  })

  test("S23 G85 a command that does not end is ended at its time limit", async () => {
    const { value, options, more } = scene()
    const failed = await refused("trap '' TERM; sleep 1000 & sleep 1000", options, {}, { ...more, timeLimitMs: 100 })
    expect(failed).toMatchObject({ _tag: "HostFailure", class: "executorTimeout" })
    expect(marked(value)).toEqual([])
  })

  test.for([
    ["stdout", "head -c 1G /dev/zero"],
    ["stderr", "head -c 1G /dev/zero >&2"]
  ] as const)(
    "G85 a command that floods %s with a gigabyte is ended with its group: outputBudget",
    async ([stream, flood]) => {
      const { value, options, more } = scene()
      let seen = 0
      const failed = await refused(flood, { ...options, onPrivateText: (chunk) => (seen += chunk.length) }, {}, more)
      expect(failed).toMatchObject({ _tag: "HostFailure", class: "outputBudget", check: `${stream}-size` })
      expect(seen).toBeLessThanOrEqual(64 * 1024 * 1024)
      expect(marked(value)).toEqual([])
    }
  )
})
