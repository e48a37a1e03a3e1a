/** Progress for people, written to a terminal that is looked at. Rules: W14. */
import { expect, test } from "vitest"
import { bar, progressLine } from "../../src/cli/ProgressLine.ts"

/** What a terminal shows after all that was written: lines, each as the last writing left it. */
const screen = (written: string): readonly string[] =>
  written.split("\n").map((line) => line.split("\r\u001b[2K").at(-1) ?? "")

const terminal = (isTTY: boolean, columns = 80) => {
  let written = ""
  return { stream: { isTTY, columns, write: (text: string) => (written += text) }, written: () => written }
}

test("W14 on a terminal a step takes the place of the one before, and what is told in between stays above it", () => {
  const { stream, written } = terminal(true)
  const line = progressLine(stream)
  line.show("store 1")
  line.show("store 2")
  line.tell("a1 ready")
  expect(screen(written())).toEqual(["a1 ready", "store 2"])
  line.show("store 3")
  line.end()
  line.end()
  line.tell("done")
  expect(screen(written())).toEqual(["a1 ready", "done", ""])
})

test("W14 where there is no terminal no step is written and no control character, only what is told", () => {
  const { stream, written } = terminal(false)
  const line = progressLine(stream)
  line.show("store 1")
  line.tell("a1 ready")
  line.show("store 2")
  line.end()
  expect(written()).toBe("a1 ready\n")
})

test("W14 a step fits the width of the terminal, and a name in it moves no cursor", () => {
  const { stream, written } = terminal(true, 20)
  const line = progressLine(stream)
  line.show(`x\u001b[2J\n${"y".repeat(100)}`)
  expect(screen(written())).toEqual([`x?[2J?${"y".repeat(13)}`])
})

test("W14 a bar is drawn by bytes, by files where there are none, and not at all while the total is unknown", () => {
  const step = { phase: "store", files: 1200, bytes: 50e6, totalFiles: 2400, totalBytes: 200e6 } as const
  expect(bar(step)).toBe("store       [######..................] 1,200 of 2,400 files, 50 MB of 200 MB")
  expect(bar({ ...step, totalBytes: null })).toBe("store       [############............] 1,200 of 2,400 files, 50 MB")
  expect(bar({ ...step, totalBytes: null, totalFiles: null })).toBe("store       1,200 files, 50 MB")
  expect(bar({ ...step, bytes: 300e6 })).toContain("[########################]")
  expect(bar({ ...step, bytes: 0, totalBytes: 0, files: 0, totalFiles: 0 })).toBe(
    "store       0 of 0 files, 0.0 MB of 0.0 MB"
  )
})
