import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { assert, test } from "vitest"
import { provideDependencies } from "../../src/evaluator/index.ts"
import { type HostOutcome, resultFiles } from "../../src/session/index.ts"
import { cleanCheckout, sweepCheckouts } from "../../src/workspace/CleanCheckout.ts"
import { newPlace, newScene } from "./scene.ts"

test("G70 G82 a saved result is read back by its digest; altered, cut, removed or under another digest it reads as unknown", async () => {
  const place = newPlace()
  const store = resultFiles(join(place, "results"))
  const outcome: HostOutcome = {
    status: "ok",
    result: {
      protocol: "coppice.turn",
      version: 1,
      turnKey: "t",
      outcome: "completed",
      summary: "ä\u0000",
      usage: { usd: 1 }
    },
    wallMs: 1.5
  }
  const digest = await Effect.runPromise(store.save("turn_1", outcome))
  const load = (wanted: string | null = digest) => Effect.runPromise(store.load("turn_1", wanted))
  assert.deepEqual(await load(), outcome)
  assert.equal(await load(null), null)
  assert.equal(await load(`sha256:${"0".repeat(64)}`), null)
  const path = join(place, "results", "turn_1.json")
  assert.equal(statSync(path).mode & 0o777, 0o600)
  const bytes = readFileSync(path)
  for (const altered of [String(bytes).replace("completed", "progress "), bytes.subarray(0, -5), ""]) {
    writeFileSync(path, altered)
    assert.equal(await load(), null)
  }
  assert.equal(await Effect.runPromise(store.load("turn_2", digest)), null)
  assert.deepEqual(readdirSync(join(place, "results")), ["turn_1.json"])
})

test("W16 a clean checkout is a clone of its own at that commit: no shared inode, no ignored file, gone with its scope", async () => {
  const scene = newScene()
  mkdirSync(scene.scratch)
  mkdirSync(join(scene.repository, "ignored"))
  writeFileSync(join(scene.repository, "ignored", "cache"), "x")
  writeFileSync(join(scene.repository, "value.txt"), "uncommitted\n")
  const inodes = (root: string) => {
    const objects = join(root, ".git", "objects")
    return readdirSync(objects, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => statSync(join(entry.parentPath, entry.name)).ino)
  }
  const path = await Effect.runPromise(
    Effect.scoped(
      Effect.gen(function* () {
        const options = { repository: scene.repository, commit: scene.base, parent: scene.scratch }
        const checkout = yield* cleanCheckout({ ...options, purpose: "replay" })
        assert.deepEqual(readdirSync(checkout).toSorted(), [".git", ".gitignore", "other.txt", "value.txt"])
        assert.equal(readFileSync(join(checkout, "value.txt"), "utf8"), "wrong\n")
        const shared = new Set(inodes(scene.repository))
        assert.isTrue(inodes(checkout).every((inode) => !shared.has(inode)))
        return checkout
      })
    )
  )
  assert.include(path, `replay-${process.pid}-`)
  assert.deepEqual(readdirSync(scene.scratch), [])
  assert.equal(readFileSync(join(scene.repository, "value.txt"), "utf8"), "uncommitted\n")
})

test("W16 sweeping removes the checkouts of dead processes and nothing else", async () => {
  const parent = newPlace()
  const living = spawn("sleep", ["1000"], { stdio: "ignore" })
  await once(living, "spawn")
  const dead = spawnSync("true").pid
  const names = [
    `verify-${dead}-a`,
    `replay-${dead}-b`,
    `checkout-${dead}-c`,
    `verify-${living.pid}-d`,
    `verify-${process.pid}-e`,
    `other-${dead}-f`,
    "verify-x-g",
    "clean"
  ]
  for (const name of names) {
    mkdirSync(join(parent, name))
    writeFileSync(join(parent, name, "file"), "x")
  }
  try {
    await Effect.runPromise(sweepCheckouts(parent))
    assert.deepEqual(readdirSync(parent).toSorted(), names.slice(3).toSorted())
    assert.isTrue(existsSync(join(parent, names[3]!, "file")))
    await Effect.runPromise(sweepCheckouts(join(parent, "nowhere")))
  } finally {
    const closed = once(living, "close")
    living.kill("SIGKILL")
    await closed
  }
})

test("E16 clean dependencies are installed once for each state of their deciding files, whoever asks at once, and never from a failed install", async () => {
  const place = newPlace()
  const spec = { install: ["install"], decidedBy: ["lock"], directories: ["deps"] } as const
  let installs = 0
  let running = 0
  let most = 0
  const provide = (name: string, lock: string, works = true) => {
    const checkout = join(place, name)
    mkdirSync(checkout)
    writeFileSync(join(checkout, "lock"), lock)
    const install = Effect.gen(function* () {
      installs += 1
      running += 1
      most = Math.max(most, running)
      yield* Effect.promise(() => new Promise((done) => setImmediate(done)))
      mkdirSync(join(checkout, "deps"))
      writeFileSync(join(checkout, "deps", "made"), lock)
      running -= 1
      return works
    })
    return provideDependencies(spec, checkout, join(place, "scratch"), install)
  }
  const all = await Effect.runPromise(
    Effect.all(
      ["a", "b", "c"].map((name) => provide(name, "one")),
      { concurrency: 3 }
    )
  )
  assert.deepEqual([all.toSorted(), installs], [["copied", "copied", "installed"], 1])
  for (const name of ["a", "b", "c"]) assert.equal(readFileSync(join(place, name, "deps", "made"), "utf8"), "one")
  assert.equal(await Effect.runPromise(provide("d", "two")), "installed")
  assert.equal(readFileSync(join(place, "d", "deps", "made"), "utf8"), "two")
  // A failed install is nobody's template, and those who waited for it do not install side by side.
  most = 0
  const failing = ["e", "f", "g"].map((name) => provide(name, "three", false))
  assert.deepEqual(await Effect.runPromise(Effect.all(failing, { concurrency: 3 })), ["failed", "failed", "failed"])
  assert.deepEqual([most, installs], [1, 5])
  assert.equal(await Effect.runPromise(provide("h", "three")), "installed")
})

test("W12 E16 an install that is interrupted while it is copied leaves no half template, and the next one installs", async () => {
  const place = newPlace()
  const spec = { install: ["install"], decidedBy: ["lock"], directories: ["deps"] } as const
  const clean = join(place, "scratch", "clean")
  const provide = (name: string) => {
    const checkout = join(place, name)
    mkdirSync(join(checkout, "deps"), { recursive: true })
    writeFileSync(join(checkout, "lock"), "one")
    for (let n = 0; n < 3000; n += 1) writeFileSync(join(checkout, "deps", String(n)), "x")
    return provideDependencies(spec, checkout, join(place, "scratch"), Effect.succeed(true))
  }
  const begun = (): boolean => existsSync(clean) && readdirSync(clean).length > 0
  const stop = new AbortController()
  const cut = Effect.runPromise(provide("a"), { signal: stop.signal }).catch(() => "interrupted")
  const watch = setInterval(() => {
    if (begun()) stop.abort()
  }, 1)
  const ended = await cut
  clearInterval(watch)
  // A copy that was quicker than the look at it was no interruption.
  assert.deepEqual(readdirSync(clean).length, ended === "interrupted" ? 0 : 1)
  assert.equal(await Effect.runPromise(provide("b")), ended === "interrupted" ? "installed" : "copied")
  assert.deepEqual(readdirSync(join(clean, readdirSync(clean)[0]!, "deps")).length, 3000)
})
