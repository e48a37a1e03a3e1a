import { execFileSync, spawn } from "node:child_process"
import { chmodSync, copyFileSync, existsSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Effect from "effect/Effect"
import { describe, expect, test } from "vitest"
import { childEnvironment } from "../../src/base/ChildEnvironment.ts"
import { isAlive } from "../../src/base/ProcessIdentity.ts"
import { childrenOf, isRunning, listProcesses } from "../../src/base/ProcessTable.ts"
import { type Hold, spawnTree, strongestHold } from "../../src/base/ProcessTree.ts"
import { plainDirectory } from "../../src/host/PlainDirectory.ts"
import { answer, directory, eventually, holdsHere, mark, marked } from "./scenes.ts"

const commandLine = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1")
  } catch {
    return ""
  }
}

const sdkProcess = fileURLToPath(new URL("sdkProcess.ts", import.meta.url))
const env = { PATH: process.env["PATH"] ?? "" }

/** Starts a process that runs one turn, and waits until `running` of its tree are seen beside itself. */
const startSdk = async (hold: Hold, script: string, running: number) => {
  const { name, value } = mark()
  const child = spawn(process.execPath, [sdkProcess, directory(), hold, script], {
    env: { ...process.env, [name]: value },
    stdio: "ignore"
  })
  const exited = new Promise((done) => child.once("exit", done))
  const tree = () => marked(value).filter((pid) => pid !== child.pid)
  await eventually("the host and its children run", () => tree().length >= running)
  return { child, exited, tree }
}

describe.for(holdsHere)("a process tree held by %s", (hold) => {
  const wholeTree = hold !== "processGroup"

  test("S23 the exit code comes through, and the tree is then proven gone", async () => {
    const seen = await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const tree = yield* spawnTree(["sh", "-c", "exit 7"], { cwd: directory(), env, hold })
          return { exit: yield* tree.wait, gone: yield* tree.provenGone, guarantee: tree.guarantee }
        })
      )
    )
    expect(seen).toEqual({
      exit: { code: 7, signal: null },
      gone: true,
      guarantee: { diesWithParent: wholeTree, wholeTree, isolation: "none" }
    })
  })

  test("S23 the tree is identified from outside before its program runs, and the identity dies with it", async () => {
    const seen = await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const tree = yield* spawnTree(["sleep", "1000"], { cwd: directory(), env, hold })
          const identity = tree.identity
          if (identity === null) return null
          const before = isAlive(identity)
          const goneBefore = yield* tree.provenGone
          yield* tree.kill({ graceMs: 50 })
          return { pid: identity.pid, before, goneBefore, after: isAlive(identity), gone: yield* tree.provenGone }
        })
      )
    )
    expect(seen).toMatchObject({ before: true, goneBefore: false, after: false, gone: true })
  })

  test("C95 a setsid grandchild is ended with the tree", async () => {
    const { name, value } = mark()
    await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const argv = ["sh", "-c", "setsid sleep 1000 & sleep 1000"] as const
          yield* spawnTree([...argv], { cwd: directory(), env: { ...env, [name]: value }, hold })
          yield* Effect.promise(() => eventually("a shell and two sleeps run", () => marked(value).length >= 3))
        })
      )
    )
    expect(marked(value)).toEqual([])
  })

  test("S23 standard streams are the program's own, and nothing else is open in it", async () => {
    const out = await Effect.runPromise(
      Effect.scoped(
        Effect.gen(function* () {
          const tree = yield* spawnTree(["sh", "-c", "cat; ls /proc/self/fd >&2"], { cwd: directory(), env, hold })
          const text = { out: "", err: "" }
          tree.stdout.on("data", (chunk) => (text.out += chunk))
          tree.stderr.on("data", (chunk) => (text.err += chunk))
          const closed = new Promise((done) => tree.stderr.once("close", done))
          tree.stdin.end("through")
          yield* tree.wait
          yield* Effect.promise(() => closed)
          return text
        })
      )
    )
    // What this process itself was started with, and the directory that `ls` has open.
    const inherited = execFileSync("ls", ["/proc/self/fd"], { encoding: "utf8" })
    expect(out).toEqual({ out: "through", err: inherited })
  })
})

describe.for(holdsHere.filter((hold) => hold !== "processGroup"))("SIGKILL of the SDK, tree held by %s", (hold) => {
  test("S23 C95 ends every process of the host, setsid grandchildren and TERM-proof ones included", async () => {
    // The last one has no mark in its environment: its own argument finds it.
    const seconds = `${1000 + Math.random()}`
    const unmarked = () => listProcesses().filter((row) => isRunning(row) && commandLine(row.pid).includes(seconds))
    const script = `trap '' TERM; setsid sleep 1000 & env -i setsid sleep ${seconds} & sleep 1000`
    const { child, exited, tree } = await startSdk(hold, script, 3)
    await eventually("the process without a mark runs", () => unmarked().some((row) => row.session === row.pid))
    child.kill("SIGKILL")
    await exited
    await eventually("the whole tree is gone", () => tree().length === 0 && unmarked().length === 0)
  })
})

