import { assert, test } from "vitest"
import { Explore } from "../../src/explore/index.ts"
import { codeOf, finding, graph, identityOf, link, newScene, node, type Scene } from "./scene.ts"

const offered = async () => {
  const scene = await newScene()
  const at = await node(scene)
  const found = await finding(scene, at)
  const unoffered = await finding(scene, at, { text: "something else" })
  await link(scene, at, "half way")
  await link(scene, at, "finished")
  const offer = { goal: scene.goal, from: "ada", to: "bob", identity: identityOf("half way"), findings: [found] }
  const { id } = await scene.run(Explore.offerHandoff(offer))
  return { scene, offer, found, unoffered, id, at }
}

const take = (handoff: string, word = "half way", agent = "bob") =>
  Explore.takeHandoff({ handoff, agent, observedIdentity: identityOf(word) })
const adopt = (handoff: string, usedFindings: readonly string[], word = "finished", agent = "bob") =>
  Explore.adoptHandoff({ handoff, agent, usedFindings, resultIdentity: identityOf(word) })
const read = async (scene: Scene) => (await graph(scene)).handoffs[0]!

test("E5 a receiver that forked something else gets HandoffMismatch with both identities, and nothing is verified", async () => {
  const { scene, id } = await offered()
  const error = await scene.fails(take(id, "another state"))
  assert.deepInclude(error, {
    code: "HANDOFF_MISMATCH",
    expected: identityOf("half way"),
    observed: identityOf("another state")
  })
  assert.deepInclude(await read(scene), { verified: false, adopted: false })
  assert.equal(await codeOf(scene, take(id, "half way", "ada")), "EXPLORE_REFUSED notReceiver")
  assert.equal(await codeOf(scene, take("hnd_nowhere")), "EXPLORE_NOT_FOUND")
  assert.deepInclude(await read(scene), { verified: false })
})

test("E5 adoption needs a verified candidate, a finding that was offered and new work: a read, a summary or a fork alone is none", async () => {
  const { scene, id, found, unoffered } = await offered()
  assert.equal(await codeOf(scene, adopt(id, [found])), "EXPLORE_REFUSED notVerified")
  const taken = await scene.run(take(id))
  assert.deepInclude(taken, { handoff: id, verified: true })
  // Verifying is a fork with a read receipt: it is not adoption.
  assert.deepInclude(await read(scene), { verified: true, adopted: false, usedFindings: [], resultIdentity: null })
  assert.equal(await codeOf(scene, adopt(id, [])), "EXPLORE_REFUSED findingNotUsed")
  assert.equal(await codeOf(scene, adopt(id, [unoffered])), "EXPLORE_REFUSED findingNotUsed")
  assert.equal(await codeOf(scene, adopt(id, [found], "half way")), "EXPLORE_REFUSED noNewWork")
  assert.equal(await codeOf(scene, adopt(id, [found], "never made")), "EXPLORE_NOT_FOUND")
  assert.equal(await codeOf(scene, adopt(id, [found], "finished", "ada")), "EXPLORE_REFUSED notReceiver")
  assert.deepInclude(await read(scene), { adopted: false, usedFindings: [], resultIdentity: null })

  const done = await scene.run(adopt(id, [found, unoffered]))
  assert.deepInclude(done, { adopted: true, usedFindings: [found] })
  assert.deepInclude(await read(scene), {
    verified: true,
    adopted: true,
    usedFindings: [found],
    resultIdentity: identityOf("finished")
  })
  assert.equal(await codeOf(scene, adopt(id, [found])), "EXPLORE_REFUSED alreadyAdopted")
})

test("E5 only a candidate that stands in the graph, with findings of it, is handed over", async () => {
  const { scene, offer, found } = await offered()
  const refusals: readonly (readonly [change: object, code: string])[] = [
    [{ identity: identityOf("never made") }, "EXPLORE_NOT_FOUND"],
    [{ identity: "main" }, "EXPLORE_REFUSED malformed"],
    [{ findings: [] }, "EXPLORE_REFUSED malformed"],
    [{ findings: [found, "fnd_nowhere"] }, "EXPLORE_NOT_FOUND"],
    [{ findings: [await node(scene)] }, "EXPLORE_NOT_FOUND"],
    [{ lease: "lse_1" }, "EXPLORE_REFUSED malformed"]
  ]
  for (const [change, code] of refusals) {
    assert.equal(await codeOf(scene, Explore.offerHandoff({ ...offer, ...change })), code, JSON.stringify(change))
  }
  assert.equal((await graph(scene)).handoffs.length, 1)
})
