import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { openAuthority } from "../../providers/authority-sqlite/index.ts"

// A caller that asks again in the very microtask in which it was answered once found the drain neither running nor ending.
it("G3 a command that is asked for right when the queue has run empty is committed too", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-authority-"))
  const store = await openAuthority({ directory })
  try {
    let answered = 0
    const chain = async (name: string) => {
      for (let i = 0; i < 30; i++) {
        await store.commit([
          { id: `${name}-${i}`, module: "work", type: "openGoal", payload: { title: "t", budget: { usd: 1 } } }
        ])
        answered += 1
        // Land at every distance, in microtasks, from the answer of the other chain.
        for (let hop = 0; hop < i % 7; hop++) await Promise.resolve()
      }
    }
    await Promise.all([chain("a"), chain("b"), chain("c")])
    expect(answered).toBe(90)
  } finally {
    await store.close()
    rmSync(directory, { recursive: true, force: true })
  }
})

it("G2 G4 a command id that is no text is refused at the door, and the chain stays whole", async () => {
  const directory = mkdtempSync(join(tmpdir(), "coppice-authority-"))
  const store = await openAuthority({ directory })
  try {
    const command = { module: "work", type: "openGoal", payload: { title: "t", budget: { usd: 1 } } }
    const outcomes = await store.commit([5, "", null].map((id) => ({ ...command, id: id as never })))
    expect(outcomes.map((outcome) => outcome._tag === "Refused" && outcome.error.code)).toEqual(
      Array.from({ length: 3 }, () => "INVALID_INPUT")
    )
    expect(await store.verify()).toMatchObject({ ok: true, entries: 0 })
  } finally {
    await store.close()
    rmSync(directory, { recursive: true, force: true })
  }
})
