/**
 * A second import beside a process that has a file of the source mapped for writing: while a page is dirty the kernel gives its
 * stores no time, so neither size nor times tell of them. Rules: W13, W19; C5.
 */
import { execFileSync, spawn } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { setTimeout as delay } from "node:timers/promises"
import { expect, it, vi } from "vitest"
import { settlingNs, stamping, trusting } from "../../providers/layerfs/ImportTrust.ts"
import { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { scan } from "../../src/workspace/kit/ImportScan.ts"
import { mayMount } from "./smallDisk.ts"
import { latin } from "./storeChange.ts"
import { atEnd, importInto, open, scratch } from "./storeFixture.ts"

vi.setConfig({ testTimeout: 60_000 })

/** Stores a number per line of its input through a shared mapping, and answers each. */
const program = `
import mmap, os, sys
page = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
for line in sys.stdin:
    page[0:8] = b"%08d" % int(line)
    sys.stdout.write("done " + line)
    sys.stdout.flush()
`

const tmpfs = (): string => {
  const path = scratch()
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "none", path])
  atEnd(() => execFileSync("umount", [path]))
  return path
}

const mapped = async (source: string, quick: bigint | undefined): Promise<void> => {
  const file = join(source, "mapped")
  fs.writeFileSync(file, Buffer.alloc(4096))
  const writer = spawn("python3", ["-c", program, file], { stdio: ["pipe", "pipe", "inherit"] })
  const ended = new Promise((resolve) => writer.on("close", resolve))
  atEnd(() => {
    writer.kill("SIGKILL")
    return ended
  })
  const lines = createInterface({ input: writer.stdout })[Symbol.asyncIterator]()
  const store = await open(join(scratch(), "s"), quick)
  for (const value of [1, 2, 3]) {
    writer.stdin.write(`${value}\n`)
    await lines.next()
    // Older than any tick of a clock: from here on nothing but the page itself tells of the next store.
    while (Date.now() - fs.lstatSync(file).ctimeMs < 2100) await delay(50)
    const { commit } = await importInto(store, source)
    const bytes = await store.call("readAt", { ref: commit, path: "mapped" })
    expect([value, Buffer.from(bytes).toString("latin1", 0, 8)]).toEqual([value, String(value).padStart(8, "0")])
  }
}

it("W13 W19 C5 stores through a shared mapping of which no time tells are in the next import", () =>
  mapped(scratch(), undefined))

it.skipIf(!mayMount)("W13 W19 C5 a tmpfs never stamps them: nothing on one is known again, however old", async () => {
  await mapped(tmpfs(), 2_000_000_000n)
})

it("W13 C5 a file is trusted when its times are older than a page may stay dirty, on a file system that stamps every change", async () => {
  const kernel = (expire: number, every: number) => (path: string) => (path.includes("expire") ? expire : every)
  expect(settlingNs(kernel(3000, 500))).toBe(70_000_000_000n)
  for (const [expire, every] of [
    [3000, 0],
    [0, 500],
    [Number.NaN, 500]
  ] as const)
    expect(settlingNs(kernel(expire, every))).toBe(undefined)
  const trusted = async (source: string, age: bigint): Promise<boolean> => {
    fs.writeFileSync(join(source, "f"), "f")
    const { files } = await scan(
      latin(source),
      new ImportNotes(),
      () => {},
      () => {}
    )
    return trusting(latin(source), files[0]!.ctimeNs + age)(files[0]!)
  }
  const known = stamping.has(fs.statfsSync(scratch()).type)
  expect(await trusted(scratch(), 0n)).toBe(known)
  expect(await trusted(scratch(), -1n)).toBe(false)
  if (mayMount) expect(await trusted(tmpfs(), 0n)).toBe(false)
})
