/**
 * A process that writes to a store and says what was acknowledged, for tests that kill it.
 * Arguments: the store, what to do (`import SOURCE` or `commit BRANCH COUNT LABEL`). One JSON line per acknowledged step.
 */
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { latin, put } from "./storeChange.ts"

const [store = "", what, subject = "", count = "1", label = ""] = process.argv.slice(2)
const opened = await openLayerStore({ store })
const say = (line: object): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}
say({ ready: true })
if (what === "import") {
  const receipt = await opened.call("importDirectory", {
    source: latin(subject),
    name: "t",
    operationId: `op_import${label}`,
    at: 1
  })
  say({ commit: receipt.commit })
}
if (what === "commit") {
  for (let n = 0; n < Number(count); n += 1) {
    const { head } = await opened.call("branch", { id: subject })
    const outcome = await opened.call("commitChanges", {
      branch: subject,
      expectedHead: head,
      changes: [put(`file-${n % 7}`, `${label} ${n} ${"data ".repeat(200)}`)],
      message: `${label} ${n}`,
      operationId: `op_${label}_${n}`,
      actor: {},
      at: n
    })
    say({ n, outcome: outcome.outcome, commit: outcome.commit })
  }
}
await opened.close()
say({ closed: true })
