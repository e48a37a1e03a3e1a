/**
 * Identifiers: UUIDv7 with a type prefix (`goal_…`, `todo_…`), so that an id tells what it names and sorts by time.
 * Promise: an id never repeats and never carries meaning beyond its prefix. (01, Time, ids, bytes)
 */
import { randomBytes } from "node:crypto"
import { v7 } from "uuid"

/** Every prefix in use, with what it names. */
export const prefixes = {
  goal: "goal_",
  todo: "todo_",
  agent: "agt_",
  lease: "lse_",
  turn: "turn_",
  reservation: "rsv_",
  effect: "eff_",
  evidence: "evd_",
  settlement: "stl_",
  candidate: "cnd_",
  binding: "bnd_",
  node: "node_",
  finding: "fnd_",
  edge: "edge_",
  project: "prj_",
  layer: "lyr_",
  branch: "brn_",
  commit: "cmt_",
  workspace: "wsp_",
  operation: "op_",
  command: "cmd_",
  attempt: "att_",
  verdict: "vrd_",
  handoff: "hnd_",
  run: "run_",
  pin: "pin_",
  gate: "gate_",
  obligation: "obl_",
  source: "src_",
  packet: "pkt_",
  delivery: "dlv_"
} as const

export type IdKind = keyof typeof prefixes

/** A new id of the given kind, for example `goal_0197…`. */
export const newId = (kind: IdKind): string => prefixes[kind] + v7()

/** True when `value` is an id of the given kind. */
export const isId = (kind: IdKind, value: string): boolean =>
  value.startsWith(prefixes[kind]) && /^[0-9a-f-]{36}$/.test(value.slice(prefixes[kind].length))

/** An unguessable token of 256 bits, for fencing (G30). */
export const newToken = (): string => randomBytes(32).toString("base64url")
