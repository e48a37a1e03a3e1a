/**
 * What the tests of served trees run as an ordinary user: as which process the server runs, what is left when it is killed, and when the pool has one ready. Prints what it saw as
 * JSON. With `die` it opens a workspace, notes the processes, and kills itself.
 */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { makeLayerFs } from "../../providers/layerfs/Provider.ts"

const [what = ""] = process.argv.slice(2)
const home = process.env["HOME"]!
const store = join(home, "store")

const commandOf = (pid: string): string => {
  try {
    return fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")
  } catch {
    return ""
  }
}

/** Processes of this user but this one. */
const others = (): { readonly pid: number; readonly command: string }[] =>
  fs
    .readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid)
    .filter((pid) => fs.statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid === process.getuid!())
    .map((pid) => ({ pid: Number(pid), command: commandOf(pid) }))
    .filter(({ command }) => command !== "")

const servers = (): number[] => others().flatMap(({ pid, command }) => (command.includes("layerfs-lazy") ? [pid] : []))

const told = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.result(effect), (result) => {
    if (result._tag === "Success") return result.success
    const { _tag, state } = result.failure as unknown as Record<string, unknown>
    return { _tag, state }
  })

const eventually = (holds: () => boolean) =>
  Effect.gen(function* () {
    for (let tries = 0; tries < 3000 && !holds(); tries += 1) yield* Effect.sleep("5 millis")
    return holds()
  })

const whole = Effect.gen(function* () {
  const provider = yield* makeLayerFs({ store })
  const source = join(home, "source")
  fs.mkdirSync(join(source, "d"), { recursive: true })
  fs.writeFileSync(join(source, "a"), "a\n")
  fs.writeFileSync(join(source, "d/b"), "b\n")
  const { commit } = yield* provider.importDirectory({ source })
  fs.writeFileSync(join(home, "commit"), commit)
  const branch = (yield* provider.fork(commit)).id
  const seen: Record<string, unknown> = {}
  const id = yield* Effect.scoped(
    Effect.gen(function* () {
      const workspace = yield* provider.open(branch, { projection: "lazy" })
      seen["open"] = [
        servers().length,
        (yield* workspace.exec("cat a; ls /proc | grep -c '^[0-9]'; echo work > made")).stdout.text
      ]
      for (const pid of servers()) process.kill(pid, "SIGKILL")
      // Whether it is known already or only the kernel knows.
      seen["running"] = yield* told(Effect.map(workspace.exec("cat d/b"), ({ exitCode }) => exitCode))
      yield* eventually(() => servers().length === 0)
      seen["checkpoint"] = yield* told(workspace.checkpoint())
      return workspace.id
    })
  )
  seen["left"] = (yield* provider.left).map((left) => [left.id === id, left.state, left.projection])
  const recovered = yield* provider.recover(id)
  const bytes = yield* provider.readAt(recovered.branch, "made")
  seen["recovered"] = [recovered.checkpoint.outcome, Buffer.from(bytes).toString()]
  seen["after"] = [others().length, fs.readdirSync(join(store, "layerfs/work"))]
  return seen
})

const pooled = Effect.gen(function* () {
  const provider = yield* makeLayerFs({ store, warmPool: 1 })
  const commit = fs.readFileSync(join(home, "commit"), "utf8")
  const isFull = Effect.map(provider.stats, ({ pool }) => pool?.ready === 1)
  const full = Effect.gen(function* () {
    for (let tries = 0; tries < 3000 && !(yield* isFull); tries += 1) yield* Effect.sleep("5 millis")
  })
  const opened = (projection: "lazy" | "overlay") =>
    Effect.scoped(
      Effect.gen(function* () {
        yield* full
        const before = servers()
        const workspace = yield* provider.open((yield* provider.fork(commit)).id, { projection })
        const { stdout } = yield* workspace.exec("cat a")
        return {
          before: before.length,
          kept: before.every((pid) => servers().includes(pid)),
          read: stdout.text,
          level: workspace.isolation.level
        }
      })
    )
  const first = yield* opened("lazy")
  const second = yield* opened("lazy")
  const other = yield* opened("overlay")
  yield* full
  return { first, second, other, standing: servers().length }
})

const die = Effect.gen(function* () {
  const provider = yield* makeLayerFs({ store })
  const commit = fs.readFileSync(join(home, "commit"), "utf8")
  const workspace = yield* provider.open((yield* provider.fork(commit)).id, { projection: "lazy" })
  yield* workspace.exec("echo inside > made; (setsid sleep 1000 > /dev/null 2>&1 &)")
  fs.writeFileSync(
    join(home, "pids"),
    JSON.stringify(others().flatMap(({ pid }) => (pid === process.ppid ? [] : [pid])))
  )
  process.kill(process.pid, "SIGKILL")
})

const left = Effect.gen(function* () {
  const { signal } = spawnSync(process.execPath, [process.argv[1]!, "die"], { stdio: "inherit" })
  const pids = JSON.parse(fs.readFileSync(join(home, "pids"), "utf8")) as number[]
  const gone = yield* eventually(() => pids.every((pid) => commandOf(String(pid)) === ""))
  const provider = yield* makeLayerFs({ store })
  const [kept] = yield* provider.left
  const { branch } = yield* provider.recover(kept!.id)
  return [signal, pids.length > 2, gone, kept!.state, Buffer.from(yield* provider.readAt(branch, "made")).toString()]
})

const all = Effect.gen(function* () {
  const seen = yield* Effect.scoped(whole)
  const pool = yield* Effect.scoped(pooled)
  const end = servers().length
  return { ...seen, pool, end, killed: yield* Effect.scoped(left) }
})

if (what === "die") await Effect.runPromise(Effect.scoped(die))
else console.log(JSON.stringify(await Effect.runPromise(all)))
