/**
 * The history graph for a terminal: a row for each commit, and a row of lines where lanes part or join.
 * Promise: no character of a message or a name reaches the terminal as a control; nothing is cut that is not told. Rules: W3, L3.
 */
import { actorText, beginsHereText, type GraphEdge, type HistoryGraph, plainLine } from "./HistoryGraph.ts"

const UP = 1
const DOWN = 2
const LEFT = 4
const RIGHT = 8

/** Lines by the sides that they leave a cell to. */
const lines = " ╵╷│╴╯╮┤╶╰╭├─┴┬┼"
const plainLines = " |||-'.+-'.+-+++"

export interface GraphTextOptions {
  /** Only ASCII characters for the graph. */
  readonly ascii?: boolean
}

/** The rows between two commits, none where every line goes straight on: first those that join to the left, then those that part. */
const joints = (edges: readonly GraphEdge[], charset: string): string[] => {
  const joining = edges.filter(({ from, to }) => to < from)
  const parting = edges.filter(({ from, to }) => to > from)
  const straight = (lane: number): GraphEdge => ({ from: lane, to: lane })
  const rows: string[] = []
  if (joining.length > 0)
    rows.push(
      joint(
        edges.map((edge) => (edge.to > edge.from ? straight(edge.from) : edge)),
        charset
      )
    )
  if (parting.length > 0)
    rows.push(
      joint(
        edges.map((edge) => (edge.to < edge.from ? straight(edge.to) : edge)),
        charset
      )
    )
  return rows
}

const joint = (edges: readonly GraphEdge[], charset: string): string => {
  const cells: number[] = []
  const add = (cell: number, sides: number): void => {
    cells[cell] = (cells[cell] ?? 0) | sides
  }
  for (const { from, to } of edges) {
    const [a, b] = [2 * from, 2 * to]
    if (a === b) add(a, UP | DOWN)
    else {
      add(a, UP | (b > a ? RIGHT : LEFT))
      for (let cell = Math.min(a, b) + 1; cell < Math.max(a, b); cell += 1) add(cell, LEFT | RIGHT)
      add(b, DOWN | (b > a ? LEFT : RIGHT))
    }
  }
  return Array.from(cells, (sides) => charset[sides ?? 0]).join("")
}

/** The graph as lines of text: the mark, the id, branches in brackets, the message, and who made it. */
export const graphText = ({ rows, more }: HistoryGraph, { ascii = false }: GraphTextOptions = {}): string => {
  const charset = ascii ? plainLines : lines
  const out: string[] = []
  for (const { commit, labels, lane, passing, edges, beginsHere } of rows) {
    const marks = Array.from({ length: Math.max(lane, ...passing) + 1 }, () => " ")
    for (const at of passing) marks[at] = charset[UP | DOWN]!
    marks[lane] = commit.parent === null || beginsHere ? (ascii ? "o" : "◇") : ascii ? "*" : "●"
    const names = labels.map((label) => `[${plainLine(label)}] `).join("")
    const who = actorText(commit)
    const said = plainLine(commit.message)
    const by = who === "" ? "" : `  (${plainLine(who)})`
    const begins = beginsHere ? `  … ${beginsHereText}` : ""
    out.push(`${marks.join(" ")}  ${commit.id} ${names}${said}${by}${begins}`.trimEnd())
    out.push(...joints(edges, charset))
  }
  if (more) out.push("…  older commits are not shown")
  return out.join("\n")
}
