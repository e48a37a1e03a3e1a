/**
 * Several writers on one store, killed at random moments: for the short test and for `npm run soak -- store`.
 * Promise: every random choice comes from the seed; what a writer was told is compared with what a fresh opening finds.
 * Rules: L8, L12, W10.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { type LayerStore, openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { Database } from "../../src/sqlite/Database.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { latin, logOf } from "./storeChange.ts"

const program = await oneFile(fileURLToPath(new URL("./storeCrashChild.ts", import.meta.url)))

export { seededRandom } from "../seededRandom.ts"

export interface Said {
  readonly commit?: string
  readonly n?: number
  readonly closed?: boolean
  readonly read?: string
  readonly error?: string
}

export interface Ended {
  readonly said: readonly Said[]
  readonly signal: NodeJS.Signals | null
}

/** Runs the child; `killAfter` may say, at each line, in how many milliseconds it is to be killed. */
export const child = (
  args: readonly string[],
  variables: Readonly<Record<string, string>>,
  killAfter: (said: readonly Said[]) => number | undefined = () => undefined,
  kill: (running: ChildProcess) => void = (running) => running.kill("SIGKILL")
) =>
  new Promise<Ended>((resolve, reject) => {
    const env = { ...oneFileEnvironment(), ...variables }
    const running = spawn(process.execPath, [program, ...args], { stdio: ["ignore", "pipe", "inherit"], env })
    const said: Said[] = []
    let timer: NodeJS.Timeout | undefined
    createInterface({ input: running.stdout }).on("line", (line) => {
      said.push(JSON.parse(line) as Said)
      const ms = killAfter(said)
      if (ms !== undefined) timer ??= setTimeout(() => kill(running), ms)
    })
    running.on("error", reject)
    running.on("close", (_, signal) => {
      clearTimeout(timer)
      resolve({ said, signal })
    })
  })

/** What is wrong with an opened store after any death; empty when it is sound: readable, and no byte past what the index knows. */
export const unsound = async (store: LayerStore): Promise<string[]> => {
  const faults: string[] = []
  const { ok, damaged } = await store.call("verify", {})
  if (!ok) faults.push(`damaged: ${JSON.stringify(damaged)}`)
  const { index, packs, work } = store.directories
  const db = Database.open(index, { readOnly: true })
  const rows = new Map(db.all("SELECT id, length, writer FROM packs").map((row) => [Number(row["id"]), row]))
  db.close()
  for (const name of readdirSync(packs)) {
    const row = rows.get(Number.parseInt(name, 10))
    const size = statSync(join(packs, name)).size
    if (row === undefined) faults.push(`pack ${name} is in no row`)
    else if (row["writer"] !== null) faults.push(`pack ${name} still has a writer`)
    else if (Number(row["length"]) > 0 && Number(row["length"]) !== size)
      faults.push(`pack ${name} is ${size} bytes long, the index knows ${String(row["length"])}`)
  }
  for (const name of readdirSync(work)) faults.push(`work/${name} is left`)
  return faults
}

export interface KillGround {
  readonly directory: string
  /** Each with what its writers were told, oldest first. */
  readonly branches: readonly { readonly id: string; readonly told: string[] }[]
  readonly source: string
}

/** A store with one branch a writer, and a source that may be imported. */
export const killGround = async (directory: string, source: string, writers: number): Promise<KillGround> => {
  if (!existsSync(join(source, "seed"))) {
    writeFileSync(join(source, "seed"), "seed")
    for (let i = 0; i < 20; i += 1) writeFileSync(join(source, `file-${i}`), `${i} `.repeat(3000))
  }
  const store = await openLayerStore({ store: directory })
  try {
    const { layer } = await store.call("importDirectory", {
      source: latin(source),
      name: "ground",
      operationId: "op_ground",
      at: 1
    })
    const branches = []
    for (let n = 0; n < writers; n += 1) {
      branches.push({ id: (await store.call("fork", { from: layer, name: `writer-${n}` })).id, told: [] })
    }
    return { directory, branches, source }
  } finally {
    await store.close()
  }
}

/**
 * One round: a writer a branch, all at once, each killed after a random number of answers and a random moment more; one of
 * them may be importing. Gives the number of processes killed.
 */
export const killRound = async (ground: KillGround, round: number, random: (below: number) => number) => {
  const ended = await Promise.all(
    ground.branches.map(async (branch, n) => {
      const importing = n === 0 && random(3) === 0
      const args = importing
        ? [ground.directory, "import", ground.source, "1", `r${round}`]
        : [ground.directory, "commit", branch.id, "100000", `r${round}w${n}`]
      const answers = importing ? 1 : 1 + random(12)
      const more = random(importing ? 60 : 15)
      const result = await child(args, {}, (said) => (said.length < answers ? undefined : more))
      if (!importing) branch.told.push(...result.said.flatMap((line) => line.commit ?? []))
      return result
    })
  )
  return ended.filter((one) => one.signal === "SIGKILL").length
}

/** Opens the store anew and compares it with what was told. */
export const afterRound = async (ground: KillGround, thorough: boolean): Promise<string[]> => {
  const store = await openLayerStore({ store: ground.directory })
  try {
    const faults = thorough ? await unsound(store) : []
    for (const [n, branch] of ground.branches.entries()) {
      const log = new Set((await logOf(store, branch.id)).map((commit) => commit.id))
      for (const commit of branch.told) if (!log.has(commit)) faults.push(`writer ${n}: commit ${commit} is lost`)
    }
    return faults
  } finally {
    await store.close()
  }
}
