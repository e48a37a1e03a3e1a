/** A second process on a store under test: `node worker.ts KIND DIRECTORY`. */
import { serveAuthority } from "../../../src/testkit/index.ts"
import { type AuthorityKind, openAs } from "../opening.ts"

const [kind, directory] = process.argv.slice(2) as [AuthorityKind, string]
await serveAuthority(() => openAs(kind, directory))
