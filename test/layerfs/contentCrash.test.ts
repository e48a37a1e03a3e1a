/** Splices of a large file in a large directory, killed and made to fail at each write. Rules: L8, L10, L14, W10; C20. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import { readContent, storeBytes } from "../../providers/layerfs/FileContent.ts"
import { whole } from "../../src/workspace/kit/Steps.ts"
import { MemoryObjects, seeded } from "./contentMemory.ts"
import { logOf, spliceOf } from "./storeChange.ts"
import { importInto, open, scratch } from "./storeFixture.ts"
import { unsound } from "./soundness.ts"
import { child } from "./storeKills.ts"

// Each test starts several whole processes one after the other; the bound is for machines that are busy with other work.
vi.setConfig({ testTimeout: 240_000 })

const original = seeded(21, 2 * 1024 * 1024)

const ground = async () => {
  const source = scratch()
  mkdirSync(join(source, "d"))
  for (let n = 0; n < 300; n += 1) writeFileSync(join(source, `d/file-${n}`), "")
  writeFileSync(join(source, "big"), original)
  const directory = join(scratch(), "s")
  const store = await open(directory)
  const { layer } = await importInto(store, source)
  const branch = (await store.call("fork", { from: layer, name: "a" })).id
  await store.close()
  return { directory, branch }
}

/** The file after the first `steps` edits, by a plain buffer. */
const after = (steps: number): Buffer => {
  let bytes: Buffer = original
  for (let n = 0; n < steps; n += 1) {
    const { offset, deleteCount, bytes: added } = spliceOf(n)
    bytes = Buffer.concat([bytes.subarray(0, offset), added, bytes.subarray(offset + deleteCount)])
  }
  return bytes
}

/** What must hold when the first `steps` edits are there, and no more. */
const expectState = async (directory: string, branch: string, steps: number): Promise<void> => {
  const store = await open(directory)
  expect(await unsound(store)).toEqual([])
  expect((await logOf(store, branch)).length).toBe(steps + 1)
  const bytes = Buffer.from(await store.call("readAt", { ref: branch, path: "big" }))
  expect(bytes.equals(after(steps))).toBe(true)
  expect((await store.call("listAt", { ref: branch, path: "d" })).length).toBe(300 + steps)
  // The id is what a store that never saw an edit gives.
  const fresh = new MemoryObjects()
  const content = whole(storeBytes(fresh, bytes))
  expect((await store.call("entry", { ref: branch, path: "big" }))!.id).toBe(content.id)
  expect(readContent(fresh, content).equals(bytes)).toBe(true)
  await store.close()
}

it.each([
  ["layerfs.pack.written", 2],
  ["layerfs.commit.packSynced", 2],
  ["refs.commit.inTransaction", 2],
  ["layerfs.commit.committed", 3]
])(
  "L8 L14 W10 a splice killed at %s is whole or absent, and the ones after it go on from there",
  async (point, steps) => {
    const { directory, branch } = await ground()
    const { said, signal } = await child([directory, "splice", branch, "5", "x"], { COPPICE_CRASH_AT: `${point}:3` })
    expect(signal).toBe("SIGKILL")
    expect(said.filter((line) => line.commit !== undefined)).toHaveLength(2)
    await expectState(directory, branch, steps)
    // The same operations again: those that are done answer what they answered, the others follow.
    const again = await child([directory, "splice", branch, "5", "x"], {})
    expect(again.said.filter((line) => line.commit !== undefined)).toHaveLength(5)
    await expectState(directory, branch, 5)
  }
)

// Each of these commits appends a group of whole objects and one of frames.
it.each(["layerfs.pack.append:5", "layerfs.pack.append:6:EIO", "layerfs.pack.sync:3", "refs.index.commit:3"])(
  "L8 L14 W10 a splice that meets %s ends in a typed error with a remedy and changes nothing; asked for again it is done",
  async (fault) => {
    const { directory, branch } = await ground()
    const failed = await child([directory, "splice", branch, "3", "x"], { COPPICE_FAULT_AT: fault })
    expect(failed.said.filter((line) => line.error !== undefined)).toMatchObject([{ remedy: expect.any(String) }])
    expect(failed.said.filter((line) => line.commit !== undefined)).toHaveLength(2)
    const done = failed.said.flatMap((line) => (line.commit === undefined ? [] : [line.n]))
    expect(done).toEqual([0, 1])
    await expectState(directory, branch, 2)
    await child([directory, "splice", branch, "3", "x"], {})
    await expectState(directory, branch, 3)
  }
)
