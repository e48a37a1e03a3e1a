/**
 * The process that holds a workspace's namespaces open, and the only way into them.
 * Promise: it lives exactly as long as its stdin pipe; when the SDK dies, by whatever cause, the kernel ends every process
 * inside. Commands never run as the mapped root that made the mounts. Rules: W17, W23, S23, L2, C95; 04 "Holder".
 *
 * A parent-death signal belongs to a thread: start holders only from a thread that outlives them.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from "node:child_process"
import * as fs from "node:fs"
import type { Socket } from "node:net"
import { once } from "node:events"
import { hasEnded, kernelRelease, startTimeOf, type Tools } from "./Machine.ts"
import { mounter } from "./Mounter.ts"
import { servedOptions, servedType } from "./ServedMount.ts"

export interface HolderIdentity {
  readonly pid: number
  readonly startTime: string | null
}

export type Network = "host" | "none"

export interface SeenNetwork {
  readonly kind: Network
  readonly loopback: boolean
  /** Sockets to the hypervisor and beside it (vsock(7)), which belong to no network namespace. */
  readonly vsock: boolean
}

/** A process as it is seen in the holder's own /proc. */
export interface InsideProcess {
  readonly pid: number
  readonly startTime: string
  readonly parent: number
  readonly command: string
  /** 1 for a process of the workspace itself, more for one in a nested pid namespace. */
  readonly depth: number
}

/** What went wrong before the holder was ready: its last words. `silent`: it was there and did not go on. */
export class HolderFailed extends Error {
  readonly stderr: string
  readonly silent: boolean
  constructor(stderr: string, silent = false) {
    super("The workspace's namespaces could not be set up")
    this.stderr = stderr
    this.silent = silent
  }
}

/** A holder that lives takes some 20 ms for each of its answers, under load seconds; a stopped one never answers. */
const patienceMs = 30_000

/** A file system of ours that a holder brings into its namespaces: /dev/fuse, open in this process, and where it is mounted. */
export interface Brought {
  readonly device: number
  readonly at: string
}

export interface HolderOptions {
  /** Milliseconds that it may take for each of its answers. */
  readonly patience?: number
  readonly brought?: Brought | undefined
}

/**
 * /dev/fuse works only in the user namespace in which it was opened. So the mount is made in that one, in a mount namespace of its own, which the holder's is
 * then a copy of: it is never seen on the machine, and goes with the holder. Nobody inside may take it away.
 */
const bringing = `"$1" -i -t ${servedType} -o ${servedOptions} coppice "$2" && shift 2 && exec "$@" 3<&-`

const environment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" }

/** An open set of namespaces. */
export class Holder {
  readonly identity: HolderIdentity
  /** Resolves when the holder, and with it everything inside, is gone. */
  readonly gone: Promise<void>
  /** Where it reads what to mount. */
  readonly table: string
  #alive = true
  #innerPid: number | undefined
  #procDescriptor: number | undefined
  readonly #child: ChildProcessWithoutNullStreams
  readonly #tools: Tools
  readonly #network: Network
  readonly #patience: number
  #stderr = ""
  #said: Promise<void> = Promise.resolve()

