// node worker.ts STORE: the second process of the suite, which it kills.
import { serveWorkspaces } from "coppice/testkit"
import { openWorkspaces } from "./provider.ts"

await serveWorkspaces(openWorkspaces({ store: process.argv[2]! }))
