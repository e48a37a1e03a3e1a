/**
 * The workspace suite as a program: `run KIND [PARENT [once]]` runs it (`once`: not again on a fork of a fork) and prints one JSON object a scenario, `serve KIND STORE` is the second process of
 * its scenarios. Promise: one file does both, so that an ordinary user needs nothing else. Rules: K1 to K4.
 */
import { serveWorkspaces, workspaceConformance } from "../../../src/testkit/index.ts"
import { runScenarios } from "../runScenarios.ts"
import { kindOf, type WorkspaceKind, workspacesOf } from "../workspaceKinds.ts"

const [what, kind, where, often] = process.argv.slice(2) as [string, WorkspaceKind, string?, string?]
if (what === "serve") await serveWorkspaces(kindOf(kind).open(where!))
else {
  const under = workspacesOf(kind, {
    worker: [process.execPath, process.argv[1]!, "serve", kind],
    fuzz: {
      seed: Number(process.env["COPPICE_SEED"] ?? 1 + (Date.now() % 1_000_000)),
      rounds: Number(process.env["COPPICE_ROUNDS"] ?? 4)
    },
    ...(where === undefined ? {} : { parent: where })
  })
  const only = process.env["COPPICE_ONLY"] ?? ""
  const scenarios = (await workspaceConformance(under)).filter(
    ({ name }) => often !== "once" || !name.endsWith(", on a fork of a fork")
  )
  await runScenarios(scenarios, only, (result) => console.log(JSON.stringify(result)))
}