  private constructor(
    child: ChildProcessWithoutNullStreams,
    tools: Tools,
    table: string,
    network: Network,
    patience: number
  ) {
    this.#network = network
    this.#patience = patience
    this.#child = child
    this.table = table
    this.#tools = tools
    this.identity = { pid: child.pid!, startTime: startTimeOf(child.pid!) }
    child.stderr.setEncoding("latin1").on("data", (text: string) => (this.#stderr += text))
    child.stdin.on("error", () => undefined)
    this.gone = new Promise((resolve) => {
      child.once("close", () => {
        this.#alive = false
        if (this.#procDescriptor !== undefined) fs.closeSync(this.#procDescriptor)
        this.#procDescriptor = undefined
        resolve()
      })
    })
  }

  /** Starts the process and no mount: its identity can be recorded first (W23). */
  static async start(
    tools: Tools,
    directory: string,
    table: string,
    network: Network = "host",
    { patience = patienceMs, brought }: HolderOptions = {}
  ): Promise<Holder> {
    const namespaces = [
      ...(network === "none" ? ["--net"] : []),
      "--user",
      "--map-root-user",
      "--mount",
      "--ipc",
      "--pid",
      "--fork",
      "--kill-child",
      "--mount-proc"
    ]
    const holding = ["--pdeathsig", "KILL", tools.unshare, ...namespaces, ...mounter(tools, directory, table, network)]
    const bring = ["--pdeathsig", "KILL", tools.unshare, "--mount", tools.sh, "-c", bringing, "sh", tools.mount]
    const argv = brought === undefined ? holding : [...bring, brought.at, tools.setpriv, ...holding]
    const device = brought === undefined ? [] : [brought.device]
    const child = spawn(tools.setpriv, argv, {
      stdio: ["pipe", "pipe", "pipe", ...device],
      env: environment
    }) as ChildProcessWithoutNullStreams
    if (child.pid === undefined) {
      const [error] = (await once(child, "error")) as [Error]
      throw new HolderFailed(error.message)
    }
    const holder = new Holder(child, tools, table, network, patience)
    // Listened for from the first moment, so that it cannot pass unseen.
    holder.#said = holder.#ready(() => undefined)
    holder.#said.catch(() => undefined)
    return holder
  }

  /** Resolves when the namespaces are there. No mount that is made or taken away outside reaches them any more. */
  async unshared(): Promise<void> {
    await this.#said
    this.#innerPid = childOf(this.identity.pid)
    if (this.#innerPid !== undefined) return
    await this.end()
    throw new HolderFailed("the first process inside could not be found below /proc")
  }

  /** /proc/PID/mountinfo of the first process inside. */
  mountinfo(): string {
    return fs.readFileSync(`/proc/${this.innerPid}/mountinfo`, "latin1")
  }

  /** The network inside, as the kernel shows it. */
  network(): SeenNetwork {
    const at = `/proc/${this.innerPid}`
    const own = fs.readlinkSync(`${at}/ns/net`) !== fs.readlinkSync("/proc/self/ns/net")
    const vsock =
      fs.existsSync("/dev/vsock") ||
      /^AF_VSOCK\s/m.test(fs.readFileSync(`${at}/net/protocols`, "latin1")) ||
      vsockLoads()
    if (!own) return { kind: "host", loopback: true, vsock }
    const routes = fs.readFileSync(`${at}/net/route`, "latin1").trim().split("\n").length - 1
    // Interfaces that the kernel puts into every namespace (tunl0, sit0) lead nowhere without a route.
    return {
      kind: routes > 0 ? "host" : "none",
      loopback: fs.readFileSync(`${at}/net/fib_trie`, "latin1").includes("127.0.0.1"),
      vsock
    }
  }

  /** Makes the mounts of the table. Rejects with `HolderFailed` when they cannot be made. */
  async mount(): Promise<void> {
    await this.#ready(() => this.#child.stdin.write("\n"))
    this.#procDescriptor = fs.openSync(
      `/proc/${this.#innerPid}/root/proc`,
      fs.constants.O_RDONLY | fs.constants.O_DIRECTORY
    )
  }

  async #ready(go: () => void): Promise<void> {
    const said = once(this.#child.stdout, "data")
    said.catch(() => undefined)
    go()
    let timer: NodeJS.Timeout | undefined
    const silent = new Promise<"silent">((resolve) => {
      timer = setTimeout(() => resolve("silent"), this.#patience).unref()
    })
    const outcome = await Promise.race([said.then(() => "ready" as const), this.gone, silent])
    clearTimeout(timer)
    if (outcome !== "ready") throw new HolderFailed(this.#stderr.trim(), outcome === "silent")
  }

  /** Lets the SDK's process end although this one is there, which then ends too. */
  unref(): void {
    this.#hold("unref")
  }

  ref(): void {
    this.#hold("ref")
  }

  #hold(how: "ref" | "unref"): void {
    this.#child[how]()
    // With pipes they are sockets, whatever the type says.
    for (const stream of [this.#child.stdin, this.#child.stdout, this.#child.stderr]) (stream as Socket)[how]()
  }

  get alive(): boolean {
    return this.#alive && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The first process inside, as seen from outside. */
  get innerPid(): number {
    if (this.#innerPid === undefined) throw new Error("The holder has no namespaces yet")
    return this.#innerPid
  }

  /** `argv` in front of a command that runs inside with the rights of mapped root: for the SDK's own tools only. */
  asMappedRoot(): readonly [string, ...string[]] {
    const network = this.#network === "none" ? ["-n"] : []
    return [
      this.#tools.nsenter,
      "-t",
      String(this.innerPid),
      "-U",
      "-m",
      "-i",
      ...network,
      "-p",
      "--preserve-credentials"
    ]
  }

  /**
   * `argv` in front of an attempt's command: a second user namespace maps back to the caller's own ids, so that nothing
   * inside may touch the mounts. Root keeps its file rights and loses what would reach the machine.
   */
  asCaller(cwd: string): readonly [string, ...string[]] {
    return [...this.asMappedRoot(), ...this.behindTheDoor(cwd)]
  }

  /** `argv` in front of a process of the SDK's that stays outside of the pid namespace and forks commands into it. It dies with this one. */
  atTheDoor(): readonly [string, ...string[]] {
    const [nsenter, ...options] = this.asMappedRoot()
    return [this.#tools.setpriv, "--pdeathsig", "KILL", nsenter, "--no-fork", ...options]
  }

  /**
   * `argv` in front of a process of the SDK's that sees the machine as ever and has the holder's user namespace alone, as its root: what it opens and mounts
   * belongs to the holder. It dies with this process.
   */
  asServer(): readonly [string, ...string[]] {
    const enter = [this.#tools.nsenter, "-t", String(this.innerPid), "-U", "--preserve-credentials"]
    return [this.#tools.setpriv, "--pdeathsig", "KILL", ...enter]
  }

  /** `argv` for a process of `asServer` to mount what it serves through its descriptor 3 inside. */
  mountingServed(at: string): readonly [string, ...string[]] {
    const mount = [this.#tools.mount, "-i", "-t", servedType, "-o", servedOptions, "coppice", at]
    return [this.#tools.nsenter, "-t", String(this.innerPid), "-m", ...mount]
  }

  /** The part of `asCaller` that is left to do for what was forked at the door. */
  behindTheDoor(cwd: string): readonly [string, ...string[]] {
    const uid = process.getuid!()
    const back = ["--user", `--map-user=${uid}`, `--map-group=${process.getgid!()}`, `--wd=${cwd}`]
    const drop = [this.#tools.setpriv, "--bounding-set", droppedCapabilities, "--inh-caps", "-all", "--no-new-privs"]
    return [this.#tools.unshare, ...back, ...(uid === 0 ? drop : [])]
  }

  /** The /proc of the inside; a path that does not exist when there is none any more. */
  get procRoot(): string {
    return `/proc/self/fd/${this.#procDescriptor ?? "none"}`
  }

  /** Every process inside but the holder's own first one. */
  processes(): InsideProcess[] {
    if (this.#procDescriptor === undefined) return []
    const root = this.procRoot
    return fs
      .readdirSync(root)
      .filter((name) => /^\d+$/.test(name) && name !== "1")
      .flatMap((name) => {
        const seen = inspect(root, Number(name))
        return seen === undefined ? [] : [seen]
      })
  }

  /** True when nothing but the holder lives inside. One directory read. */
  quiet(): boolean {
    if (this.#procDescriptor === undefined) return true
    return !fs.readdirSync(`/proc/self/fd/${this.#procDescriptor}`).some((name) => name !== "1" && /^\d+$/.test(name))
  }

  variables(pid: number): string {
    if (this.#procDescriptor === undefined) return ""
    try {
      return fs.readFileSync(`/proc/self/fd/${this.#procDescriptor}/${pid}/environ`, "latin1")
    } catch {
      return ""
    }
  }

  /** Sends `signal` to processes by their inside pids. */
  async signal(signal: "TERM" | "KILL" | "STOP" | "CONT", pids: readonly (number | "all")[]): Promise<void> {
    if (pids.length === 0 || !this.alive) return
    const targets = pids.map((pid) => (pid === "all" ? "-1" : String(pid)))
    const argv = [
      ...this.asMappedRoot(),
      this.#tools.sh,
      "-c",
      `kill -s ${signal} -- "$@" 2>/dev/null`,
      "sh",
      ...targets
    ]
    await finished(spawn(argv[0]!, argv.slice(1), { stdio: "ignore", env: environment }))
  }

  /**
   * A pid namespace of its own inside this one, with its own /proc: a tree that ends as a whole, `setsid` or not.
   * It too lives as long as its stdin pipe.
   */
  async nest(): Promise<Holder> {
    const controls = process.getuid!() === 0 ? `"$3" -o bind,ro,nosuid,nodev,noexec /proc/sys /proc/sys && ` : ""
    const nested = `read -r _ && ${controls}echo ready && exec "$1" --ignore-signal=CHLD "$2"`
    const namespaces = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    const inner = [this.#tools.sh, "-c", nested, "sh", this.#tools.env, this.#tools.cat, this.#tools.mount]
    const argv = [...this.asMappedRoot(), this.#tools.unshare, ...namespaces, ...inner]
    // nsenter forks to enter the pid namespace; the parent-death signal makes its own end final for its child too.
    const child = spawn(argv[0]!, argv.slice(1), { stdio: ["pipe", "pipe", "pipe"], env: environment })
    if (child.pid === undefined) throw new HolderFailed("nsenter could not be started")
    const holder = new Holder(child, this.#tools, this.table, this.#network, this.#patience)
    await holder
      .#ready(() => child.stdin.write("\n"))
      .catch(async (error) => {
        await holder.end()
        throw error
      })
    // nsenter -> unshare -> first process.
    const entered = childOf(child.pid)
    holder.#innerPid = entered === undefined ? undefined : childOf(entered)
    if (holder.#innerPid === undefined) {
      await holder.end()
      throw new HolderFailed("the first process inside could not be found below /proc")
    }
    holder.#procDescriptor = fs.openSync(
      `/proc/${holder.#innerPid}/root/proc`,
      fs.constants.O_RDONLY | fs.constants.O_DIRECTORY
    )
    return holder
  }

  /** Ends the holder and everything inside, and resolves when the kernel has taken it all away. */
  async end(): Promise<void> {
    this.#child.stdin.destroy()
    if (!this.alive) return this.gone
    // One that was stopped together with what is inside would not see it (see Launcher.ts).
    this.#child.kill("SIGCONT")
    // The pipe's end is enough; a stopped or replaced first process would not see it.
    let patience = setTimeout(() => {
      this.#kill("inner")
      // Those outside of it wait for its end, unless they are stopped too.
      patience = setTimeout(() => this.#kill("all"), 2000)
    }, 2000)
    await this.gone
    clearTimeout(patience)
  }

  /** For a process that ends now: nothing inside outlives the call for long. */
  killNow(): void {
    if (this.alive) this.#kill("all")
  }

  #kill(which: "inner" | "all"): void {
    const chain: number[] = []
    for (let pid = this.#child.pid; pid !== undefined && chain.length < 3; pid = childOf(pid)) chain.unshift(pid)
    const [inner = 0] = this.#innerPid === undefined ? chain : [this.#innerPid]
    for (const pid of which === "inner" ? [inner] : chain) {
      try {
        process.kill(pid, "SIGKILL")
      } catch {
        // Gone in this very moment.
      }
    }
  }
}

/** capabilities(7): mounts, other processes' memory, device nodes, chroot. */
const droppedCapabilities = "-sys_admin,-sys_ptrace,-mknod,-sys_chroot"

/** The kernel loads the module of a family when somebody asks for a socket of it. */
const vsockLoads = (): boolean => fs.existsSync(`/lib/modules/${kernelRelease()}/kernel/net/vmw_vsock`)

export const finished = (child: ChildProcess): Promise<number | null> =>
  new Promise((resolve) => {
    child.once("error", () => resolve(null))
    child.once("close", (code) => resolve(code))
  })

/** The only child of a process; falls back to a scan where the kernel has no `children` file. */
export const childOf = (pid: number): number | undefined => {
  try {
    const listed = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim().split(" ")[0]
    if (listed !== undefined && listed !== "") return Number(listed)
  } catch {
    // CONFIG_PROC_CHILDREN is off, or the process is gone.
  }
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .find((other) => inspect("/proc", other)?.parent === pid)
}

export const inspect = (root: string, pid: number): InsideProcess | undefined => {
  try {
    const stat = fs.readFileSync(`${root}/${pid}/stat`, "latin1")
    const open = stat.indexOf("(")
    const close = stat.lastIndexOf(")")
    const fields = stat.slice(close + 2).split(" ")
    // Its reaper only has to look.
    if (hasEnded(fields)) return undefined
    const status = fs.readFileSync(`${root}/${pid}/status`, "latin1")
    const depth = /^NSpid:(.*)$/m.exec(status)?.[1]?.trim().split(/\s+/).length ?? 1
    return { pid, startTime: fields[19] ?? "", parent: Number(fields[1]), command: stat.slice(open + 1, close), depth }
  } catch {
    return undefined
  }
}
