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
import { watchLauncher } from "./Launcher.ts"

/**
 * Reads `id, has stdin, count of arguments, count of variables` and that many fields, forks, connects the child's streams to the socket
 * below descriptor 3, and answers `id, wait status`. No module is loaded: numbers are those of Linux (PF_UNIX 1, SOCK_STREAM 1).
 * A pipe that closes with exec(2) tells a program that was never begun from one that ended with 127.
 */
const program = String.raw`
$at = pack("Sa*", 1, "/proc/self/fd/3/s");
sub bytes { my $b = ""; while (length($b) < $_[0]) { sysread(STDIN, $b, $_[0] - length($b), length($b)) or exit 0 } $b }
sub field { bytes(unpack("N", bytes(4))) }
sub never { syswrite($never, "x"); exit 127 }
sub stream { my $s; socket($s, 1, 1, 0) && connect($s, $at) && syswrite($s, pack("NN", @_)) == 8 or never; $s }
syswrite(STDOUT, pack("NN", 0, 0));
for (;;) {
  my ($id, $in, $argc, $envc) = unpack("NNNN", bytes(16));
  my @argv = map { field() } 1 .. $argc;
  my @env = map { field() } 1 .. $envc;
  my $begun;
  my $pid = pipe($begun, $never) ? fork : undef;
  if (defined $pid && $pid == 0) {
    setpgrp;
    my ($o, $e) = (stream($id, 1), stream($id, 2));
    if ($in) { open(STDIN, "<&", stream($id, 0)) or never } else { open(STDIN, "<", "/dev/null") or never }
    open(STDOUT, ">&", $o) or never;
    open(STDERR, ">&", $e) or never;
    my $d;
    open($d, "<&=", 3) && close($d) or never;
    %ENV = @env;
    exec { $argv[0] } @argv;
    never;
  }
  close($never);
  my $never_began = defined $pid && sysread($begun, my $told, 1);
  my $status = defined $pid && waitpid($pid, 0) == $pid && !$never_began ? $? : 0xffffffff;
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

/** How long the streams of a command that has ended may still be on their way: so long, and so often this thread looks. */
const arrivalMs = 200
const arrivalLooks = 10

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
  readonly #connected = new Set<net.Socket>()
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
      detached: true,
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
    const unwatch = child.pid === undefined ? () => undefined : watchLauncher(child.pid)
    await begun.promise.finally(unwatch)
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
    this.#connected.add(socket)
    socket.once("close", () => this.#connected.delete(socket))
    socket.on("error", () => undefined)
    // The command was ended before it had said whose stream it is.
    const early = (): void => void socket.destroy()
    socket.on("end", early)
    const look = (): void => {
      const head = socket.read(8) as Buffer | null
      if (head === null || head.length < 8) return
      socket.off("readable", look).off("end", early)
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
    let unwatch: () => void = () => undefined
    const done = (): void => {
      state.over = true
      unwatch()
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
        unwatch()
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
      // Stopped from outside, it would never tell how the command did.
      unwatch = watchLauncher(this.#child!.pid!)
      const head = numbers(id, stdin === undefined ? 0 : 1, whole.length, pairs.length)
      this.#child!.stdin!.write(Buffer.concat([head, ...whole.map(field), ...pairs.map(field)]))
    }
    begin().catch(reject)
    ended.promise.catch(() => undefined)
    return {
      exited: ended.promise,
      drained: async () => {
        const deadline = performance.now() + arrivalMs
        for (let look = 0; outputs.length < 2 && (look < arrivalLooks || performance.now() < deadline); look += 1)
          await new Promise((go) => setTimeout(go, 1))
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
    for (const socket of this.#connected) socket.destroy()
    await new Promise<void>((resolve) => (this.#server === undefined ? resolve() : this.#server.close(() => resolve())))
    if (this.#descriptor !== undefined) fs.closeSync(this.#descriptor)
    this.#descriptor = undefined
    fs.rmSync(path.join(this.#directory, "s"), { force: true })
  }
}
