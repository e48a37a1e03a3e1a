/** A directory of the source that is swapped for a link while it is imported. Rules: W13; C17. */
import * as fs from "node:fs"
import { join } from "node:path"
import { MessageChannel } from "node:worker_threads"
import { describe, expect, it } from "vitest"
import { type Batch, type ReaderMessage, serveImportReader } from "../../providers/layerfs/ImportReader.ts"
import { openToWalk } from "../../src/base/Descent.ts"
import { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { scan, type ScannedFile } from "../../src/workspace/kit/ImportScan.ts"
import { latin } from "./storeChange.ts"
import { open, scratch } from "./storeFixture.ts"

/** `d/e/f` in a source, and a file of the same name, size and times outside, in `e/f`. */
const places = () => {
  const [source, outside] = [scratch(), scratch()]
  for (const [at, text] of [
    [join(source, "d/e"), "inside!"],
    [join(outside, "e"), "outside"]
  ] as const) {
    fs.mkdirSync(at, { recursive: true })
    fs.writeFileSync(join(at, "f"), text)
    fs.utimesSync(join(at, "f"), 1, 1)
  }
  const swap = (): void => {
    fs.renameSync(join(source, "d"), `${source}-d`)
    fs.symlinkSync(outside, join(source, "d"))
  }
  return { source, outside, swap }
}

it("W13 C17 what lies behind the link is not walked, also where a directory below it has the name of one that was seen", async () => {
  const { source, outside, swap } = places()
  fs.writeFileSync(join(outside, "e/only-outside"), "x")
  fs.writeFileSync(join(source, "d/z"), "met after d/e was seen, and before it is read")
  const notes = new ImportNotes()
  const found = await scan(
    latin(source),
    notes,
    () => {},
    ({ name }) => name === "z" && swap()
  )
  expect(found.files.map((file) => file.path)).toEqual(["d/z", "d/e/f"])
  fs.rmSync(`${source}-d`, { recursive: true })
})

describe.each(["by descriptors", "by paths"])("%s", (how) => {
  it("W13 C17 a file is not read through a link that lies where the scan saw a directory", async () => {
    const { source, outside, swap } = places()
    const files: ScannedFile[] = []
    await scan(
      latin(source),
      new ImportNotes(),
      () => {},
      (file) => files.push(file)
    )
    const [{ size, mode, mtimeNs, ctimeNs, device, ino }] = files as [ScannedFile]
    const store = join(scratch(), "s")
    await open(store)
    const { port1, port2 } = new MessageChannel()
    const root = how === "by paths" ? null : openToWalk(latin(source))
    serveImportReader(port1, {
      role: "import",
      source: latin(source),
      root,
      index: join(store, "layerfs/index.db"),
      claims: new SharedArrayBuffer(1024)
    })
    const read = (lookedAt: number): Promise<ReaderMessage> =>
      new Promise((resolve) => {
        port2.once("message", resolve)
        port2.postMessage({
          indexes: Uint32Array.of(0),
          paths: ["d/e/f"],
          sizes: Float64Array.of(size),
          modes: Uint16Array.of(mode),
          times: BigInt64Array.of(mtimeNs, ctimeNs),
          inodes: BigUint64Array.of(device, ino),
          lookedAt,
          force: false
        } satisfies Batch)
      })
    const long = Date.now() + 60_000
    expect(await read(long)).toMatchObject({ outcomes: { indexes: Uint32Array.of(0), others: [] } })
    expect(await read(0)).toMatchObject({ outcomes: { others: [{ index: 0, size: 7 }] } })
    swap()
    if (root !== null) {
      // Where it was entered before, it leads where it led.
      expect(await read(0)).toMatchObject({ outcomes: { others: [{ index: 0, size: 7 }] } })
      fs.rmSync(`${source}-d`, { recursive: true })
    }
    for (const lookedAt of [long, 0])
      expect(await read(lookedAt)).toMatchObject({ outcomes: { others: [{ index: 0, gone: true }] } })
    expect(fs.readFileSync(join(outside, "e/f"), "utf8")).toBe("outside")
    port2.close()
    if (root !== null) fs.closeSync(root)
    else fs.rmSync(`${source}-d`, { recursive: true })
  })
})
