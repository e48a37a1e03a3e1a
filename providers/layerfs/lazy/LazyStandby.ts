/**
 * Servers that stand ready beside the holders of the pool.
 * Promise: none is there unless the application set up a pool and somebody has opened a lazy workspace; each ends with its holder, or when that is taken for
 * another workspace. Rules: P4, W12.
 */
import type { Holder } from "../../../src/workspace/kit/Holder.ts"
import type { Equipment } from "../../../src/workspace/kit/HolderPool.ts"
import { LazyServer } from "./LazyProcess.ts"

export class LazyStandby implements Equipment {
  readonly #servers = new Map<Holder, LazyServer>()
  #wanted = false

  get wanted(): boolean {
    return this.#wanted
  }

  /** True when one stands ready. From the first question on, they are made. */
  ready(): boolean {
    this.#wanted = true
    return [...this.#servers].some(([holder, server]) => holder.alive && server.alive)
  }

  /** The holder is not the pool's before it stands. One that cannot be had is no reason to have no holder. */
  async equip(holder: Holder): Promise<void> {
    if (!this.#wanted || this.#servers.has(holder)) return
    const server = new LazyServer(holder)
    try {
      await server.standing()
    } catch {
      return server.end()
    }
    this.#servers.set(holder, server)
    void holder.gone.then(() => this.drop(holder))
  }

  isEquipped(holder: Holder): boolean {
    return this.#servers.get(holder)?.alive === true
  }

  take(holder: Holder): LazyServer | undefined {
    const server = this.#servers.get(holder)
    this.#servers.delete(holder)
    return server?.alive === true ? server : undefined
  }

  async drop(holder: Holder): Promise<void> {
    await this.take(holder)?.end()
  }
}
