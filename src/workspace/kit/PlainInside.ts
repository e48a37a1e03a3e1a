/**
 * Commands in a copied tree on a machine without user namespaces.
 * Promise: works anywhere and claims nothing more than it does: processes are known by a variable in their environment, so
 * one that clears it escapes, and nothing ends them when the SDK dies. Rules: W17, S23; C95.
 */
import * as fs from "node:fs"
import { randomUUID } from "node:crypto"
import type { InsideProcess } from "./Holder.ts"
import { inspect } from "./Holder.ts"
import type { EndableInside } from "./Inside.ts"

const marker = "COPPICE_WORKSPACE"

export const plainInside = (id: string, tree: string, more: Readonly<Record<string, string>> = {}): EndableInside => {
  const mark = `${marker}=${id}`
  const variables = (pid: number): string => {
    try {
      return fs.readFileSync(`/proc/${pid}/environ`, "latin1")
    } catch {
      return ""
    }
  }
  const processes = (): InsideProcess[] => {
    if (process.platform !== "linux") return []
    return fs
      .readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid && variables(Number(name)).includes(mark))
      .flatMap((name) => inspect("/proc", Number(name)) ?? [])
  }
  const signal: EndableInside["signal"] = async (name, pids) => {
    const targets = pids.flatMap((pid) => (pid === "all" ? processes().map((found) => found.pid) : [pid]))
    for (const pid of targets) {
      try {
        process.kill(pid, `SIG${name}`)
      } catch {
        // Gone already.
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
  return {
    alive: true,
    privateTmp: false,
    guarantee: { diesWithParent: false, wholeTree: false, isolation: "none" },
    asCaller: () => [],
    spawnOptions: (cwd) => ({ cwd: cwd === "" ? tree : cwd, detached: true }),
    saysNotStarted: () => false,
    processes,
    procRoot: "/proc",
    quiet: () => processes().length === 0,
    variablesOfAll: { ...more, [marker]: id },
    variables,
    signal,
    nest: async () => plainInside(`${id}:${randomUUID()}`, tree, more),
    end: async () => {
      for (let round = 0; round < 500 && processes().length > 0; round += 1) await signal("KILL", ["all"])
    }
  }
}
