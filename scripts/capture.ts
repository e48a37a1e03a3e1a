/**
 * `node scripts/capture.ts [--out FILE] [-- COMMAND...]`: runs the demo (or a command) and draws what it printed as an SVG.
 * Promise: the text of one real run, in the order in which it came; the place of the record is shown by a short name, and a
 * path of this machine that is left is a failure and no picture. Rules: J2 (shown), W14.
 */
import { spawn } from "node:child_process"
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { hostname, tmpdir } from "node:os"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..")

/** One line as it stood on the screen. */
export interface CapturedLine {
  readonly stream: "stdout" | "stderr"
  readonly text: string
}

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

const colours: readonly (readonly [words: RegExp, colour: string])[] = [
  [/\b(?:accepted|passed)\b/g, "#7ee787"],
  [/\b(?:refused|failed)\b/g, "#ff938a"],
  [/\b(?:handedOver|progress|inconclusive)\b/g, "#e3b341"]
]

/** The words that say how something ended, in their colours; the rest as it is. */
const painted = (text: string): string => {
  let shown = escape(text)
  for (const [words, colour] of colours) {
    shown = shown.replaceAll(words, (word) => `<tspan fill="${colour}">${word}</tspan>`)
  }
  return shown
}

const lineHeight = 17
const characterWidth = 7.83

/** A drawing of a terminal: its own dark ground, so that it reads the same on a light and on a dark page. */
export const drawTerminal = (command: string, lines: readonly CapturedLine[], columns: number): string => {
  const rows = [{ stream: "stdout", text: `$ ${command}` } as const, ...lines]
  const width = Math.ceil(columns * characterWidth) + 40
  const height = rows.length * lineHeight + 56
  const text = rows.map(({ stream, text: row }, index) => {
    const shown = row.length > columns ? `${row.slice(0, columns - 1)}…` : row
    const colour = index === 0 ? ' fill="#ffffff"' : stream === "stderr" ? ' fill="#9aa4b0"' : ""
    return `<text x="20" y="${44 + index * lineHeight}"${colour}>${painted(shown)}</text>`
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escape(command)} and what it printed">`,
    `<rect width="${width}" height="${height}" rx="8" fill="#161b22" stroke="#444c56"/>`,
    ...["#ff5f57", "#febc2e", "#28c840"].map((fill, i) => `<circle cx="${20 + i * 16}" cy="16" r="5" fill="${fill}"/>`),
    `<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="13" fill="#d6dde5" xml:space="preserve" style="white-space:pre">`,
    ...text,
    "</g>",
    "</svg>",
    ""
  ].join("\n")
}

/** The text with places of this machine by their short names. Throws when one is left that no short name stands for. */
export const withoutPlaces = (text: string, places: Readonly<Record<string, string>>): string => {
  let shown = text
  for (const [place, name] of Object.entries(places)) shown = shown.replaceAll(place, name)
  const left = /(?:^|[\s"'(=:])(\/(?:home|root|tmp|var|work|Users|private|mnt|opt|data)\b\S*)/.exec(shown)?.[1]
  if (left !== undefined) throw new Error(`A path of this machine would be shown: ${left}`)
  if (shown.includes(hostname())) throw new Error("The name of this machine would be shown.")
  return shown
}

/** Runs a command and keeps its lines in the order in which they were completed. */
export const runCaptured = (
  argv: readonly [string, ...string[]],
  cwd: string
): Promise<{ readonly lines: readonly CapturedLine[]; readonly code: number | null }> =>
  new Promise((done, fail) => {
    const lines: CapturedLine[] = []
    const child = spawn(argv[0], argv.slice(1), { cwd, stdio: ["ignore", "pipe", "pipe"] })
    const rest = { stdout: "", stderr: "" }
    for (const stream of ["stdout", "stderr"] as const) {
      child[stream].setEncoding("utf8").on("data", (chunk: string) => {
        const parts = (rest[stream] + chunk).split("\n")
        rest[stream] = parts.pop() ?? ""
        lines.push(...parts.map((text) => ({ stream, text: text.trimEnd() })))
      })
    }
    child.once("error", fail)
    child.once("close", (code) => {
      for (const stream of ["stdout", "stderr"] as const)
        if (rest[stream] !== "") lines.push({ stream, text: rest[stream] })
      done({ lines, code })
    })
  })

const main = async (): Promise<void> => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { out: { type: "string", default: join(root, "docs", "demo.svg") } }
  })
  const record = join(root, "record", `capture-${process.pid}`)
  const demo = [process.execPath, join(root, "examples", "explore-repair", "demo.ts"), "--record", record] as const
  const argv = positionals.length === 0 ? demo : (positionals as [string, ...string[]])
  mkdirSync(dirname(record), { recursive: true })
  try {
    const { lines, code } = await runCaptured(argv, root)
    if (code !== 0) throw new Error(`The command ended with ${code}: ${lines.at(-1)?.text ?? "it printed nothing"}`)
    const places = {
      [record]: "record/demo",
      [`record/capture-${process.pid}`]: "record/demo",
      [`${root}/`]: "",
      [tmpdir()]: "TMP"
    }
    const shown = lines.map(({ stream, text }) => ({ stream, text: withoutPlaces(text, places) }))
    const svg = drawTerminal(positionals.length === 0 ? "npm run demo" : positionals.join(" "), shown, 112)
    writeFileSync(values.out, svg)
    console.error(`${shown.length} lines, ${(svg.length / 1000).toFixed(1)} kB`)
  } finally {
    rmSync(record, { recursive: true, force: true })
  }
}

if (import.meta.main) await main()
