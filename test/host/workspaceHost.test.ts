/** Hosts inside a workspace: what holds in a plain directory holds there too, and the files can be committed afterwards. */
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { commandHost, processHost } from "../../providers/host-process/index.ts"
import type { Host } from "../../src/host/index.ts"
import type { Workspace } from "../../src/workspace/WorkspaceProvider.ts"
import { committed, forkOf, run, sharedGround, using } from "../layerfs/projFixture.ts"
import { answer, mark, marked, request } from "./scenes.ts"

const shared = sharedGround({ value: "wrong\n" })

/** One turn in a workspace of its own; gives what came of it, and whether a process of it is left before the workspace closes. */
const turnIn = async (make: (env: Readonly<Record<string, string>>) => Host, timeLimitMs = 60_000) => {
  const { provider, commit } = await shared()
  const { name, value } = mark()
  let left: readonly number[] = []
  let file = ""
  const outcome = await using(
    provider,
    await forkOf(provider, commit),
    { projection: "overlay" },
    async (workspace: Workspace) => {
      const { environment } = workspace
      const asked = { environment, request: request(environment.root), timeLimitMs }
      const came = await run(Effect.result(make({ [name]: value }).turn(asked)))
      left = marked(value)
      file = Buffer.from(await run(provider.readAt(await committed(workspace), "value"))).toString()
      return came
    }
  )
  return { outcome, left, file }
}

const say = `cat >/dev/null; echo right >value; printf '%s' '${answer()}'`
const shell = (script: string) => (env: Readonly<Record<string, string>>) =>
  processHost(["sh", "-c", script], { env, drainMs: 100, graceMs: 50 })

describe("a host in a workspace", () => {
  it.each([
    ["prints its result and never exits", `${say}; sleep 1000`],
    ["closes stdout and leaves a child with the pipes", `sleep 1000 & ${say}; exec 1>&-; exit 0`]
  ])("C90 S23 a host that %s is drained for a bounded time, and its group is ended", async (_, script) => {
    const { outcome, left, file } = await turnIn(shell(script))
    expect(outcome).toMatchObject({ _tag: "Success", success: { result: { summary: "did it" } } })
    expect([left, file]).toEqual([[], "right\n"])
  })

  it("C90 G85 a plain command is done when it exits; its children go, its files stay", async () => {
    const { outcome, left, file } = await turnIn((env) =>
      commandHost("echo right >value; setsid sleep 1000 & exit 0", { env, graceMs: 50 })
    )
    expect(outcome).toMatchObject({ _tag: "Success", success: { result: { outcome: "completed" } } })
    expect([left, file]).toEqual([[], "right\n"])
  })

  it.each([
    ["stdout", "head -c 1G /dev/zero"],
    ["stderr", "head -c 1G /dev/zero >&2"]
  ])("G85 S51 a gigabyte on %s is an outputBudget, with the group gone and the files kept", async (stream, flood) => {
    for (const make of [
      shell(`echo right >value; ${flood}`),
      (env: Readonly<Record<string, string>>) => commandHost(`echo right >value; ${flood}`, { env, graceMs: 50 })
    ]) {
      const { outcome, left, file } = await turnIn(make)
      expect(outcome).toMatchObject({ failure: { class: "outputBudget", check: `${stream}-size` } })
      expect([left, file]).toEqual([[], "right\n"])
    }
  })
})
