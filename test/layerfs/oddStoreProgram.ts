/** As an ordinary user: a store whose directory loses its write bit, and gets it back. */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openLayerFs } from "../../providers/layerfs/index.ts"

const home = process.env["HOME"]!
const store = join(home, "store")
const source = join(home, "source")
fs.mkdirSync(source)
fs.writeFileSync(join(source, "f"), "f")

const open = <A, E>(use: (provider: Effect.Success<ReturnType<typeof openLayerFs>>) => Effect.Effect<A, E>) =>
  Effect.runPromise(Effect.result(Effect.scoped(Effect.flatMap(openLayerFs({ store }), use))))

const first = await open((provider) => provider.importDirectory({ source }))
if (first._tag === "Failure") throw first.failure
fs.chmodSync(join(store, "layerfs/packs"), 0o500)
const refused = await open((provider) => provider.stats)
fs.chmodSync(join(store, "layerfs/packs"), 0o700)
const after = await open((provider) => provider.readAt(first.success.commit, "f"))
console.log(
  JSON.stringify({
    refused: refused._tag === "Failure" ? refused.failure : "opened",
    after: after._tag === "Success" ? Buffer.from(after.success).toString() : after.failure
  })
)
