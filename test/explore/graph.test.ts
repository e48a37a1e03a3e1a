import { assert, describe, test } from "vitest"
import { Explore, toMermaid } from "../../src/explore/index.ts"
import { newGoal } from "../governance/authority.ts"
import { codeOf, evidence, finding, graph, identityOf, link, newScene, node, type Scene } from "./scene.ts"

const rowsOf = async (scene: Scene) => {
  const { asOf: _, ...rows } = await graph(scene)
  return rows
}

describe("the graph", () => {
  test("E1 a revision supersedes: the older node and finding stay readable as they were, and are revised once", async () => {
    const scene = await newScene()
    const old = await node(scene, "first wording", { text: "as first asked" })
    const before = (await graph(scene)).nodes[0]!
    const revised = await node(scene, "second wording", { supersedes: old })
    const nodes = (await graph(scene)).nodes
    assert.deepEqual(nodes[0], { ...before, supersededBy: revised })
    assert.deepInclude(nodes[1], { id: revised, title: "second wording", supersededBy: null })
    const again = Explore.addNode({ goal: scene.goal, kind: "question", title: "x", agent: null, supersedes: old })
    assert.equal(await codeOf(scene, again), "EXPLORE_REFUSED superseded")

    const first = await finding(scene, revised)
    const found = (await graph(scene)).findings[0]!
    const second = await finding(scene, revised, {
      status: "refuted",
      evidence: [await evidence(scene)],
      supersedes: first
    })
    assert.deepEqual((await graph(scene)).findings[0], { ...found, supersededBy: second })
    const twice = {
      goal: scene.goal,
      node: revised,
      status: "tentative",
      text: "x",
      agent: null,
      evidence: []
    } as const
    assert.equal(await codeOf(scene, Explore.addFinding({ ...twice, supersedes: first })), "EXPLORE_REFUSED superseded")
    assert.equal((await graph(scene)).findings.length, 2)
  })

  test("E1 every kind of node and edge is kept as it was typed; an unknown kind, status or field is refused and changes nothing", async () => {
    const scene = await newScene()
    const kinds = ["question", "hypothesis", "experiment", "artifact", "area"] as const
    const ids: string[] = []
    for (const kind of kinds) ids.push(await node(scene, kind, { kind }))
    const edges = ["supports", "refutes", "answers", "dependsOn", "leadsTo", "subtopicOf"] as const
    const [from, to] = [ids[0]!, ids[1]!]
    for (const kind of edges) await scene.run(Explore.addEdge({ goal: scene.goal, kind, from, to, agent: "ada" }))
    const read = await graph(scene)
    assert.deepEqual(
      read.nodes.map((n) => n.kind),
      [...kinds]
    )
    assert.deepEqual(
      read.edges.map((e) => [e.kind, e.from, e.to]),
      edges.map((kind) => [kind, from, to])
    )
    const before = await rowsOf(scene)
    const bad: readonly object[] = [
      { kind: "guess" },
      { mood: "hopeful" },
      { title: "" },
      { title: 7 },
      { agent: undefined }
    ]
    for (const change of bad) {
      const input: any = { goal: scene.goal, kind: "question", title: "t", agent: null, ...change }
      assert.equal(await codeOf(scene, Explore.addNode(input)), "EXPLORE_REFUSED malformed", JSON.stringify(change))
    }
    const proven: any = { goal: scene.goal, node: from, status: "proven", text: "x", agent: null, evidence: [] }
    assert.equal(await codeOf(scene, Explore.addFinding(proven)), "EXPLORE_REFUSED malformed")
    const edge: any = { goal: scene.goal, kind: "likes", from, to, agent: null }
    assert.equal(await codeOf(scene, Explore.addEdge(edge)), "EXPLORE_REFUSED malformed")
    assert.deepEqual(await rowsOf(scene), before)
  })

  test("E1 texts are bounded: at the bound they are kept whole, one character more is refused", async () => {
    const scene = await newScene()
    const at = await node(scene, "t".repeat(200), { text: "x".repeat(2000) })
    await finding(scene, at, { text: "f".repeat(2000) })
    const read = await graph(scene)
    assert.deepEqual(
      [read.nodes[0]!.title.length, read.nodes[0]!.text!.length, read.findings[0]!.text.length],
      [200, 2000, 2000]
    )
    const long = (change: object) =>
      codeOf(scene, Explore.addNode({ goal: scene.goal, kind: "area", title: "t", agent: null, ...change }))
    assert.equal(await long({ title: "t".repeat(201) }), "EXPLORE_REFUSED malformed")
    assert.equal(await long({ text: "x".repeat(2001) }), "EXPLORE_REFUSED malformed")
    const fields = { goal: scene.goal, node: at, status: "tentative", agent: null, evidence: [] } as const
    assert.equal(
      await codeOf(scene, Explore.addFinding({ ...fields, text: "f".repeat(2001) })),
      "EXPLORE_REFUSED malformed"
    )
  })

  test("E1 a confirmed or refuted finding needs evidence that exists in this goal; a tentative one does not", async () => {
    const scene = await newScene()
    const at = await node(scene)
    const known = await evidence(scene)
    const add = (status: "tentative" | "confirmed" | "refuted", ids: readonly string[], goal = scene.goal) =>
      codeOf(scene, Explore.addFinding({ goal, node: at, status, text: "x", agent: "ada", evidence: ids }))
    for (const status of ["confirmed", "refuted"] as const) {
      assert.equal(await add(status, []), "EXPLORE_REFUSED evidenceMissing")
      assert.equal(await add(status, ["evd_invented"]), "EXPLORE_NOT_FOUND")
      assert.equal(await add(status, [known, "evd_invented"]), "EXPLORE_NOT_FOUND")
      assert.equal(await add(status, [known]), "ok")
    }
    assert.equal(await add("tentative", []), "ok")
    const elsewhere: Scene = { ...scene, goal: (await newGoal(scene)).id }
    const there = await node(elsewhere)
    const foreign = { goal: elsewhere.goal, node: there, status: "confirmed", text: "x", agent: null } as const
    assert.equal(await codeOf(scene, Explore.addFinding({ ...foreign, evidence: [known] })), "EXPLORE_NOT_FOUND")
    assert.deepEqual(
      (await graph(scene)).findings.map((f) => [f.status, f.evidence]),
      [
        ["confirmed", [known]],
        ["refuted", [known]],
        ["tentative", []]
      ]
    )
  })

  test("E1 a graph belongs to one goal: unknown goals and ends in another goal are refused, an edge needs two ends", async () => {
    const scene = await newScene()
    const here = await node(scene)
    const elsewhere: Scene = { ...scene, goal: (await newGoal(scene)).id }
    const there = await node(elsewhere)
    const edge = (from: string, to: string, goal = scene.goal) =>
      codeOf(scene, Explore.addEdge({ goal, kind: "supports", from, to, agent: null }))
    assert.equal(await edge(here, there), "EXPLORE_NOT_FOUND")
    assert.equal(await edge(here, "node_nowhere"), "EXPLORE_NOT_FOUND")
    assert.equal(await edge(here, here), "EXPLORE_REFUSED selfEdge")
    const nowhere = Explore.addNode({ goal: "goal_nowhere", kind: "area", title: "t", agent: null })
    assert.equal(await codeOf(scene, nowhere), "EXPLORE_NOT_FOUND")
    const stray = { status: "tentative", text: "x", agent: null, evidence: [] } as const
    assert.equal(
      await codeOf(scene, Explore.addFinding({ goal: scene.goal, node: there, ...stray })),
      "EXPLORE_NOT_FOUND"
    )
    const found = await finding(scene, here)
    assert.equal(await edge(found, here), "ok")
    assert.deepEqual((await graph(elsewhere)).edges, [])
    assert.equal((await graph(scene)).edges.length, 1)
  })

  test("E1 the export as JSON loses nothing, and the Mermaid picture shows every node, finding, edge and candidate, whatever their texts hold", async () => {
    const scene = await newScene()
    const first = await node(scene, 'is "a[b]" {c} | d <e>\nf?')
    const second = await node(scene, "because", { kind: "hypothesis" })
    const found = await finding(scene, second, { text: 'says "]) --> n9' })
    await scene.run(Explore.addEdge({ goal: scene.goal, kind: "answers", from: second, to: first, agent: "ada" }))
    await scene.run(Explore.addEdge({ goal: scene.goal, kind: "supports", from: found, to: second, agent: "ada" }))
    await link(scene, second, "candidate")
    const read = await graph(scene)
    assert.deepEqual(JSON.parse(JSON.stringify(read)), read)
    assert.equal(
      toMermaid(read),
      [
        "flowchart TD",
        '  n0["question: is  a b    c    d  e  f?"]',
        '  n1["hypothesis: because"]',
        '  n2(["tentative: says   ) --  n9"])',
        "  n1 --> n2",
        `  n3[("candidate ${identityOf("candidate").slice(7, 19)}")]`,
        "  n1 -.-> n3",
        "  n1 -- answers --> n0",
        "  n2 -- supports --> n1",
        ""
      ].join("\n")
    )
  })
})

