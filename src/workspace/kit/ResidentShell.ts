/**
 * One process that stands ready at a workspace's door and starts commands in it: a command costs no launcher of its own.
 * Promise: commands run as they do without it (the same launcher's rights behind the second user namespace, the caller's ids, no
 * descriptor but their three, the same ends by time limit and interruption); nothing inside can see, stop or end the process; what
 * became of a command whose shell died is an error, never a result. Rules: W4, W9, W17, C95, P4; 04 "Holder".
 *
 * It lives in the workspace's user and mount namespaces but outside of its pid namespace, into which only what it forks is born.
 * Written in Perl: a POSIX shell cannot tell an exit code of 137 from a SIGKILL, and Node starts in ten times the time.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import type { Holder } from "./Holder.ts"
import { type Command, drained, type Exit, type Heard, type Launch, spawnFailed } from "./Launch.ts"

/**
 * Reads `id, has stdin, count of arguments, count of variables` and that many fields, forks, connects the child's streams to the socket
 * below descriptor 3, and answers `id, wait status`. No module is loaded: numbers are those of Linux (PF_UNIX 1, SOCK_STREAM 1).
 */
const program = String.raw`
$at = pack("Sa*", 1, "/proc/self/fd/3/s");
sub bytes { my $b = ""; while (length($b) < $_[0]) { sysread(STDIN, $b, $_[0] - length($b), length($b)) or exit 0 } $b }
sub field { bytes(unpack("N", bytes(4))) }
sub stream { my $s; socket($s, 1, 1, 0) && connect($s, $at) && syswrite($s, pack("NN", @_)) == 8 or exit 127; $s }
syswrite(STDOUT, pack("NN", 0, 0));
for (;;) {
  my ($id, $in, $argc, $envc) = unpack("NNNN", bytes(16));
  my @argv = map { field() } 1 .. $argc;
  my @env = map { field() } 1 .. $envc;
  my $pid = fork;
  if (defined $pid && $pid == 0) {
    my ($o, $e) = (stream($id, 1), stream($id, 2));
    if ($in) { open(STDIN, "<&", stream($id, 0)) or exit 127 } else { open(STDIN, "<", "/dev/null") or exit 127 }
    open(STDOUT, ">&", $o) or exit 127;
    open(STDERR, ">&", $e) or exit 127;
    my $d;
    open($d, "<&=", 3) && close($d) or exit 127;
    %ENV = @env;
    exec { $argv[0] } @argv;
    exit 127;
  }
  my $status = defined $pid && waitpid($pid, 0) == $pid ? $? : 0xffffffff;
  syswrite(STDOUT, pack("NN", $id, $status));
}
`

const unknownStatus = 0xffffffff

interface Waiting {
  readonly heard: Heard
  readonly stdin: Command["stdin"]
  readonly outputs: net.Socket[]
  readonly sockets: net.Socket[]
  readonly resolve: (status: number) => void
  readonly reject: (why: string) => void
}

/** How long the streams of a command that has ended may still be on their way. */
const arrivalMs = 200

const field = (text: string): Buffer => {
  const bytes = Buffer.from(text)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

const numbers = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [n, value] of values.entries()) bytes.writeUInt32BE(value, 4 * n)
  return bytes
}

const namesOfSignals = new Map(
  Object.entries(os.constants.signals).map(([name, number]) => [number, name as NodeJS.Signals])
)

/** As wait(2) tells it. */
const exitOf = (status: number): Exit =>
  (status & 0x7f) === 0
    ? { code: status >> 8, signal: null }
    : { code: null, signal: namesOfSignals.get(status & 0x7f) ?? null }

