/**
 * The program that serves a commit's tree to the kernel: as a thread of the SDK's process, or as a process of its own.
 * Promise: a workspace waits for this program, and not for what it loads once the mount is made. Rules: P4, S23; 04 "Projections" 2.
 */
import * as fs from "node:fs"
import { createRequire } from "node:module"
import { fileURLToPath } from "node:url"
import { workerData } from "node:worker_threads"
import { greet } from "./lazy/FuseDevice.ts"
import { flag, type ProcessSetup, said, type ThreadSetup } from "./lazy/LazySetup.ts"
import type * as ServeCommit from "./lazy/ServeCommit.ts"
import { lazyTreeUrl } from "./WorkerUrl.ts"

/** Synchronously: whoever waits for one of Node's four threads may wait for ever, when they all wait for an answer of ours. */
const load = (): typeof ServeCommit =>
  createRequire(import.meta.url)(fileURLToPath(lazyTreeUrl())) as typeof ServeCommit

const asThread = ({ work, device, flags }: ThreadSetup): void => {
  const shared = new Int32Array(flags)
  try {
    const owner = { uid: process.getuid!(), gid: process.getgid!() }
    Atomics.store(shared, flag.serving, 1)
    const stopped = (): boolean => Atomics.load(shared, flag.stop) !== 0
    // From sources it takes longer than some commands may: then the opening waits for it.
    if (lazyTreeUrl().pathname.endsWith(".ts")) load()
    const first = greet(device, stopped)
    load().serveCommit(work, { device, owner, stopped }, first)
  } finally {
    // From now on nobody waits for an answer.
    Atomics.store(shared, flag.closed, 1)
    fs.closeSync(device)
  }
}

const firstLine = (descriptor: number): string => {
  const byte = Buffer.alloc(1)
  const bytes: number[] = []
  while (fs.readSync(descriptor, byte) === 1 && byte[0] !== 10) bytes.push(byte[0]!)
  return Buffer.from(bytes).toString("utf8")
}

/**
 * The mount is made by a process of its own, which says itself what came of it: nobody here may wait for it, because it may ask for an answer.
 */
const asProcess = (): void => {
  let device: number
  try {
    device = fs.openSync("/dev/fuse", "r+")
  } catch (error) {
    fs.writeSync(1, `${said.noDevice}${(error as NodeJS.ErrnoException).code}\n`)
    return
  }
  fs.writeSync(1, `${said.standing}\n`)
  const { serveCommit } = load()
  const text = firstLine(0)
  if (text === "") return
  const { work, mount } = JSON.parse(text) as ProcessSetup
  // Not imported: the thread, which is waited for, needs none of it.
  const { spawnSync } = process.getBuiltinModule("node:child_process")
  // By a shell that ends at once: nobody here would take note of a child's end.
  const script = `{ "$@" && echo ${said.mounted} || echo ${said.failed}; } &`
  spawnSync("/bin/sh", ["-c", script, "sh", ...mount], { stdio: ["ignore", 1, 2, device] })
  // Root of the namespace is whoever made it.
  serveCommit(work, { device, owner: { uid: 0, gid: 0 }, stopped: () => false })
}

if (workerData === null) asProcess()
else asThread(workerData as ThreadSetup)
