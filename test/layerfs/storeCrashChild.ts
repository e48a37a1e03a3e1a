/**
 * A process that writes to a store and says what was acknowledged, for tests that kill it.
 * Arguments: the store, what to do (`import SOURCE`, `commit BRANCH COUNT LABEL`, `group BRANCHES COUNT LABEL`, `splice BRANCH COUNT LABEL`, `compact`, `reset BRANCH TO`, `bundle REF FILE`, `unbundle FILE`, or `read REF COUNT`). One JSON line per
 * acknowledged step; a typed error is a line too, and the next step is tried.
 */
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import { latin, put, spliceOf } from "./storeChange.ts"

const [store = "", what, subject = "", count = "1", label = ""] = process.argv.slice(2)
const durability = process.env["COPPICE_TEST_DURABILITY"] === "normal" ? "normal" : "full"
const opened = await openLayerStore({ store, durability })
const say = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
say({ ready: true })
/** Says what came of a call: its value, or the code and remedy of its error. Anything but a typed error is a bug. */
const told = async <A extends object>(call: Promise<A>, line: (value: A) => object): Promise<void> => {
  try {
    say(line(await call))
  } catch (error) {
    if (!isCoppiceError(error)) throw error
    say({ error: error.code, remedy: error.remedy })
  }
}
if (what === "import") {
  await told(
    opened.call("importDirectory", { source: latin(subject), name: "t", operationId: `op_import${label}`, at: 1 }),
    (receipt) => ({ commit: receipt.commit })
  )
}
if (what === "commit") {
  for (let n = 0; n < Number(count); n += 1) {
    const { head } = await opened.call("branch", { id: subject })
    await told(
      opened.call("commitChanges", {
        branch: subject,
        expectedHead: head,
        changes: [put(`file-${n % 7}`, `${label} ${n} ${"data ".repeat(200)}`)],
        message: `${label} ${n}`,
        operationId: `op_${label}_${n}`,
        actor: {},
        at: n
      }),
      (outcome) => ({ n, outcome: outcome.outcome, commit: outcome.commit })
    )
  }
}
// Branches as `a,b,c`: each round commits to all of them at once.
if (what === "group") {
  const branches = subject.split(",")
  for (let n = 0; n < Number(count); n += 1) {
    const one = async (branch: string, at: number): Promise<void> => {
      const { head } = await opened.call("branch", { id: branch })
      const changes = [put(`file-${n}`, `${label} ${n} of ${at} ${"data ".repeat(200)}`)]
      const intent = { message: `${label} ${n}`, operationId: `op_${label}_${n}_${at}`, actor: {}, at: n }
      await told(opened.call("commitChanges", { branch, expectedHead: head, changes, ...intent }), ({ commit }) => ({
        n,
        commit
      }))
    }
    await Promise.all(branches.map(one))
  }
}
if (what === "splice") {
  for (let n = 0; n < Number(count); n += 1) {
    const operations = [
      { op: "splice", path: "big", ...spliceOf(n) },
      { op: "write", path: `d/step-${n}`, bytes: `${n}` }
    ] as const
    const intent = { message: `${label} ${n}`, operationId: `op_${label}_${n}`, actor: {}, at: n }
    await told(opened.call("applyTo", { branch: subject, operations, ...intent }), (outcome) => ({
      n,
      outcome: outcome.outcome,
      commit: outcome.commit
    }))
  }
}
if (what === "compact") {
  await told(opened.call("compact", { maxMs: null, maxBytes: null }), (report) => ({ complete: report.complete }))
}
if (what === "reset") {
  const { head } = await opened.call("branch", { id: subject })
  const move = { branch: subject, expectedHead: head, reason: "", actor: {}, operationId: "op_reset", at: 1 }
  await told(opened.call("moveHead", { ...move, to: count }), (moved) => ({ commit: moved.head }))
}
if (what === "bundle") {
  await told(opened.call("exportBundle", { ref: subject, target: latin(count), history: true }), ({ commit }) => ({
    commit
  }))
}
if (what === "unbundle") {
  await told(opened.call("importBundle", { source: latin(subject) }), ({ commit }) => ({ commit }))
}
if (what === "read") {
  for (let n = 0; n < Number(count); n += 1) {
    const bytes = await opened.call("readAt", { ref: subject, path: latin("seed") })
    say({ read: Buffer.from(bytes).toString() })
  }
}
await opened.close()
say({ closed: true })