/** A promise with its two ends. */
const deferred = <A>() => {
  let resolve!: (value: A) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<A>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

export class ResidentShell {
  readonly #holder: Holder
  readonly #perl: string
  readonly #directory: string
  readonly #waiting = new Map<number, Waiting>()
  #descriptor: number | undefined
  #server: net.Server | undefined
  #child: ChildProcess | undefined
  #ready: Promise<void> | undefined
  #next = 1
  #ending: Promise<void> | undefined

  /** `directory` is made; nothing inside can reach it. Nothing is started before the first command or `start`. */
  constructor(holder: Holder, perl: string, directory: string) {
    this.#holder = holder
    this.#perl = perl
    this.#directory = directory
  }

  /** Resolves when the next command finds it ready. Rejects with `SpawnFailed`. */
  start(): Promise<void> {
    return (this.#ready ??= this.#begin().catch((error) => {
      this.#ready = undefined
      throw error
    }))
  }

  async #begin(): Promise<void> {
    if (this.#ending !== undefined || !this.#holder.alive) throw spawnFailed("perl", "the workspace has ended")
    if (this.#descriptor === undefined) await this.#listen()
    const argv = this.#holder.atTheDoor()
    const child = spawn(argv[0], [...argv.slice(1), this.#perl, "-e", program], {
      stdio: ["pipe", "pipe", "ignore", this.#descriptor],
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C" }
    })
    this.#child = child
    child.stdin!.on("error", () => undefined)
    const begun = deferred<void>()
    let answers = Buffer.alloc(0)
    child.stdout!.on("data", (chunk: Buffer) => {
      answers = Buffer.concat([answers, chunk])
      for (; answers.length >= 8; answers = answers.subarray(8)) {
        const id = answers.readUInt32BE(0)
        if (id === 0) begun.resolve()
        else this.#waiting.get(id)?.resolve(answers.readUInt32BE(4))
      }
    })
    const gone = (): void => {
      if (this.#child !== child) return
      this.#child = undefined
      this.#ready = undefined
      begun.reject(spawnFailed("perl", "the resident shell did not start"))
      for (const waiting of this.#waiting.values())
        waiting.reject("the resident shell ended, so nobody knows how the command did")
    }
    child.once("error", gone)
    child.once("close", gone)
    await begun.promise
  }

  async #listen(): Promise<void> {
    fs.mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    this.#descriptor = fs.openSync(this.#directory, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY)
    const server = net.createServer({ allowHalfOpen: true }, (socket) => this.#arrived(socket))
    this.#server = server
    // By the descriptor: the name of a socket has room for 107 bytes.
    const listening = deferred<void>()
    server.once("error", listening.reject)
    server.listen(`/proc/self/fd/${this.#descriptor}/s`, listening.resolve)
    await listening.promise
  }

  /** The first eight bytes say whose stream it is, and which. */
  #arrived(socket: net.Socket): void {
    socket.on("error", () => undefined)
    const look = (): void => {
      const head = socket.read(8) as Buffer | null
      if (head === null) return
      socket.off("readable", look)
      const waiting = this.#waiting.get(head.readUInt32BE(0))
      const which = head.readUInt32BE(4)
      if (waiting === undefined) return void socket.destroy()
      waiting.sockets.push(socket)
      if (which === 0) return void socket.resume().end(waiting.stdin ?? "")
      waiting.outputs.push(socket)
      socket.on("data", (chunk: Buffer) => waiting.heard(which === 1 ? "stdout" : "stderr", chunk))
      // Nobody writes to it from here.
      socket.resume()
    }
    socket.on("readable", look)
  }

  run({ argv, cwd, env, stdin }: Command, heard: Heard): Launch {
    const id = this.#next++
    const outputs: net.Socket[] = []
    const sockets: net.Socket[] = []
    const ended = deferred<Exit>()
    const state = { over: false }
    const done = (): void => {
      state.over = true
      this.#waiting.delete(id)
      for (const socket of sockets) socket.destroy()
    }
    const reject = (error: unknown): void => {
      done()
      ended.reject(error)
    }
    const begin = async (): Promise<void> => {
      await this.start()
      const resolve = (status: number): void => {
        if (status === unknownStatus) return reject(spawnFailed(argv[0], "no process could be started"))
        state.over = true
        ended.resolve(exitOf(status))
      }
      this.#waiting.set(id, {
        heard,
        stdin,
        outputs,
        sockets,
        resolve,
        reject: (why) => reject(spawnFailed(argv[0], why))
      })
      const whole = [...this.#holder.behindTheDoor(cwd), ...argv]
      const pairs = Object.entries(env).flat()
      const head = numbers(id, stdin === undefined ? 0 : 1, whole.length, pairs.length)
      this.#child!.stdin!.write(Buffer.concat([head, ...whole.map(field), ...pairs.map(field)]))
    }
    begin().catch(reject)
    ended.promise.catch(() => undefined)
    return {
      exited: ended.promise,
      drained: async () => {
        const deadline = performance.now() + arrivalMs
        while (outputs.length < 2 && performance.now() < deadline) await new Promise((go) => setTimeout(go, 1))
        const whole = (await drained(outputs)) && outputs.length === 2
        done()
        return whole
      },
      endLauncher: async (strike) => {
        // It may still be about to fork.
        for (; !state.over && this.#holder.alive; await new Promise((go) => setTimeout(go, 2))) await strike()
      }
    }
  }

  /** Before the holder: it keeps the mounts from going. */
  end(): Promise<void> {
    return (this.#ending ??= this.#end())
  }

  async #end(): Promise<void> {
    const child = this.#child
    if (child !== undefined) {
      const gone = new Promise<void>((resolve) => void child.once("close", () => resolve()))
      child.kill("SIGKILL")
      await gone
    }
    await new Promise<void>((resolve) => (this.#server === undefined ? resolve() : this.#server.close(() => resolve())))
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor)
    this.#descriptor = undefined
    fs.rmSync(path.join(this.#directory, "s"), { force: true })
  }
}