describe("candidates", () => {
  test("E2 a node is linked to a candidate by full identity, never by a branch name, and only once", async () => {
    const scene = await newScene()
    const at = await node(scene)
    for (const identity of ["main", "cmt_1", identityOf("x").slice(0, 20), identityOf("x").toUpperCase()]) {
      const named = Explore.linkCandidate({ goal: scene.goal, node: at, identity, commit: "cmt_1" })
      assert.equal(await codeOf(scene, named), "EXPLORE_REFUSED malformed", identity)
    }
    const nowhere = { goal: scene.goal, node: "node_nowhere", identity: identityOf("x"), commit: "cmt_1" }
    assert.equal(await codeOf(scene, Explore.linkCandidate(nowhere)), "EXPLORE_NOT_FOUND")
    assert.deepEqual((await graph(scene)).candidates, [])
    await link(scene, at, "x")
    const other = await node(scene)
    await link(scene, other, "y")
    // An identity names one commit (W5): linked again it stays where it was, and under another commit it is refused.
    await link(scene, at, "x")
    for (const to of [at, other]) {
      const contradiction = { goal: scene.goal, node: to, identity: identityOf("x"), commit: "cmt_later" }
      assert.equal(await codeOf(scene, Explore.linkCandidate(contradiction)), "EXPLORE_REFUSED otherCommit")
    }
    assert.deepEqual((await graph(scene)).candidates, [
      { node: at, identity: identityOf("x"), commit: "cmt_x" },
      { node: other, identity: identityOf("y"), commit: "cmt_y" }
    ])
  })

  test("E2 one experiment spans several commits, and one checkpoint serves several nodes", async () => {
    const scene = await newScene()
    const [experiment, artifact] = [await node(scene, "try", { kind: "experiment" }), await node(scene, "made")]
    await link(scene, experiment, "step one")
    await link(scene, experiment, "step two")
    await link(scene, artifact, "step two")
    assert.deepEqual(
      (await graph(scene)).candidates.map((c) => [c.node, c.identity]),
      [
        [experiment, identityOf("step one")],
        [experiment, identityOf("step two")],
        [artifact, identityOf("step two")]
      ]
    )
  })
})
