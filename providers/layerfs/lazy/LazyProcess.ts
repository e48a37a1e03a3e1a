/**
 * A served layer by a process beside this one, in the holder's user namespace.
 * Promise: the process ends with the workspace and with this process; it sees the machine's files as ever and is not seen from inside. Rules: P4, W12, W17, S23.
 *
 * The kernel wants /dev/fuse to be opened in the user namespace that mounts, and Node cannot be handed a descriptor of another process.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { type Holder, HolderFailed } from "../../../src/workspace/kit/Holder.ts"
import type { ServedLower } from "../../../src/workspace/kit/ServedLower.ts"
import { lazyServerUrl } from "../WorkerUrl.ts"
import { notServed, withoutDevice } from "./LazyLack.ts"
import { type ProcessSetup, said } from "./LazySetup.ts"
import type { LazyWork } from "./ServeCommit.ts"

class LazyProcess implements ServedLower {
  readonly device = null
  readonly #work: LazyWork
  #child: ChildProcess | undefined
  #alive = true

  constructor(work: LazyWork) {
    this.#work = work
  }

  get alive(): boolean {
    return this.#alive
  }

  async mounted(holder: Holder, at: string): Promise<void> {
    await holder.unshared()
    const [program, ...argv] = holder.asServer()
    const environment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" }
    const child = spawn(program, [...argv, process.execPath, decodeURIComponent(lazyServerUrl().pathname)], {
      stdio: ["pipe", "pipe", "pipe"],
      env: environment
    })
    this.#child = child
    let stderr = ""
    child.stderr.setEncoding("latin1").on("data", (text: string) => (stderr += text))
    child.stdin.on("error", () => undefined)
    const gone = new Promise<undefined>((resolve) => {
      child.once("error", (error) => {
        stderr += error.message
        resolve(undefined)
      })
      child.once("close", () => resolve(undefined))
    })
    void gone.then(() => (this.#alive = false))
    child.stdout.setEncoding("latin1")
    const answer = once(child.stdout, "data").then(([text]) => text as string)
    answer.catch(() => undefined)
    const setup: ProcessSetup = { work: this.#work, mount: holder.mountingServed(at) }
    child.stdin.write(`${JSON.stringify(setup)}\n`)
    const outcome = (await Promise.race([answer, gone]))?.trim()
    if (outcome === said.mounted) return
    if (outcome?.startsWith(said.noDevice) === true) throw withoutDevice(outcome.slice(said.noDevice.length))
    // The holder's own end, if it was that, says more.
    if (!holder.alive) throw new HolderFailed(stderr.trim())
    throw notServed(stderr.trim().split("\n")[0] ?? "it ended")
  }

  async end(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const closed = once(child, "close")
    child.kill("SIGKILL")
    await closed
  }
}

export const serveByProcess = (work: LazyWork): ServedLower => new LazyProcess(work)
