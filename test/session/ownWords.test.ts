/** What a host says in its own words, which nobody wrote for the journal. Rules: G6, G10, G80; principle 6. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { inProcessHost } from "../../providers/host-process/index.ts"
import { HostFailure } from "../../src/host/index.ts"
import { answer, writer } from "./hosts.ts"
import { newScene } from "./scene.ts"

const secret = `key sk-${"a".repeat(28)}`

for (const [what, said, kept] of [
  ["a path of a machine", "wrote /home/me/books/total.txt", "wrote …/total.txt"],
  ["a credential", secret, "The host's words may not be public: they are in the result of this turn."],
  ["half of a character", "half \ud83d of one", "half \ufffd of one"]
] as const) {
  test(`G6 G10 G80 an agent that says ${what} has its result kept, in words that may be public, and its turn goes on`, async () => {
    const scene = await newScene()
    const plain = writer(scene)
    const host = {
      ...plain,
      turn: (input: Parameters<typeof plain.turn>[0]) =>
        Effect.map(plain.turn(input), (turn) => ({ ...turn, result: { ...turn.result, summary: said } }))
    }
    const done = await scene.run(scene.drive(host))
    const [turn] = await scene.turns()
    assert.deepInclude(turn!, { state: "closed", settlement: done.settlement })
    assert.deepInclude(turn!.result!, { status: "ok", summary: kept, usd: 0.25 })
    assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.25, owed: 0 })
    // The words themselves lie beside the result, under the digest that the journal names.
    const file = readFileSync(join(scene.place, "results", `${turn!.id}.json`), "utf8")
    assert.equal((JSON.parse(file) as { result: { summary: string } }).result.summary, said)
  })
}

test("G6 G84 a host that fails with the path of a machine has its failure kept, and its cost with it", async () => {
  const scene = await newScene()
  const failing = inProcessHost("failing", ({ request }) => answer(request))
  const host = {
    ...failing,
    turn: () =>
      Effect.fail(
        new HostFailure({
          message: "cannot open /home/me/.agent/settings.json",
          remedy: "r",
          class: "contract",
          check: "missing /home/me/.agent",
          exitCode: null,
          usage: { usd: 0.1 }
        })
      )
  }
  await scene.run(scene.drive(host))
  const [turn] = await scene.turns()
  assert.deepInclude(turn!.result!, {
    status: "failed",
    summary: "cannot open …/settings.json",
    failure: { class: "contract", check: "missing …/.agent" },
    usd: 0.1
  })
  assert.deepEqual(await scene.quota(), { reserved: 0, spent: 0.1, owed: 0 })
})