test("S51 in a process group the host's children survive a SIGKILL of the SDK, as the guarantee says", async () => {
  const { child, exited, tree } = await startSdk("processGroup", "sleep 1000 & sleep 1000; :", 3)
  const leader = tree()
  child.kill("SIGKILL")
  await exited
  await eventually("the leader died with its parent", () => tree().length < leader.length)
  const survivors = tree()
  for (const pid of survivors) process.kill(pid, "SIGKILL")
  expect(survivors).toHaveLength(2)
  await eventually("the test's own leftovers are gone", () => tree().length === 0)
})

test("S24 a process that ran a turn ends by itself: no handle, timer or child is left", () => {
  const out = execFileSync(
    process.execPath,
    [sdkProcess, directory(), "", `cat >/dev/null; printf '%s' '${answer()}'`],
    {
      encoding: "utf8",
      timeout: 30_000
    }
  )
  expect(JSON.parse(out)).toMatchObject({ result: { outcome: "progress" } })
})

test("S51 a builtin's name, a directory and a file without the execute bit are no programs", async () => {
  const cwd = directory()
  writeFileSync(join(cwd, "plain"), "#!/bin/sh\n")
  for (const program of ["exit", "./plain", "/", "./missing", ""]) {
    const failure = await Effect.runPromise(Effect.flip(Effect.scoped(spawnTree([program], { cwd, env }))))
    expect(failure).toMatchObject({ _tag: "SpawnFailed", code: "SPAWN_FAILED", program })
  }
})

test("the children that the kernel lists are those that the whole table gives", async () => {
  const children = [spawn("sleep", ["1000"]), spawn("sleep", ["1000"])]
  try {
    const whole = listProcesses()
      .filter((row) => row.parent === process.pid)
      .map((row) => row.pid)
    expect([...childrenOf(process.pid)].sort()).toEqual(whole.sort())
    expect(children.every((child) => whole.includes(child.pid ?? 0))).toBe(true)
  } finally {
    for (const child of children) child.kill("SIGKILL")
  }
})

test("a plain directory never starts a process outside itself", async () => {
  const root = directory()
  symlinkSync("/", join(root, "out"))
  for (const cwd of ["..", "/", "out", "missing"]) {
    const failure = await Effect.runPromise(Effect.flip(Effect.scoped(plainDirectory(root).spawn(["true"], { cwd }))))
    expect(failure).toMatchObject({ _tag: "SpawnFailed" })
    expect(failure.message).not.toContain(root)
  }
})

test("W4 a child's environment is an allow-list, and other variables pass by name only", () => {
  const source = {
    PATH: "/bin",
    LC_ALL: "C",
    HOME: "/home/u",
    API_KEY: "secret",
    SSH_AUTH_SOCK: "/run/s",
    NODE_OPTIONS: "x"
  }
  const defaults = { GIT_OPTIONAL_LOCKS: "0" }
  expect(childEnvironment(source)).toEqual({ ...defaults, PATH: "/bin", LC_ALL: "C", HOME: "/home/u" })
  expect(childEnvironment(source, ["API_KEY", "MISSING"], { PATH: "/usr/bin" })).toEqual({
    ...defaults,
    PATH: "/usr/bin",
    LC_ALL: "C",
    HOME: "/home/u",
    API_KEY: "secret"
  })
})

test.runIf(process.getuid?.() === 0)(
  "S23 an ordinary user gets the pid namespace through a user namespace and keeps the own ids in it",
  () => {
    const place = directory()
    chmodSync(place, 0o755)
    const node = join(place, "node")
    copyFileSync(process.execPath, node)
    chmodSync(node, 0o755)
    const bundle = join(place, "sdk.mjs")
    const esbuild = fileURLToPath(new URL("../../node_modules/.bin/esbuild", import.meta.url))
    execFileSync(esbuild, [sdkProcess, "--bundle", "--platform=node", "--format=esm", `--outfile=${bundle}`], {
      stdio: "ignore"
    })
    const users = readFileSync("/etc/passwd", "utf8")
    let uid = 20_000
    while (users.includes(`:${uid}:`)) uid += 1
    const root = join(place, "root")
    execFileSync("install", ["-d", "-o", String(uid), "-g", String(uid), root])
    const script = `cat >/dev/null; id -u >id; umount /proc 2>/dev/null && echo undone >undone; printf '%s' '${answer()}'`
    const out = execFileSync(
      "setpriv",
      [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--reset-env", node, bundle, root, "", script],
      { encoding: "utf8", cwd: place, timeout: 30_000 }
    )
    expect(JSON.parse(out)).toMatchObject({ guarantee: { diesWithParent: true, wholeTree: true } })
    expect(readFileSync(join(root, "id"), "utf8")).toBe(`${uid}\n`)
    expect(existsSync(join(root, "undone"))).toBe(false)
  }
)

test("S23 on Linux with user namespaces the strongest hold is a pid namespace", async () => {
  const hold = await Effect.runPromise(strongestHold)
  const userNamespaces = Number(readFileSync("/proc/sys/user/max_user_namespaces", "utf8")) > 0
  expect(hold === "processGroup").toBe(!userNamespaces)
})
