/**
 * Who needs which cached layers just now, and who is taking one away: one small file each in `cache/lease/`, for every process to see.
 * Promise: a layer that somebody holds, or that a workspace's row names, is never taken; a hold or a take of a process that has died
 * counts for nothing. Rules: W12, W23, L10, L12.
 *
 * Each side first says what it is about to do and then looks at the other (Dekker's algorithm), so at least one of two sees the
 * other; the one that wants to take gives way. A take looks at holds before it looks at rows: a hold ends only when its row stands.
 */
import { randomUUID } from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import { isAliveIn } from "../../src/base/LifeSign.ts"
import { currentIdentity, type ProcessIdentity } from "../../src/base/ProcessIdentity.ts"
import { Busy } from "../../src/sqlite/Database.ts"

type Kind = "hold" | "take"

/** A take lasts for two reads and a rename; a process that is stopped in the middle of one is not waited for any longer. */
const patienceMs = 10_000

export class LayerLeases {
  readonly #directory: string
  /** Where processes show that they live. */
  readonly #root: string
  #owner: string | undefined

  constructor(cache: string) {
    this.#directory = path.join(cache, "lease")
    this.#root = path.dirname(cache)
  }

  /** Keeps layers from being taken until the answer is called. Rejects with `Busy`. */
  async hold(names: readonly string[]): Promise<() => void> {
    const release = this.#note("hold", names)
    const began = performance.now()
    while (this.#anybody("take", names)) {
      const waitedMs = performance.now() - began
      if (waitedMs > patienceMs) {
        release()
        throw new Busy({
          message: "Another process is taking a cached layer away and does not go on.",
          remedy:
            "Repeat the call; nothing was done. A stopped process of this store must go on or be ended. Of one that ended in a container, without a sign in `alive`, the file `cache/lease/take-…` may be removed by hand.",
          waitedMs
        })
      }
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
    return release
  }

  /** Calls `away` when nobody holds the layer and `free` then says that no row names it. False when it stays. */
  async take(name: string, free: () => Promise<boolean>, away: () => void): Promise<boolean> {
    const done = this.#note("take", [name])
    try {
      if (this.#anybody("hold", [name]) || !(await free())) return false
      away()
      return true
    } finally {
      done()
    }
  }

  #note(kind: Kind, names: readonly string[]): () => void {
    this.#owner ??= Buffer.from(JSON.stringify(currentIdentity())).toString("base64url")
    const at = path.join(this.#directory, `${kind}-${this.#owner}.${randomUUID()}`)
    fs.mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const away = (): void => fs.rmSync(at, { force: true })
    try {
      fs.writeFileSync(at, JSON.stringify(names), { mode: 0o600, flag: "wx" })
    } catch (error) {
      // On a full disk an empty one would stand, which may name anything as long as this process lives.
      away()
      throw error
    }
    return away
  }

  /** True when a process that may live has a note of this kind about one of `names`. */
  #anybody(kind: Kind, names: readonly string[]): boolean {
    return fs.readdirSync(this.#directory).some((file) => {
      if (!file.startsWith(`${kind}-`)) return false
      const at = path.join(this.#directory, file)
      if (isDead(this.#root, file.slice(kind.length + 1))) {
        fs.rmSync(at, { force: true })
        return false
      }
      return mayName(at, names)
    })
  }
}

const isDead = (root: string, name: string): boolean => {
  try {
    const text = Buffer.from(name.slice(0, name.lastIndexOf(".")), "base64url").toString()
    return isAliveIn(root, JSON.parse(text) as ProcessIdentity) === false
  } catch {
    return false
  }
}

/** One that is just being written may name anything; one that is gone names nothing. */
const mayName = (at: string, names: readonly string[]): boolean => {
  try {
    const named = JSON.parse(fs.readFileSync(at, "utf8")) as readonly string[]
    return names.some((name) => named.includes(name))
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ENOENT"
  }
}
