/**
 * A process whose memory a test watches. `capture`: an attempt leaves a large file beside small edits, which is checkpointed;
 * `import`: a directory with many files is imported. Prints what came of it and how far the memory grew, as JSON.
 */
import * as fs from "node:fs"
import { monitorEventLoopDelay } from "node:perf_hooks"
import * as Effect from "effect/Effect"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"

const [, , what, store, source, megabytes] = process.argv

/** Peak of the resident memory in MB since the last `restart` (proc_pid_status(5), proc_pid_clear_refs(5)). */
const peak = (): number => Number(/VmHWM:\s+(\d+)/.exec(fs.readFileSync("/proc/self/status", "utf8"))![1]) / 1024
const restart = (): void => fs.writeFileSync("/proc/self/clear_refs", "5")

await Effect.runPromise(
  Effect.scoped(
    Effect.gen(function* () {
      const provider = yield* makeLayerFs({ store: store! })
      if (what === "import") {
        const delay = monitorEventLoopDelay({ resolution: 5 })
        delay.enable()
        const { files } = yield* provider.importDirectory({ source: source! })
        delay.disable()
        console.log(JSON.stringify({ files, peak: peak(), delayP99: delay.percentile(99) / 1e6 }))
        return
      }
      const { commit } = yield* provider.importDirectory({ source: source! })
      const branch = yield* provider.fork(commit)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const workspace = yield* provider.open(branch.id, { projection: "overlay" })
          yield* workspace.exec(`head -c ${megabytes}M /dev/urandom > big && echo edit > small && truncate -s 1T hole`)
          restart()
          const before = peak()
          const outcome = yield* workspace.checkpoint()
          const grown = peak() - before
          const { size } = yield* provider.statAt(branch.id, "big")
          const hole = yield* provider.statAt(branch.id, "hole")
          console.log(JSON.stringify({ outcome: outcome.outcome, grown, size, hole: hole.size }))
        })
      )
    })
  )
)
