import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import * as fc from "fast-check"
import { assert, expect, test } from "vitest"
import { exploreModule } from "../../src/explore/ExploreGraph.ts"
import { Explore } from "../../src/explore/index.ts"
import { workModule } from "../../src/governance/index.ts"
import { sessionModule } from "../../src/session/index.ts"
import { newBench, newGoal, seed } from "../governance/authority.ts"
import { codeOf, finding, graph, identityOf, link, newScene, node, type Scene } from "./scene.ts"

test("G1 G2 an explore command is one commit: asked again it replays from another opening too, another payload conflicts, nothing is doubled", async () => {
  const scene = await newScene()
  const at = await node(scene)
  const found = await finding(scene, at)
  await link(scene, at, "half")
  await link(scene, at, "whole")
  const { goal } = scene
  const offer = await scene.run(
    Explore.offerHandoff({ goal, from: "ada", to: "bob", identity: identityOf("half"), findings: [found] })
  )
  const commands = (words: string) =>
    [
      Explore.addNode({ commandId: "k1", goal, kind: "area", title: words, agent: null }),
      Explore.addFinding({
        commandId: "k2",
        goal,
        node: at,
        status: "tentative",
        text: words,
        agent: null,
        evidence: []
      }),
      Explore.linkCandidate({ commandId: "k3", goal, node: at, identity: identityOf("third"), commit: words }),
      Explore.addEdge({ commandId: "k4", goal, kind: "supports", from: found, to: at, agent: words }),
      Explore.takeHandoff({ commandId: "k5", handoff: offer.id, agent: "bob", observedIdentity: identityOf("half") }),
      Explore.adoptHandoff({
        commandId: "k6",
        handoff: offer.id,
        agent: "bob",
        usedFindings: words === "first" ? [found] : [found, found],
        resultIdentity: identityOf("whole")
      })
    ] as const
  const first: any[] = []
  for (const command of commands("first")) {
    const before = (await scene.store.verify()).entries
    first.push(await scene.run(command as any))
    const added = await scene.store.journal({ after: before, limit: 10 })
    assert.equal(new Set(added.map((entry) => entry.command)).size, 1)
    assert.isTrue(added.every((entry) => entry.module === "explore"))
  }
  const whole = await graph(scene)
  const other = await newBench({
    directory: scene.directory,
    modules: [workModule, sessionModule, exploreModule],
    now: () => scene.now
  })
  for (const [i, command] of commands("first").entries()) {
    const again: any = await other.run(command as any)
    assert.deepEqual(again, { ...first[i], replayed: true })
  }
  for (const [i, command] of commands("second").entries()) {
    if (i === 4) continue
    assert.equal(await codeOf(other, command as any), "IDEMPOTENCY_KEY_REUSE", `command ${i}`)
  }
  assert.deepEqual(await graph(scene), whole)
  assert.deepEqual(await scene.store.verify(), { ok: true, entries: whole.asOf, brokenAt: null })
})

test("G1 the explore tables are nothing but a reading of the journal: replayed into empty tables they are the same", async () => {
  const scene = await newScene()
  const at = await node(scene)
  await node(scene, "revised", { supersedes: at })
  await finding(scene, await finding(scene, at).then(() => at), { text: "second" })
  await link(scene, at, "x")
  const entries = (await scene.store.journal({ after: 0, limit: 1000 })).filter((entry) => entry.module === "explore")
  const kept = new DatabaseSync(join(scene.directory, "authority.db"), { readOnly: true })
  const replayed = new DatabaseSync(":memory:")
  try {
    for (const migration of exploreModule.migrations) replayed.exec(migration.sql)
    for (const entry of entries) {
      for (const { sql, params } of exploreModule.project(entry, entry)) replayed.prepare(sql).run(...(params as any))
    }
    for (const table of ["explore_node", "explore_edge", "explore_finding", "explore_candidate", "explore_handoff"]) {
      const sql = `SELECT * FROM ${table} ORDER BY seq`
      expect(replayed.prepare(sql).all()).toEqual(kept.prepare(sql).all())
    }
  } finally {
    kept.close()
    replayed.close()
  }
})

// --- random sequences against a plain model --------------------------------------------------------------------------

