/**
 * A process to be killed: opens a workspace, starts what should die with it, prints the pids, and waits. With `close` as third
 * argument it changes a file, commits, and closes: a crash point ends it on the way. With `keep` it closes without a commit, with
 * `discard` it drops the change. `evict` closes too, and keeps no cached layer;
 * `own` takes the directory `own` for its own; `resident` waits too, with a resident shell, `lazy` on a base that is served; `exit` ends in such a workspace by process.exit().
 */
import * as fs from "node:fs"
import * as Effect from "effect/Effect"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"

const [, , store, branch, what] = process.argv

/** Every descendant of this process. */
const descendants = (): number[] => {
  const parents = new Map<number, number>()
  for (const name of fs.readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = fs.readFileSync(`/proc/${name}/stat`, "latin1")
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]))
    } catch {
      // Ended meanwhile.
    }
  }
  const ours = (pid: number): boolean => {
    for (let at = parents.get(pid); at !== undefined && at > 1; at = parents.get(at))
      if (at === process.pid) return true
    return false
  }
  return [...parents.keys()].filter(ours)
}

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const provider = yield* makeLayerFs({ store: store!, ...(what === "evict" ? { cacheLimit: 0 } : {}) })
      const projection = what === "lazy" || what === "exit" ? "lazy" : "overlay"
      const workspace = yield* provider.open(branch!, {
        projection,
        residentShell: what === "resident",
        ownDirs: what === "own" ? ["own"] : []
      })
      if (what === "exit") process.exit(3)
      if (what === "evict") return
      if (what === "close") {
        yield* workspace.write("made", "inside\n")
        const saved = yield* workspace.checkpoint({ operationId: "op-close" })
        console.log(JSON.stringify(saved))
        return
      }
      if (what === "keep" || what === "discard") {
        yield* workspace.write("made", "inside\n")
        if (what === "discard") yield* workspace.discard("on purpose")
        return
      }
      yield* workspace.exec("echo inside > made; (setsid env -i sleep 1000 > /dev/null 2>&1 &)")
      yield* workspace.start(["sh", "-c", "(setsid sleep 1000 &); sleep 1000"])
      yield* Effect.sleep("200 millis")
      console.log(JSON.stringify(descendants()))
      yield* Effect.sleep("1 hour")
    })
  )
)
