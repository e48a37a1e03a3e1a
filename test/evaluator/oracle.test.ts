import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { assert, describe, test } from "vitest"
import { directoryDigest, judge, prove, verdictDigest } from "../../src/evaluator/index.ts"
import { eventually, mark, marked } from "../host/scenes.ts"
import { plainDirectory } from "../../src/host/index.ts"
import { git, leftIn, newScene, write } from "./scene.ts"
import { withGitEnded } from "../endedGit.ts"

describe("a verdict", () => {
  test("G71 E16 is about the exact patch on a clean checkout, names it by digest, and leaves no checkout behind", async () => {
    const scene = newScene()
    mkdirSync(join(scene.repository, "ignored"))
    writeFileSync(join(scene.repository, "ignored", "cache"), "dirty")
    writeFileSync(join(scene.repository, "value.txt"), "right\n")
    const red = await scene.judge(null)
    assert.deepInclude(red, { outcome: "failed", patch: null, base: scene.base, exitCode: 1 })
    const fix = scene.patchOf(write("value.txt", "right\n"))
    const green = await scene.judge(fix)
    assert.deepInclude(green, { outcome: "passed", oracle: "tiny-oracle", exitCode: 0, reason: "Every check passed." })
    assert.equal(green.validator.before, await directoryDigest(scene.heldOut))
    assert.equal(green.validator.after, green.validator.before)
    assert.notEqual(green.id, red.id)
    assert.notEqual(verdictDigest(green), verdictDigest({ ...green, outcome: "failed" }))
    assert.deepEqual(leftIn(scene), [])
  })

  test("G71 each exit of the judge has its outcome: 0 passed, 1 failed, 2 progress, any other and a signal inconclusive", async () => {
    const outcomes: readonly (readonly [script: string, outcome: string, exitCode: number | null])[] = [
      ["exit 0", "passed", 0],
      ["exit 1", "failed", 1],
      ["exit 2", "progress", 2],
      ["exit 3", "inconclusive", 3],
      ["exit 127", "inconclusive", 127],
      ["kill -9 $$", "inconclusive", null]
    ]
    for (const [script, outcome, exitCode] of outcomes) {
      const verdict = await newScene(script).judge(null)
      assert.equal(verdict.outcome, outcome, script)
      // A shell that stands between may turn the signal into a code; neither is a verdict.
      if (exitCode !== null) assert.equal(verdict.exitCode, exitCode)
    }
  })

  test("G71 a judge that runs out of time is inconclusive, never failed, and its whole tree is ended", async () => {
    const { name, value } = mark()
    const scene = newScene("sleep 1000 & sleep 1000")
    const environment = (directory: string) => {
      const plain = plainDirectory(directory)
      return { ...plain, spawn: (argv: any, options: any) => plain.spawn(argv, { ...options, env: { [name]: value } }) }
    }
    const verdict = await scene.judge(null, { timeLimitMs: 300, environment: environment as typeof plainDirectory })
    assert.deepInclude(verdict, { outcome: "inconclusive", exitCode: null, reason: "The judge ran out of time." })
    assert.deepEqual(marked(value), [])
    assert.deepEqual(leftIn(scene), [])
  })

  test("G71 files of the judge that change while it runs void the verdict, whatever it said", async () => {
    for (const harm of ['echo x >> "$1/judge.sh"', 'ln -s a "$1/link"', 'rm "$1/judge.sh"']) {
      const verdict = await newScene(`${harm}; exit 0`).judge(null)
      assert.equal(verdict.outcome, "inconclusive", harm)
      assert.include(verdict.reason, "void")
      assert.notEqual(verdict.validator.before, verdict.validator.after)
    }
  })

  test("E16 the names of failing checks reach the reason, and no path of this machine does", async () => {
    const checks = `echo noise; echo '{"checks":[{"name":"adds up","passed":false},{"name":"reads /home/me/x","passed":false},{"name":"fine","passed":true}]}'`
    const verdict = await newScene(`${checks}; exit 1`).judge(null)
    assert.deepEqual(
      verdict.checks.map((c) => c.passed),
      [false, false, true]
    )
    assert.equal(verdict.reason, "Checks failed: adds up, reads …/x")
    const scene = newScene("exit 0")
    const step = { argv: ["sh", join(scene.place, "absent.sh")] as const, blame: "candidate" as const }
    const failed = await scene.judge(null, { prepare: [step] })
    assert.equal(failed.reason, "sh absent.sh fails with this patch.")
  })

  test("E16 a failing preparation is the machine's or the candidate's fault, as declared, and out of time is neither", async () => {
    const scene = newScene("exit 0")
    const prepared = (argv: readonly [string, ...string[]], blame: "machine" | "candidate", timeLimitMs = 20_000) =>
      scene.judge(null, { prepare: [{ argv, blame }], timeLimitMs })
    assert.deepInclude(await prepared(["sh", "-c", "exit 5"], "machine"), { outcome: "unavailable", exitCode: 5 })
    assert.deepInclude(await prepared(["sh", "-c", "exit 5"], "candidate"), { outcome: "failed", exitCode: 5 })
    assert.deepInclude(await prepared(["sleep", "1000"], "candidate", 200), { outcome: "inconclusive" })
    assert.deepInclude(await prepared(["no-such-program"], "candidate"), { outcome: "unavailable" })
    assert.deepInclude(await prepared(["true"], "candidate"), { outcome: "passed" })
    assert.deepEqual(leftIn(scene), [])
  })

  test("E16 a patch that does not apply, an empty one and one that is no patch are failed, not unavailable", async () => {
    const scene = newScene("exit 0")
    const fix = scene.patchOf(write("value.txt", "right\n"))
    const patches = [Buffer.from(String(fix).replace("-wrong", "-other")), Buffer.from(""), Buffer.from("no patch")]
    for (const patch of patches) {
      const verdict = await scene.judge(patch)
      assert.equal(verdict.outcome, "failed", String(patch))
      assert.include(verdict.reason, "does not apply")
      assert.notInclude(verdict.reason, scene.place)
    }
    assert.deepEqual(leftIn(scene), [])
  })

  test("E16 what keeps the oracle from judging is unavailable, and its reason says what to do", async () => {
    const scene = newScene("exit 0")
    const cases: readonly (readonly [more: object, remedy: RegExp])[] = [
      [{ repository: join(scene.place, "nowhere") }, /Check that the commit exists in the repository/],
      [{ base: "0".repeat(40) }, /Check that the commit exists in the repository/],
      [{ heldOut: join(scene.place, "nowhere") }, /Restore the directory that `heldOut` names/],
      [{ scratch: join(scene.repository, "value.txt", "x") }, /Pass a `scratch` that this process may write to/],
      [{ judge: ["no-such-program"] }, /Install it, or give its full path/]
    ]
    for (const [more, remedy] of cases) {
      const verdict = await scene.judge(null, more)
      assert.equal(verdict.outcome, "unavailable", JSON.stringify(more))
      assert.match(verdict.reason, remedy)
      assert.notInclude(verdict.reason, scene.place)
    }
  })

  test("C115 a candidate that carries the canary is failed without being judged: in text, in a binary file, in an ignored one, as a link", async () => {
    const canary = "canary-6f1a"
    const scene = newScene('touch "$1/../judged"; exit 0')
    const binary = Buffer.concat([Buffer.from([0, 1, 2, 0]), Buffer.from(canary), Buffer.alloc(2000)])
    const changes = [
      write("notes.md", `I found ${canary}\n`),
      write("image.bin", binary),
      (repository: string) => symlinkSync(canary, join(repository, "link")),
      (repository: string) => {
        mkdirSync(join(repository, "ignored"), { recursive: true })
        writeFileSync(join(repository, "ignored", "image.bin"), binary)
      }
    ]
    for (const change of changes) {
      const verdict = await scene.judge(scene.patchOf(change), { canary })
      assert.deepInclude(verdict, { outcome: "failed", exitCode: null })
      assert.include(verdict.reason, "canary")
      rmSync(join(scene.repository, "ignored"), { recursive: true, force: true })
    }
    assert.isFalse(existsSync(join(scene.place, "judged")))
    assert.equal((await scene.judge(scene.patchOf(write("notes.md", "clean\n")), { canary })).outcome, "passed")
    assert.isTrue(existsSync(join(scene.place, "judged")))
  })

  test("K3 C115 a git that is ended while a patch is tried gives no verdict: the patch is not blamed, and no canary is missed", async () => {
    const canary = "canary-6f1a"
    const scene = newScene("exit 0")
    const binary = Buffer.concat([Buffer.from([0, 1, 2, 0]), Buffer.from(canary), Buffer.alloc(2000)])
    const patch = scene.patchOf(write("image.bin", binary))
    for (const when of ['*" apply "*', '*" status "*', '*" checkout "*']) {
      const verdict = await withGitEnded(when, 0, () => scene.judge(patch, { canary }))
      assert.equal(verdict.outcome, "unavailable", when)
      assert.include(verdict.reason, "SIGKILL")
    }
    assert.equal((await scene.judge(patch, { canary })).outcome, "failed")
  })

  test("W16 judging only reads the origin, and an interrupted verdict leaves no checkout and no process", async () => {
    const scene = newScene("echo x > value.txt; touch .git/x; git commit -qam x; exit 0")
    const state = async () => [
      await directoryDigest(scene.repository),
      git(scene.repository, "for-each-ref"),
      readFileSync(join(scene.repository, ".git", "config"), "utf8")
    ]
    const before = await state()
    assert.equal((await scene.judge(scene.patchOf(write("a", "a")))).outcome, "passed")
    git(scene.repository, "gc", "-q", "--prune=now")
    const settled = await state()
    assert.equal((await scene.judge(null)).outcome, "passed")
    assert.deepEqual(await state(), settled)
    assert.deepEqual(settled.slice(1), before.slice(1))

    const flag = join(scene.place, "started")
    const spec = { ...scene.spec, judge: ["sh", "-c", `touch ${flag}; sleep 1000`] as [string, ...string[]] }
    const fiber = Effect.runFork(judge(spec, { patch: null, candidate: null }))
    await eventually("the judge runs", () => existsSync(flag))
    await Effect.runPromise(Fiber.interrupt(fiber))
    assert.deepEqual(leftIn(scene), [])
  })
})