type Step =
  | { readonly do: "node"; readonly supersedes: number | null }
  | { readonly do: "finding"; readonly node: number; readonly firm: boolean; readonly supersedes: number | null }
  | { readonly do: "edge"; readonly from: number; readonly to: number }
  | { readonly do: "link"; readonly node: number; readonly word: number }
  | { readonly do: "offer"; readonly word: number; readonly finding: number }
  | { readonly do: "take"; readonly handoff: number; readonly word: number }
  | { readonly do: "adopt"; readonly handoff: number; readonly finding: number; readonly word: number }

const n = fc.nat(5)
const steps = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("node" as const), supersedes: fc.option(n) }),
    fc.record({ do: fc.constant("finding" as const), node: n, firm: fc.boolean(), supersedes: fc.option(n) }),
    fc.record({ do: fc.constant("edge" as const), from: n, to: n }),
    fc.record({ do: fc.constant("link" as const), node: n, word: fc.nat(2) }),
    fc.record({ do: fc.constant("offer" as const), word: fc.nat(2), finding: n }),
    fc.record({ do: fc.constant("take" as const), handoff: fc.nat(1), word: fc.nat(2) }),
    fc.record({ do: fc.constant("adopt" as const), handoff: fc.nat(1), finding: n, word: fc.nat(2) })
  ),
  { maxLength: 30 }
) as fc.Arbitrary<readonly Step[]>

interface Model {
  readonly nodes: { readonly id: string; supersededBy: string | null }[]
  readonly findings: { readonly id: string; readonly node: string; supersededBy: string | null }[]
  readonly edges: { readonly from: string; readonly to: string }[]
  readonly links: string[]
  readonly handoffs: { readonly id: string; identity: string; finding: string; verified: boolean; adopted: boolean }[]
}

const ghost = "node_ghost"
const word = (i: number) => identityOf(`word ${i}`)

