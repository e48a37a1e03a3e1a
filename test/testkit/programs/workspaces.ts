/**
 * The workspace suite as a program: `run KIND [--only TEXT]` runs it and prints one JSON object a scenario, `serve KIND STORE` is the second process
 * of its scenarios. Promise: one file does both, so that an ordinary user needs nothing else. Rules: K1 to K4.
 */
import { serveWorkspaces, workspaceConformance } from "../../../src/testkit/index.ts"
import { runScenarios } from "../runScenarios.ts"
import { kindOf, type WorkspaceKind, workspacesOf } from "../workspaceKinds.ts"

const [what, kind, store = ""] = process.argv.slice(2) as [string, WorkspaceKind, string?]
if (what === "serve") await serveWorkspaces(kindOf(kind).open(store))
else {
  const under = workspacesOf(kind, [process.execPath, process.argv[1]!, "serve", kind])
  const only = process.env["COPPICE_ONLY"] ?? ""
  await runScenarios(await workspaceConformance(under), only, (result) => console.log(JSON.stringify(result)))
}
