/** The drawing of a run for the README. Rules: W14. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { drawTerminal, runCaptured, withoutPlaces } from "../../scripts/capture.ts"

const drawn = readFileSync(join(import.meta.dirname, "../../docs/demo.svg"), "utf8")
const textOf = (svg: string): readonly string[] =>
  [...svg.matchAll(/<text [^>]*>(.*)<\/text>/g)].map(([, text]) => (text ?? "").replaceAll(/<[^>]*>/g, ""))

test("W14 the picture in the README is of a whole run, small, and shows no place of the machine that it ran on", () => {
  const lines = textOf(drawn)
  expect(lines[0]).toBe("$ npm run demo")
  expect(lines.some((line) => /r1 .* accepted /.test(line))).toBe(true)
  expect(lines.at(-1)).toMatch(/^ {2}done in \d+\.\d s$/)
  expect(Buffer.byteLength(drawn)).toBeLessThan(60_000)
  expect(withoutPlaces(lines.join("\n"), {})).toBe(lines.join("\n"))
})

test("W14 what a command printed is kept line by line, cut to the width, with its markup characters shown as they are", async () => {
  const argv = ["sh", "-c", `echo 'a <b> & "c"'; echo refused >&2; printf 'no end'`] as const
  const { lines, code } = await runCaptured([...argv], import.meta.dirname)
  expect(code).toBe(0)
  expect(lines.map((line) => `${line.stream} ${line.text}`).toSorted()).toEqual([
    "stderr refused",
    'stdout a <b> & "c"',
    "stdout no end"
  ])
  const svg = drawTerminal("x", [...lines, { stream: "stdout", text: "y".repeat(50) }], 20)
  expect(textOf(svg)).toContain("a &lt;b&gt; &amp; &quot;c&quot;")
  expect(svg).toContain('<tspan fill="#ff938a">refused</tspan>')
  expect(textOf(svg).at(-1)).toBe(`${"y".repeat(19)}…`)
})

test("W14 a place with a short name is shown by it, and any other absolute path is refused", () => {
  expect(withoutPlaces("record at /srv/x/record/7", { "/srv/x/record/7": "record/demo" })).toBe("record at record/demo")
  expect(() => withoutPlaces("see /home/me/x", {})).toThrow("/home/me/x")
  expect(() => withoutPlaces("(/tmp/x)", {})).toThrow("/tmp/x")
})
