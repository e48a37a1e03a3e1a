/**
 * What all kept states take on the disk, each extent once.
 * Promise: counted by the extents that the file system tells of (FIEMAP, by `filefrag` of e2fsprogs), or null where they cannot be listed.
 * Rules: RL2, L11. Compressed extents count with the length that they have when read; what lies in metadata (small files of btrfs) counts nothing.
 */
import * as fs from "node:fs"
import { fromInput } from "../../src/base/PathBytes.ts"
import { openRoot } from "../../src/base/Descent.ts"
import { runTool } from "./Tool.ts"

/** `   2:       25..     732:         49..       756:    708:             last,shared,eof`, in blocks. */
const extent = /^ *\d+: +\d+\.\. *\d+: +(\d+)\.\. *(\d+): +\d+: +(?:\d+: *)?([\w,]*)$/
const blockSize = /^File size of .* blocks? of (\d+) bytes\)$/

class Extents {
  #own = 0
  readonly #shared: [start: number, end: number][] = []
  #block = 4096

  add(line: string): void {
    const [, block] = blockSize.exec(line) ?? []
    if (block !== undefined) this.#block = Number(block)
    const [, first, last, flags = ""] = extent.exec(line) ?? []
    if (first === undefined || /inline|delalloc|unknown/.test(flags)) return
    const start = Number(first) * this.#block
    const end = (Number(last) + 1) * this.#block
    if (flags.includes("shared")) this.#shared.push([start, end])
    else this.#own += end - start
  }

  /** Of extents that overlap, the union. */
  bytes(): number {
    let bytes = this.#own
    let counted = 0
    for (const [start, end] of this.#shared.sort(([a], [b]) => a - b)) {
      bytes += Math.max(0, end - Math.max(start, counted))
      counted = Math.max(counted, end)
    }
    return bytes
  }
}

/** `directory` holds the states. */
export const storedBytes = async (directory: string): Promise<number | null> => {
  const inside = openRoot(fromInput(directory))
  const extents = new Extents()
  let rest = ""
  try {
    const { code, messages } = await runTool(["find", ".", "-type", "f", "-exec", "filefrag", "-v", "{}", "+"], {
      inside,
      // Modes of 000 hide nothing from their owner.
      mapped: process.getuid?.() !== 0,
      onOutput: (piece) => {
        const lines = (rest + piece.toString("latin1")).split("\n")
        rest = lines.pop()!
        for (const line of lines) extents.add(line)
      }
    })
    // A message is a part that was not counted.
    return code === 0 && messages === "" ? extents.bytes() : null
  } finally {
    fs.closeSync(inside)
  }
}

/** Whether the program is there that lists extents. */
export const countsBytes = async (): Promise<boolean> => {
  try {
    return (await runTool(["filefrag", "-V"])).code === 0
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall?.startsWith("spawn") === true) return false
    throw error
  }
}
