/**
 * A served layer by a process beside this one, in the holder's user namespace.
 * Promise: the process ends with the workspace and with this process; it sees the machine's files as ever and is not seen from inside. Rules: P4, W12, W17, S23.
 *
 * The kernel wants /dev/fuse to be opened in the user namespace that mounts, and Node cannot be handed a descriptor of another process.
 */
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import type { Socket } from "node:net"
import { type Holder, HolderFailed } from "../../../src/workspace/kit/Holder.ts"
import type { ServedLower } from "../../../src/workspace/kit/ServedLower.ts"
import { lazyServerUrl } from "../WorkerUrl.ts"
import { notServed, withoutDevice } from "./LazyLack.ts"
import { type ProcessSetup, said } from "./LazySetup.ts"
import type { LazyWork } from "./ServeCommit.ts"

/** The process, from its start on. */
export class LazyServer {
  readonly #holder: Holder
  readonly #child: ChildProcessWithoutNullStreams
  readonly #gone: Promise<undefined>
  #lines = ""
  #stderr = ""
  #heard: () => void = () => undefined
  #alive = true

  /** The holder has its namespaces. */
  constructor(holder: Holder) {
    this.#holder = holder
    const [program, ...argv] = holder.asServer()
    const environment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" }
    const child = spawn(program, [...argv, process.execPath, decodeURIComponent(lazyServerUrl().pathname)], {
      stdio: ["pipe", "pipe", "pipe"],
      env: environment
    })
    this.#child = child
    child.stdin.on("error", () => undefined)
    child.stderr.setEncoding("latin1").on("data", (text: string) => (this.#stderr += text))
    child.stdout.setEncoding("latin1").on("data", (text: string) => {
      this.#lines += text
      this.#heard()
    })
    this.#gone = new Promise((resolve) => {
      const end = (): void => {
        this.#alive = false
        resolve(undefined)
      }
      child.once("error", (error) => {
        this.#stderr += error.message
        end()
      })
      child.once("close", end)
    })
  }

  /** The holder keeps this process alive while a workspace is open, and nothing does while both stand in a pool. */
  #hold(how: "ref" | "unref"): void {
    this.#child[how]()
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr])
      (stream as unknown as Socket)[how]()
  }

  get alive(): boolean {
    return this.#alive && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Resolves with the next line; with undefined when there will be none. */
  async #line(): Promise<string | undefined> {
    const next = new Promise<string>((resolve) => {
      this.#heard = () => {
        const end = this.#lines.indexOf("\n")
        if (end < 0) return
        const line = this.#lines.slice(0, end)
        this.#lines = this.#lines.slice(end + 1)
        this.#heard = () => undefined
        resolve(line)
      }
      this.#heard()
    })
    return Promise.race([next, this.#gone])
  }

  /** Resolves when it could serve. Rejects with `Unavailable`, `HolderFailed`. */
  async standing(): Promise<void> {
    const line = await this.#line()
    this.#hold("unref")
    if (line === said.standing) return
    if (line?.startsWith(said.noDevice) === true) throw withoutDevice(line.slice(said.noDevice.length))
    throw this.#failed()
  }

  /** The holder's own end, if it was that, says more. */
  #failed(): unknown {
    const why = this.#stderr.trim()
    return this.#holder.alive ? notServed(why.split("\n")[0] || "it ended") : new HolderFailed(why)
  }

  /** Resolves when `work` is mounted at `at` inside. */
  async serve(work: LazyWork, at: string): Promise<void> {
    const setup: ProcessSetup = { work, mount: this.#holder.mountingServed(at) }
    this.#child.stdin.write(`${JSON.stringify(setup)}\n`)
    if ((await this.#line()) !== said.mounted) throw this.#failed()
  }

  async end(): Promise<void> {
    this.#hold("ref")
    this.#child.kill("SIGKILL")
    await this.#gone
  }
}

/** A server that stands ready beside a holder of the pool; undefined when there is none. */
export type Standing = (holder: Holder) => LazyServer | undefined

class LazyProcess implements ServedLower {
  readonly device = null
  readonly #work: LazyWork
  readonly #standing: Standing
  #server: LazyServer | undefined

  constructor(work: LazyWork, standing: Standing) {
    this.#work = work
    this.#standing = standing
  }

  get alive(): boolean {
    return this.#server?.alive === true
  }

  async mounted(holder: Holder, at: string): Promise<void> {
    await holder.unshared()
    this.#server = this.#standing(holder)
    if (this.#server === undefined) {
      this.#server = new LazyServer(holder)
      await this.#server.standing()
    }
    await this.#server.serve(this.#work, at)
  }

  async end(): Promise<void> {
    await this.#server?.end()
  }
}

export const serveByProcess = (work: LazyWork, standing: Standing): ServedLower => new LazyProcess(work, standing)