/** What the rules say of a step, and the call; on success `apply` changes the model. */
const plan = (scene: Scene, m: Model, s: Step): { effect: any; expected: string; apply: (id: string) => void } => {
  const { goal } = scene
  const nothing = (expected: string, effect: any) => ({ effect, expected, apply: () => {} })
  switch (s.do) {
    case "node": {
      const old = s.supersedes === null ? null : (m.nodes[s.supersedes] ?? { id: ghost, supersededBy: null })
      const more = old === null ? {} : { supersedes: old.id }
      const effect = Explore.addNode({ goal, kind: "question", title: "q", agent: null, ...more })
      if (old?.id === ghost) return nothing("EXPLORE_NOT_FOUND", effect)
      if (old !== null && old.supersededBy !== null) return nothing("EXPLORE_REFUSED superseded", effect)
      return {
        effect,
        expected: "ok",
        apply: (id) => {
          if (old !== null) old.supersededBy = id
          m.nodes.push({ id, supersededBy: null })
        }
      }
    }
    case "finding": {
      const at = m.nodes[s.node]?.id ?? ghost
      const old = s.supersedes === null ? null : (m.findings[s.supersedes] ?? { id: ghost, supersededBy: null })
      const more = old === null ? {} : { supersedes: old.id }
      const status = s.firm ? "confirmed" : "tentative"
      const effect = Explore.addFinding({ goal, node: at, status, text: "t", agent: null, evidence: [], ...more })
      if (at === ghost) return nothing("EXPLORE_NOT_FOUND", effect)
      if (s.firm) return nothing("EXPLORE_REFUSED evidenceMissing", effect)
      if (old?.id === ghost) return nothing("EXPLORE_NOT_FOUND", effect)
      if (old !== null && old.supersededBy !== null) return nothing("EXPLORE_REFUSED superseded", effect)
      return {
        effect,
        expected: "ok",
        apply: (id) => {
          if (old !== null) old.supersededBy = id
          m.findings.push({ id, node: at, supersededBy: null })
        }
      }
    }
    case "edge": {
      const [from, to] = [m.nodes[s.from]?.id ?? ghost, m.findings[s.to]?.id ?? m.nodes[s.to]?.id ?? ghost]
      const effect = Explore.addEdge({ goal, kind: "leadsTo", from, to, agent: null })
      if (from === to) return nothing("EXPLORE_REFUSED selfEdge", effect)
      if (from === ghost || to === ghost) return nothing("EXPLORE_NOT_FOUND", effect)
      return { effect, expected: "ok", apply: () => void m.edges.push({ from, to }) }
    }
    case "link": {
      const at = m.nodes[s.node]?.id ?? ghost
      const effect = Explore.linkCandidate({ goal, node: at, identity: word(s.word), commit: "cmt_1" })
      if (at === ghost) return nothing("EXPLORE_NOT_FOUND", effect)
      const key = `${at} ${word(s.word)}`
      return { effect, expected: "ok", apply: () => void (m.links.includes(key) || m.links.push(key)) }
    }
    case "offer": {
      const found = m.findings[s.finding]?.id ?? ghost
      const identity = word(s.word)
      const effect = Explore.offerHandoff({ goal, from: "ada", to: "bob", identity, findings: [found] })
      if (!m.links.some((key) => key.endsWith(identity)) || found === ghost) return nothing("EXPLORE_NOT_FOUND", effect)
      return {
        effect,
        expected: "ok",
        apply: (id) => void m.handoffs.push({ id, identity, finding: found, verified: false, adopted: false })
      }
    }
    case "take": {
      const h = m.handoffs[s.handoff]
      const effect = Explore.takeHandoff({ handoff: h?.id ?? ghost, agent: "bob", observedIdentity: word(s.word) })
      if (h === undefined) return nothing("EXPLORE_NOT_FOUND", effect)
      if (h.identity !== word(s.word)) return nothing("HANDOFF_MISMATCH", effect)
      return {
        effect,
        expected: "ok",
        apply: () => {
          h.verified = true
        }
      }
    }
    case "adopt": {
      const h = m.handoffs[s.handoff]
      const used = m.findings[s.finding]?.id ?? ghost
      const resultIdentity = word(s.word)
      const effect = Explore.adoptHandoff({
        handoff: h?.id ?? ghost,
        agent: "bob",
        usedFindings: [used],
        resultIdentity
      })
      if (h === undefined) return nothing("EXPLORE_NOT_FOUND", effect)
      if (!h.verified) return nothing("EXPLORE_REFUSED notVerified", effect)
      if (h.adopted) return nothing("EXPLORE_REFUSED alreadyAdopted", effect)
      if (h.finding !== used) return nothing("EXPLORE_REFUSED findingNotUsed", effect)
      if (h.identity === resultIdentity) return nothing("EXPLORE_REFUSED noNewWork", effect)
      if (!m.links.some((key) => key.endsWith(resultIdentity))) return nothing("EXPLORE_NOT_FOUND", effect)
      return {
        effect,
        expected: "ok",
        apply: () => {
          h.adopted = true
        }
      }
    }
  }
}

test("E1 E2 E5 random commands: each answer, and the graph afterwards, are those of a plain model", async () => {
  const scene = await newScene()
  await fc.assert(
    fc.asyncProperty(steps, async (sequence) => {
      const mine: Scene = { ...scene, goal: (await newGoal(scene)).id }
      const model: Model = { nodes: [], findings: [], edges: [], links: [], handoffs: [] }
      for (const step of sequence) {
        const { effect, expected, apply } = plan(mine, model, step)
        const outcome = await scene.run(effect).then(
          (reply: any) => ({ code: "ok", id: String(reply.id) }),
          (error) => ({ code: error.reason === undefined ? error.code : `${error.code} ${error.reason}`, id: "" })
        )
        assert.equal(outcome.code, expected, JSON.stringify(step))
        if (expected === "ok") apply(outcome.id)
      }
      const read = await graph(mine)
      assert.deepEqual(
        {
          nodes: read.nodes.map(({ id, supersededBy }) => ({ id, supersededBy })),
          findings: read.findings.map(({ id, node: at, supersededBy }) => ({ id, node: at, supersededBy })),
          edges: read.edges.map(({ from, to }) => ({ from, to })),
          links: read.candidates.map((c) => `${c.node} ${c.identity}`),
          handoffs: read.handoffs.map(({ id, identity, findings, verified, adopted }) => ({
            id,
            identity,
            finding: findings[0]!,
            verified,
            adopted
          }))
        },
        model
      )
    }),
    { seed: seed(), numRuns: 30 }
  )
})
