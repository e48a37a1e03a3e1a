/**
 * The history graph as one SVG document, for light and dark pages.
 * Promise: well-formed whatever messages and names hold; no script, no link, nothing that is loaded; colours follow the reader's
 * `prefers-color-scheme`. Rules: W3, L3.
 */
import { actorText, beginsHereText, type HistoryGraph, plainLine } from "./HistoryGraph.ts"

const rowHeight = 26
const laneWidth = 18
const margin = 16
const charWidth = 7.2

/** Colours of lanes for light and dark: the eight of Okabe and Ito (2008), which people with colour vision deficiency can tell apart. */
const light = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07a00", "#3a86c8", "#8a6d00", "#444444"]
const dark = ["#56b4e9", "#ff9d4d", "#2fd3a5", "#f0a3cf", "#f0c030", "#8fc7ff", "#f0e442", "#cccccc"]

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

/** Text that may stand between tags and in attributes. */
const escaped = (text: string): string => plainLine(text).replaceAll(/[&<>"']/g, (c) => escapes[c]!)

const style = (): string => {
  const lanes = (colours: readonly string[]): string =>
    colours.map((colour, i) => `.l${i}{stroke:${colour}}.c${i}{fill:${colour}}`).join("")
  return [
    "svg{background:#ffffff}text{font:12px ui-monospace,monospace;fill:#1f2328}.q{fill:#59636e}.n{font-weight:bold}",
    "path{fill:none;stroke-width:2}circle{stroke:#ffffff;stroke-width:1.5}.more{stroke-dasharray:2 4}",
    lanes(light),
    `@media(prefers-color-scheme:dark){svg{background:#0d1117}text{fill:#e6edf3}.q{fill:#9198a1}circle{stroke:#0d1117}${lanes(dark)}}`
  ].join("")
}

/** The graph as an SVG document. `title` is told to people who hear it. */
export const graphSvg = ({ rows, lanes, more }: HistoryGraph, title = "History"): string => {
  const x = (lane: number): number => margin + lane * laneWidth
  const y = (row: number): number => margin + row * rowHeight
  const colour = (lane: number): number => lane % light.length
  const textAt = x(lanes) + 4
  const shapes: string[] = []
  const texts: string[] = []
  let longest = 0
  for (const [index, { commit, labels, lane, edges, beginsHere }] of rows.entries()) {
    const last = index === rows.length - 1
    for (const { from, to } of edges) {
      const [x1, y1, x2, y2] = [x(from), y(index), x(to), y(index + 1)]
      const bend = (y1 + y2) / 2
      const way = from === to ? `M${x1} ${y1}V${y2}` : `M${x1} ${y1}C${x1} ${bend} ${x2} ${bend} ${x2} ${y2}`
      // A line that leaves one lane for another has the colour of the one that it belongs to.
      shapes.push(`<path class="l${colour(Math.max(from, to))}${last && more ? " more" : ""}" d="${way}"/>`)
    }
    const names = labels.map((label) => `[${plainLine(label)}]`).join(" ")
    const said = plainLine(commit.message)
    const who = [actorText(commit), beginsHere ? `… ${beginsHereText}` : ""].filter((part) => part !== "").join(" ")
    longest = Math.max(longest, names.length + said.length + plainLine(who).length + commit.id.length + 4)
    texts.push(
      `<text x="${textAt}" y="${y(index) + 4}"><tspan class="q">${escaped(commit.id)}</tspan> <tspan class="n">${escaped(names)}</tspan> ${escaped(said)} <tspan class="q">${escaped(who)}</tspan></text>`
    )
    const tip = escaped(`${commit.id} ${new Date(commit.at).toISOString()} ${commit.message}`)
    shapes.push(
      `<circle class="c${colour(lane)}" cx="${x(lane)}" cy="${y(index)}" r="5"><title>${tip}</title></circle>`
    )
  }
  const width = Math.ceil(textAt + longest * charWidth + margin)
  const height = y(Math.max(rows.length, 1)) + (more ? rowHeight : 0)
  // Circles cover the lines that end in them.
  shapes.sort((a, b) => Number(a.startsWith("<circle")) - Number(b.startsWith("<circle")))
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(title)}">`,
    `<title>${escaped(title)}</title><style>${style()}</style>`,
    ...shapes,
    ...texts,
    ...(more ? [`<text class="q" x="${textAt}" y="${y(rows.length) + 4}">older commits are not shown</text>`] : []),
    "</svg>",
    ""
  ].join("\n")
}
