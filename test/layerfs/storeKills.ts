/**
 * Several writers on one store, killed at random moments: for the short test and for `npm run soak -- store`.
 * Promise: every random choice comes from the seed; what a writer was told is compared with what a fresh opening finds.
 * Rules: L8, L12, W10.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { existsSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import { openLayerStore } from "../../providers/layerfs/LayerStore.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { unsound } from "./soundness.ts"
import { latin, logOf } from "./storeChange.ts"

const program = await oneFile(fileURLToPath(new URL("./storeCrashChild.ts", import.meta.url)))

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
