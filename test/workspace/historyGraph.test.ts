/** The history graph: lanes, and what text and SVG make of them. Rules: W3, L3. */
import { expect, test } from "vitest"
import { seededRandom } from "../seededRandom.ts"
import { graphSvg } from "../../src/workspace/HistoryGraphSvg.ts"
import { graphText } from "../../src/workspace/HistoryGraphText.ts"
import { historyGraph } from "../../src/workspace/HistoryGraph.ts"
import type { CommitInfo } from "../../src/workspace/WorkspaceValues.ts"

const commit = (id: string, parent: string | null, secondParent: string | null = null, more = {}): CommitInfo => ({
  id,
  project: "prj",
  parent,
  secondParent,
  root: `sha256:${"0".repeat(64)}`,
  message: `m ${id}`,
  at: 0,
  operationId: `op_${id}`,
  actor: {},
  live: false,
  ...more
})

/** Newest first: a base, two branches of it, a merge, and a branch of one of them. */
const scene = [
  commit("g", "e"),
  commit("f", "d"),
  commit("e", "d", "c"),
  commit("d", "b"),
  commit("c", "a"),
  commit("b", "a"),
  commit("a", null)
]

test("W3 L3 lines of work keep to their lanes, part where they were forked and join where they were merged", () => {
  const graph = historyGraph(
    scene,
    new Map([
      ["g", ["main"]],
      ["f", ["try", "again"]]
    ])
  )
  expect(graph.lanes).toBe(3)
  expect(graphText(graph).split("\n")).toEqual([
    "●  g [main] m g",
    "│ ●  f [try] [again] m f",
    "● │  e m e",
    "├─╯",
    "├───╮",
    "●   │  d m d",
    "│   ●  c m c",
    "●   │  b m b",
    "├───╯",
    "◇  a m a"
  ])
  expect(graphText(graph, { ascii: true }).split("\n").slice(2, 5)).toEqual(["* |  e m e", "+-'", "+---."])
})

test("W3 every commit has one row, and following the lines leads from each commit to exactly its parents", () => {
  const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
  console.log(`historyGraph seed ${seed}`)
  const next = seededRandom(seed)
  for (let round = 0; round < 50; round += 1) {
    const made: CommitInfo[] = []
    for (let i = 0; i < 40; i += 1) {
      const any = () => made[made.length - 1 - next(Math.min(made.length, 6))]!.id
      const first = made.length === 0 || next(20) === 0 ? null : any()
      const second = first === null || next(4) > 0 ? null : any()
      made.push(commit(`c${i}`, first, second === first ? null : second))
    }
    const commits = made.toReversed()
    const { rows, lanes } = historyGraph(commits)
    expect(rows.map((row) => row.commit.id)).toEqual(commits.map(({ id }) => id))
    // The ids that come down each lane, from row to row.
    let above = new Map<number, Set<string>>()
    const reached = new Map<string, Set<string>>()
    for (const { commit: here, lane, passing, edges } of rows) {
      reached.set(here.id, above.get(lane) ?? new Set())
      expect(passing).not.toContain(lane)
      expect(Math.max(lane, ...passing)).toBeLessThan(lanes)
      const below = new Map<number, Set<string>>()
      for (const { from, to } of edges) {
        const carried = from === lane ? new Set([here.id]) : above.get(from)
        expect(carried, `seed ${seed}, round ${round}: a line begins nowhere`).toBeDefined()
        below.set(to, new Set([...(below.get(to) ?? []), ...carried!]))
      }
      above = below
    }
    for (const { id, parent, secondParent } of commits) {
      for (const up of [parent, secondParent]) {
        if (up !== null) expect([...reached.get(up)!], `seed ${seed}, round ${round}: ${id} to ${up}`).toContain(id)
      }
    }
  }
})

const nasty = [
  commit("b", "a", null, {
    message: 'done \u001b[31m<script>alert("1")</script> & \u202e\u0000\ud800 ok\nsecond line',
    actor: { call: "c<1>", agent: "a&b", goal: "g" }
  }),
  commit("a", null)
]

test("W3 no message or name reaches a terminal or a page as anything but text", () => {
  const graph = historyGraph(nasty, new Map([["b", ['x"\u001b]0;<y>']]]), true)
  const text = graphText(graph, { ascii: true })
  expect(text.split("\n")).toEqual([
    '*  b [x"?]0;<y>] done ?[31m<script>alert("1")</script> & ??? ok  (a&b c<1> g)',
    "o  a m a",
    "…  older commits are not shown"
  ])
  const svg = graphSvg(graph, "<title>")
  expect(svg).not.toMatch(/<script|[\u0000-\u0008\u001b\u202e]/)
  expect(svg).toContain("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; ??? ok")
  expect(svg).toContain("prefers-color-scheme:dark")
  // Well-formed: every tag that is opened is closed, and no bare sign is left between them.
  const open: string[] = []
  for (const [, close, name, self] of svg.matchAll(/<(\/?)([a-z]+)(?:\s[^<>]*?)?(\/?)>/g)) {
    if (close === "/") expect(open.pop()).toBe(name)
    else if (self !== "/") open.push(name!)
  }
  expect(open).toEqual([])
  expect(svg.replaceAll(/<[^<>]*>/g, "").replaceAll(/&(amp|lt|gt|quot|#39);/g, "")).not.toMatch(/[<>&]/)
  expect(svg.match(/<circle/g)?.length).toBe(2)
})

test("W3 an empty history draws an empty picture", () => {
  expect(graphText(historyGraph([]))).toBe("")
  expect(graphSvg(historyGraph([]))).toMatch(/^<svg [^]*<\/svg>\n$/)
})