describe("proving the oracle", () => {
  test("E16 an oracle is proven when it is red on the base and each wrong route and green on two fixes", async () => {
    const scene = newScene()
    const known = {
      fixes: [
        { name: "a", patch: scene.patchOf(write("value.txt", "right\n")) },
        { name: "b", patch: scene.patchOf(write("value.txt", "left\nright\n")) }
      ],
      wrong: [{ name: "hides", patch: scene.patchOf(write("value.txt", "hidden\n")) }]
    }
    const seen: string[] = []
    const proof = await Effect.runPromise(
      prove(scene.spec, known, { onVerdict: (name, verdict) => seen.push(`${name} ${verdict.outcome}`) })
    )
    assert.deepEqual([proof.proven, proof.broken], [true, []])
    assert.deepEqual(seen.toSorted(), ["a passed", "b passed", "base failed", "hides failed"])
  })

  test("E16 each expectation that does not hold is named, and one is enough to leave the oracle unproven", async () => {
    const scene = newScene()
    const right = scene.patchOf(write("value.txt", "right\n"))
    const hidden = scene.patchOf(write("value.txt", "hidden\n"))
    const broken = async (fixes: readonly Uint8Array[], wrong: readonly Uint8Array[], spec = scene.spec) => {
      const proof = await Effect.runPromise(
        prove(spec, {
          fixes: fixes.map((patch, i) => ({ name: `f${i}`, patch })),
          wrong: wrong.map((patch, i) => ({ name: `w${i}`, patch }))
        })
      )
      assert.equal(proof.proven, proof.broken.length === 0)
      return proof.broken
    }
    assert.deepEqual(await broken([right], []), ["fewer than two independent fixes were given"])
    assert.deepEqual(await broken([right, hidden], [right]), ["the fix f1 is failed", "the wrong route w0 is passed"])
    const yes: [string, ...string[]] = ["true"]
    assert.deepEqual(await broken([right, right], [hidden], { ...scene.spec, judge: yes }), [
      "the base is passed, not red",
      "the wrong route w0 is passed"
    ])
    // What could not be judged proves nothing, in either direction.
    const unsure: [string, ...string[]] = ["sh", "-c", "exit 9"]
    assert.deepEqual(await broken([right, right], [hidden], { ...scene.spec, judge: unsure }), [
      "the base is inconclusive, not red",
      "the fix f0 is inconclusive",
      "the fix f1 is inconclusive",
      "the wrong route w0 is inconclusive"
    ])
  })
})
