/**
 * The explore room's tables: how each journaled fact changes them.
 * Promise: they are a reading of the journal and hold nothing else; a fact adds a row or marks one, and rewrites no text.
 * Rules: E1, E2, E5, G1.
 */
import type { AuthorityModule, JournalEvent, Statement } from "../governance/Module.ts"

export const project: AuthorityModule["project"] = (event: JournalEvent, meta) => {
  const d = event.data as Record<string, any>
  const statements: Statement[] = []
  const put = (sql: string, ...params: Statement["params"]) => statements.push({ sql, params })
  switch (event.type) {
    case "explore.nodeAdded":
      put(
        "INSERT INTO explore_node (id, goal, kind, title, text, agent, seq, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        d["id"],
        d["goal"],
        d["kind"],
        d["title"],
        d["text"] ?? null,
        d["agent"],
        meta.seq,
        meta.at
      )
      if (d["supersedes"]) put("UPDATE explore_node SET superseded_by = ? WHERE id = ?", d["id"], d["supersedes"])
      break
    case "explore.edgeAdded":
      put(
        "INSERT INTO explore_edge (id, goal, kind, source, target, seq) VALUES (?, ?, ?, ?, ?, ?)",
        d["id"],
        d["goal"],
        d["kind"],
        d["from"],
        d["to"],
        meta.seq
      )
      break
    case "explore.findingAdded":
      put(
        "INSERT INTO explore_finding (id, goal, node, status, text, agent, evidence, seq, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        d["id"],
        d["goal"],
        d["node"],
        d["status"],
        d["text"],
        d["agent"],
        JSON.stringify(d["evidence"]),
        meta.seq,
        meta.at
      )
      if (d["supersedes"]) put("UPDATE explore_finding SET superseded_by = ? WHERE id = ?", d["id"], d["supersedes"])
      break
    case "explore.candidateLinked":
      put(
        "INSERT INTO explore_candidate (node, goal, identity, commit_id, seq) VALUES (?, ?, ?, ?, ?) ON CONFLICT (node, identity) DO NOTHING",
        d["node"],
        d["goal"],
        d["identity"],
        d["commit"],
        meta.seq
      )
      break
    case "explore.handoffOffered":
      put(
        "INSERT INTO explore_handoff (id, goal, sender, receiver, identity, findings, seq) VALUES (?, ?, ?, ?, ?, ?, ?)",
        d["id"],
        d["goal"],
        d["from"],
        d["to"],
        d["identity"],
        JSON.stringify(d["findings"]),
        meta.seq
      )
      break
    case "explore.handoffVerified":
      put("UPDATE explore_handoff SET verified = 1 WHERE id = ?", d["handoff"])
      break
    case "explore.handoffAdopted":
      put(
        "UPDATE explore_handoff SET adopted = 1, used = ?, result_identity = ? WHERE id = ?",
        JSON.stringify(d["usedFindings"]),
        d["resultIdentity"],
        d["handoff"]
      )
      break
  }
  return statements
}

export const migrations = [
  {
    version: 1,
    name: "explore graph",
    sql: `
CREATE TABLE explore_node (id TEXT PRIMARY KEY, goal TEXT NOT NULL, kind TEXT NOT NULL, title TEXT NOT NULL, text TEXT,
  agent TEXT, superseded_by TEXT, seq BIGINT NOT NULL, at BIGINT NOT NULL);
CREATE INDEX explore_node_goal ON explore_node (goal, seq);
CREATE TABLE explore_edge (id TEXT PRIMARY KEY, goal TEXT NOT NULL, kind TEXT NOT NULL, source TEXT NOT NULL,
  target TEXT NOT NULL, seq BIGINT NOT NULL);
CREATE INDEX explore_edge_goal ON explore_edge (goal, seq);
CREATE TABLE explore_finding (id TEXT PRIMARY KEY, goal TEXT NOT NULL, node TEXT NOT NULL REFERENCES explore_node (id),
  status TEXT NOT NULL, text TEXT NOT NULL, agent TEXT, evidence TEXT NOT NULL, superseded_by TEXT,
  seq BIGINT NOT NULL, at BIGINT NOT NULL);
CREATE INDEX explore_finding_goal ON explore_finding (goal, seq);
CREATE TABLE explore_candidate (node TEXT NOT NULL REFERENCES explore_node (id), goal TEXT NOT NULL,
  identity TEXT NOT NULL, commit_id TEXT NOT NULL, seq BIGINT NOT NULL, PRIMARY KEY (node, identity));
CREATE TABLE explore_handoff (id TEXT PRIMARY KEY, goal TEXT NOT NULL, sender TEXT NOT NULL, receiver TEXT NOT NULL,
  identity TEXT NOT NULL, findings TEXT NOT NULL, verified INTEGER NOT NULL DEFAULT 0, adopted INTEGER NOT NULL DEFAULT 0,
  used TEXT, result_identity TEXT, seq BIGINT NOT NULL);
CREATE INDEX explore_handoff_goal ON explore_handoff (goal, seq);
`
  }
] as const
