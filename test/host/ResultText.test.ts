import { writeFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { describe, expect, test } from "vitest"
import { readResult } from "../../providers/host-process/ResultText.ts"
import { answer, directory, failureOf, shellTurn } from "./scenes.ts"

/** What a host prints, and the check that it must fail. Each is printed by a real process. */
const refused: readonly (readonly [name: string, printed: Uint8Array | string, check: string])[] = [
  ["nothing", "", "stdout-empty"],
  ["only a line end", "\n", "stdout-empty"],
  ["two objects", answer() + answer(), "two-objects"],
  ["two objects on two lines", `${answer()}\n${answer()}\n`, "two-objects"],
  ["prose before the object", `Here you are: ${answer()}`, "prose"],
  ["prose after the object", `${answer()}\nDone.`, "prose"],
  ["a fenced object", `\`\`\`json\n${answer()}\n\`\`\``, "prose"],
  ["two line ends", `${answer()}\n\n`, "prose"],
  ["a byte order mark", `\uFEFF${answer()}`, "prose"],
  ["a truncated object", answer().slice(0, -1), "truncated"],
  ["an object cut inside a string", answer().slice(0, -4), "truncated"],
  ["an array", "[]", "prose"],
  ["null", "null", "prose"],
  ["not JSON inside braces", "{outcome: progress}", "not-json"],
  ["an extra NUL", `${answer()}\0`, "nul"],
  [
    "invalid UTF-8",
    Buffer.concat([Buffer.from(answer().slice(0, -2)), Buffer.from([0xc3]), Buffer.from('"}')]),
    "utf8"
  ],
  ["an unknown field", answer({ accepted: true }), "unknown-field"],
  ["an unknown field deeper", answer({ usage: { usd: 1, eur: 1 } }), "unknown-field"],
  ["the wrong turn key", answer({ turnKey: "turn-key-2" }), "turn-key"],
  ["another version", answer({ version: 2 }), "version"],
  ["another protocol", answer({ protocol: "other" }), "version"],
  ["acceptance, which is not a host's to give", answer({ outcome: "accepted" }), "shape"],
  ["a negative cost", answer({ usage: { usd: -1 } }), "shape"],
  ["a cost that is text", answer({ usage: { usd: "0" } }), "shape"],
  ["a missing summary", answer({ summary: undefined }), "shape"]
]

const printing = (bytes: Uint8Array | string): string =>
  `cat >/dev/null; printf %s ${Buffer.from(bytes).toString("base64")} | base64 -d`

describe("the one object that a host may print", () => {
  test.for(refused)("C89 %s is a typed failure and no progress is invented", async ([, printed, check]) => {
    const failure = await failureOf(printing(printed))
    expect(failure).toMatchObject({ _tag: "HostFailure", code: "HOST_FAILURE", class: "contract", check, exitCode: 0 })
    expect(failure.remedy).not.toBe("")
  })

  test("C89 12,001 bytes are refused and 12,000 are not", async () => {
    const padded = (bytes: number): string => {
      const findings = Array.from({ length: 6 }, () => ({ status: "tentative", text: "x".repeat(1900) }))
      const short = answer({ findings, summary: "" })
      return answer({ findings, summary: "y".repeat(bytes - Buffer.byteLength(short)) })
    }
    const file = (bytes: number): string => `cat >/dev/null; head -c ${bytes} "$BIG"`
    const big = `${directory()}/answer`
    writeFileSync(big, padded(12_000))
    const report = await Effect.runPromise(shellTurn(file(12_000), { options: { env: { BIG: big } } }))
    expect(report.result.findings).toHaveLength(6)
    writeFileSync(big, padded(12_001))
    const failure = await failureOf(file(12_001), { options: { env: { BIG: big } } })
    expect(failure).toMatchObject({ class: "outputBudget", check: "stdout-size" })
  })

  test("C89 a character split over two writes is read whole", async () => {
    const text = answer({ summary: "naïve €" })
    const cut = Buffer.from(text).indexOf(0xc3) + 1
    const bytes = Buffer.from(text)
    const script =
      `cat >/dev/null; printf %s ${bytes.subarray(0, cut).toString("base64")} | base64 -d; ` +
      `printf 'half\\n' >&2; printf %s ${bytes.subarray(cut).toString("base64")} | base64 -d`
    const report = await Effect.runPromise(shellTurn(script))
    expect(report.result.summary).toBe("naïve €")
  })

  test("C89 one line end after the object is allowed, also as CRLF", () => {
    for (const end of ["", "\n", "\r\n"]) {
      expect(Result.isSuccess(readResult(Buffer.from(answer() + end), "turn-key-1"))).toBe(true)
    }
  })

  test("C89 braces and quotes inside strings do not end the object", () => {
    const result = readResult(Buffer.from(answer({ summary: 'a } { "quoted\\" brace' })), "turn-key-1")
    expect(Result.isSuccess(result) && result.success.summary).toBe('a } { "quoted\\" brace')
  })
})
