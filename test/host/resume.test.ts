import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, test } from "vitest"
import { commandHost, inProcessHost, processHost } from "../../providers/host-process/index.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"
import type { Host, HostSession } from "../../src/host/index.ts"
import { answer, directory, request } from "./scenes.ts"

const session: HostSession = { id: "s-1", directory: "/agent/tree", home: "/agent/state" }

/** A host in shell that leaves a trace and answers with `told` as its session. */
const teller = (told: HostSession | null | undefined, resumes = true): Host => {
  const said = answer(told === undefined ? {} : { session: told })
  return processHost(["sh", "-c", `cat >request; printf '%s' '${said}'`], { resumes })
}

const turn = (host: Host, root: string, resume: HostSession | undefined = session) =>
  host.turn({
    environment: plainDirectory(root),
    request: request(root, resume === undefined ? {} : { resume }),
    timeLimitMs: 30_000
  })

test("S22 a session is resumed by its exact id, directory and home, and what is read back must be equal", async () => {
  const root = directory()
  const report = await Effect.runPromise(turn(teller(session), root))
  expect(report.result.session).toEqual(session)
  expect(JSON.parse(readFileSync(join(root, "request"), "utf8")).resume).toEqual(session)
})

test.for([
  ["id", { ...session, id: "s-10" }],
  ["directory", { ...session, directory: "/agent/tree/" }],
  ["home", { ...session, home: "/agent/other" }],
  ["absent", undefined]
] as const)(
  "S22 C82 C83 a host that went on in another session is a mismatch (%s), and no message tells which",
  async ([field, told]) => {
    const failure = await Effect.runPromise(Effect.flip(turn(teller(told), directory())))
    expect(failure).toMatchObject({ _tag: "ResumeMismatch", code: "RESUME_MISMATCH", field })
    expect(JSON.stringify(failure)).not.toMatch(/s-1|\/agent/)
  }
)

test("S22 C82 an unknown session fails closed, and a new turn without one is told which session it got", async () => {
  const failure = await Effect.runPromise(Effect.flip(turn(teller(null), directory())))
  expect(failure).toMatchObject({ _tag: "HostFailure", class: "sessionMissing", check: "session-unknown" })
  const root = directory()
  const host = teller(session)
  const report = await Effect.runPromise(
    host.turn({ environment: plainDirectory(root), request: request(root), timeLimitMs: 30_000 })
  )
  expect(report.result.session).toEqual(session)
})

test.for([
  ["host-process", teller(session, false)],
  ["command", commandHost("touch request")],
  ["in process", inProcessHost("f", () => JSON.parse(answer({ session })))]
] as const)(
  "S22 S50 a host that does not declare it (%s) answers that it cannot resume, and starts nothing",
  async ([, host]) => {
    const root = directory()
    expect(host.descriptor.capabilities).not.toContain("resume")
    const failure = await Effect.runPromise(Effect.flip(turn(host, root)))
    expect(failure).toMatchObject({ _tag: "ResumeUnsupported", code: "RESUME_UNSUPPORTED", host: host.descriptor.kind })
    expect(existsSync(join(root, "request"))).toBe(false)
  }
)
