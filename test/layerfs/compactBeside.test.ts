/** Compaction beside work: eight committers, one of them stopped, and nothing reachable or in flight is lost. Rules: C26; L8, L9, L12, W11. */
import type { ChildProcess } from "node:child_process"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { seed as seedOf } from "../governance/authority.ts"
import { seededRandom } from "../seededRandom.ts"
import { committed, forkOf, ground, run, using } from "./projFixture.ts"
import { child } from "./storeKills.ts"

/** Some process is writing to the index at this moment. Another's short write passes while it is looked. */
const isHeld = (index: string): boolean => {
  const db = new DatabaseSync(index, { timeout: 500 })
  try {
    db.exec("BEGIN IMMEDIATE; ROLLBACK")
    return false
  } catch {
    return true
  } finally {
    db.close()
  }
}

it("C26 L9 L12 W11 compaction runs again and again beside seven committing workspaces and a process that is stopped in the middle and goes on after it: every commit is readable, and the store verifies", async () => {
  const random = seededRandom(seedOf())
  const files = Object.fromEntries(
    Array.from({ length: 40 }, (_, n) => [`src/f${n}.txt`, `${n} ${random(1e9)}\n`.repeat(50)])
  )
  const { provider, commit, store } = await ground(files)
  const compaction = Effect.map(provider.compact(), ({ complete }) => expect(complete).toBe(true))
  const told: { readonly commit: string; readonly path: string; readonly text: string }[] = []
  const state: { over: boolean; stopped?: ChildProcess } = { over: false }
  const own = await forkOf(provider, commit)
  // Stopped after its third commit, wherever the fourth is by then.
  const ended = child(
    [store, "commit", own, "8", "stopped"],
    {},
    (said) => (said.filter((line) => line.commit !== undefined).length === 3 ? random(20) : undefined),
    (running) => {
      state.stopped = running
      running.kill("SIGSTOP")
      // Inside of its transaction it would keep everybody else out, rightly, until they are told Busy: then a moment later.
      while (isHeld(join(store, "layerfs/index.db"))) {
        running.kill("SIGCONT")
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1 + random(5))
        running.kill("SIGSTOP")
      }
    }
  )
  const worker = async (n: number): Promise<void> => {
    const branch = await forkOf(provider, commit)
    for (let round = 0; round < 3; round += 1) {
      await using(provider, branch, {}, async (workspace) => {
        const path = `src/f${random(40)}.txt`
        const text = `worker ${n} round ${round} ${random(1e9)}\n`.repeat(1 + random(2000))
        await run(workspace.write(path, text))
        told.push({ commit: await committed(workspace), path, text })
      })
    }
  }
  const working = Promise.all(Array.from({ length: 7 }, (_, n) => worker(n)))
  const done = working.finally(() => (state.over = true))
  do {
    await run(compaction)
    await new Promise((resolve) => setImmediate(resolve))
  } while (!state.over || state.stopped === undefined)
  await done
  // While it is stopped, whatever it holds stays its own.
  await run(compaction)
  state.stopped.kill("SIGCONT")
  const { said } = await ended
  const commits = said.flatMap((line) => (line.commit === undefined ? [] : [line.commit]))
  expect([commits.length, said.filter((line) => line.error !== undefined)]).toEqual([8, []])
  await run(compaction)
  expect(told).toHaveLength(21)
  for (const { commit: made, path, text } of told) {
    expect(Buffer.from(await run(provider.readAt(made, path))).toString()).toBe(text)
  }
  for (const [n, made] of commits.entries()) {
    expect(Buffer.from(await run(provider.readAt(made, `file-${n % 7}`))).toString()).toContain(`stopped ${n} `)
  }
  expect((await run(provider.verify())).damaged).toEqual([])
}, 300_000)
