// node use.ts PROJECT STORE: an attempt in a workspace of the provider, behind the standard preset.
import { resolve } from "node:path"
import * as Effect from "effect/Effect"
import { Assembly, standard } from "coppice/standard"
import { Workspaces } from "coppice/workspace"

const [project, store] = process.argv.slice(2).map((path) => resolve(path)) as [string, string]

const tarballs = {
  ...({ name: "tarballs", kind: "workspace", version: "1.0.0", contract: 1 } as const),
  about: "every state is a tar archive",
  load: () => import("./provider.ts")
}

const program = Effect.gen(function* () {
  const workspaces = yield* Workspaces
  const { layer, files } = yield* workspaces.importDirectory({ source: project })
  const branch = yield* workspaces.fork(layer, { name: "attempt-1" })
  const { checkpoint } = yield* workspaces.execOn(branch.id, "echo fixed > note.txt")
  const { changes } = yield* workspaces.diff(layer, branch.id)
  const part = (yield* Assembly).read().parts.find(({ name }) => name === "tarballs")
  return {
    files,
    outcome: checkpoint.outcome,
    changed: changes.map(({ path, kind }) => `${kind} ${path}`),
    provider: `${part?.name} ${part?.version}, from the ${part?.from}`
  }
})

const live = standard({ store, plugins: [tarballs], workspaces: "tarballs" })
console.log(await Effect.runPromise(Effect.provide(program, live)))
