/** Another process that writes the same authority until it is ended. argv: directory, goal. Prints `ready` when it has begun. */
import { openAuthority } from "../providers/authority-sqlite/index.ts"
import { Todos } from "../src/governance/index.ts"
import { runIn } from "./governance-scene.ts"

const [directory = "", goal = ""] = process.argv.slice(2)
const store = await openAuthority({ directory })
const run = runIn(store)
for (let number = 0; ; number++) {
  await run(Todos.add({ goal, title: `Written beside ${number}` }))
  if (number === 0) console.log("ready")
}
