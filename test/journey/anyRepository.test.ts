/** The journey on repositories in every state that somebody may have left them in, with commands that misbehave. */
import { execFileSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, describe, expect, it } from "vitest"
import { repairRepository, type RepairRepositoryOptions } from "../../src/index.ts"
import { standard } from "../../src/standard.ts"

const cleanups: string[] = []
afterEach(() => {
  for (const path of cleanups.splice(0)) rmSync(path, { recursive: true, force: true })
})

const git = (directory: string, ...args: string[]): string =>
  execFileSync(
    "git",
    [
      ..."-c user.name=t -c user.email=t@example.invalid -c protocol.file.allow=always -c maintenance.auto=false".split(
        " "
      ),
      ...args
    ],
    { cwd: directory, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }
  )

const put = (directory: string, files: Record<string, string>): void => {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(directory, name, ".."), { recursive: true })
    writeFileSync(join(directory, name), text)
  }
}

/** A repository whose value is wrong, and what judges it. */
const ground = (name = "repo") => {
  const root = mkdtempSync(join(tmpdir(), "coppice-any-"))
  cleanups.push(root)
  const repository = join(root, name)
  mkdirSync(repository)
  git(repository, "init", "-q", "-b", "main")
  put(repository, { "value.txt": "wrong\n", "check.sh": "grep -qx right value.txt\n", ".gitignore": "ignored/\n" })
  git(repository, "add", "-A")
  git(repository, "commit", "-qm", "base")
  const record = join(root, "record")
  const effect = (options: Partial<RepairRepositoryOptions>) =>
    repairRepository({
      repository,
      record,
      attempts: ["echo right > value.txt"],
      verify: "sh check.sh",
      ...options
    }).pipe(Effect.provide(standard({ store: join(root, "store") })))
  return {
    root,
    repository,
    record,
    run: (options: Partial<RepairRepositoryOptions> = {}) => Effect.runPromise(effect(options)),
    refused: (options: Partial<RepairRepositoryOptions> = {}) => Effect.runPromise(Effect.flip(effect(options)))
  }
}

const outcomes = (report: { readonly attempts: readonly { readonly id: string; readonly outcome: string }[] }) =>
  report.attempts.map(({ id, outcome }) => [id, outcome])

describe("repairRepository", () => {
  it("J2 W13 W16 a dirty repository with a submodule: the patch applies to the person's own tree, which was only read", async () => {
    const place = ground('a repository, "quoted"\nwith a line')
    const inner = join(place.root, "inner")
    mkdirSync(inner)
    git(inner, "init", "-q")
    put(inner, { "s.txt": "s\n" })
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "s")
    git(place.repository, "submodule", "add", "-q", inner, "sub")
    git(place.repository, "commit", "-qm", "sub")
    put(place.repository, {
      "value.txt": "still wrong\n",
      "check.sh": "grep -qx right value.txt && grep -qx more untracked.txt && grep -qx dirty sub/s.txt\n",
      "untracked.txt": "new\n",
      "ignored/.env": "KEY=1\n",
      "sub/s.txt": "dirty\n"
    })
    const status = git(place.repository, "status", "--porcelain")
    const report = await place.run({
      attempts: ["echo right > value.txt; echo more > untracked.txt; echo x >> sub/s2.txt", "echo right > value.txt"]
    })
    expect(outcomes(report)).toEqual([
      ["a1", "accepted"],
      ["a2", "refused"]
    ])
    expect(report).toMatchObject({ replay: "passed", base: { outcome: "failed" } })
    expect(report.source).toMatchObject({ branch: "main", changes: 4, inner: ["sub"] })
    expect(report.source.notes).toEqual(["Likely secrets, in every attempt's own copy: ignored/.env."])
    expect(report.attempts[0]).toMatchObject({ changedFiles: 2, leftOut: 1 })
    expect(git(place.repository, "status", "--porcelain")).toBe(status)
    git(place.repository, "apply", join(place.record, "fix.patch"))
    expect(readFileSync(join(place.repository, "untracked.txt"), "utf8")).toBe("more\n")
    // In a fresh clone the uncommitted work comes first.
    git(place.root, "clone", "-q", place.repository, "clone")
    git(join(place.root, "clone"), "apply", join(place.record, report.source.patches[0]!.file))
    git(join(place.root, "clone"), "apply", join(place.record, "fix.patch"))
  }, 240_000)

  it("J2 W16 what the preparation makes is warm for every attempt and no part of a patch, even where both change one file", async () => {
    const place = ground()
    put(place.repository, { "lock.txt": "1\n2\n3\n4\n5\n6\n7\n8\n9\n" })
    git(place.repository, "add", "-A")
    git(place.repository, "commit", "-qm", "lock")
    const report = await place.run({
      prepare: "echo built > built.txt; sed -i s/^1$/one/ lock.txt",
      attempts: ["test -e built.txt && echo right > value.txt && sed -i s/^9$/nine/ lock.txt"],
      verify: "sh check.sh && test -e built.txt && grep -qx one lock.txt && grep -qx nine lock.txt"
    })
    expect(outcomes(report)).toEqual([["a1", "accepted"]])
    expect(report).toMatchObject({ prepared: { changedFiles: 2 }, replay: "passed" })
    expect(existsSync(join(place.repository, "built.txt"))).toBe(false)
    expect(readFileSync(join(place.record, "fix.patch"), "utf8")).not.toContain("built.txt")
    // The same run again changes nothing; another preparation is another run.
    const again = await place.run({
      prepare: "echo built > built.txt; sed -i s/^1$/one/ lock.txt",
      attempts: ["test -e built.txt && echo right > value.txt && sed -i s/^9$/nine/ lock.txt"],
      verify: "sh check.sh && test -e built.txt && grep -qx one lock.txt && grep -qx nine lock.txt"
    })
    expect(again.attempts).toEqual(report.attempts)
  }, 240_000)

  it("E16 W21 held-out files decide over tampered ones, and a link that an attempt put in their way is not followed", async () => {
    const place = ground()
    const heldOut = join(place.root, "held-out")
    put(heldOut, { "check.sh": "grep -qx right value.txt\n", "deep/more.sh": "true\n" })
    mkdirSync(join(place.root, "outside"))
    const report = await place.run({
      heldOut,
      attempts: [
        "echo true > check.sh",
        `rm -rf deep; ln -s ${join(place.root, "outside")} deep; ln -sf ${join(place.root, "outside", "x")} check.sh`
      ]
    })
    expect(outcomes(report)).toEqual([
      ["a1", "refused"],
      ["a2", "refused"]
    ])
    expect(readdirSync(join(place.root, "outside"))).toEqual([])
  }, 240_000)

  it("W4 C90 S23 attempts that flood, hold the pipe, fork without end or leave odd files are bounded, and the next one is judged as ever", async () => {
    const place = ground()
    const report = await place.run({
      workers: 1,
      timeLimit: "60 seconds",
      attempts: [
        { id: "flood", command: "head -c 1073741824 /dev/zero" },
        { id: "pipe", command: "sleep 600 & exit 0" },
        { id: "hang", command: "sleep 600", timeLimit: "1 second" },
        {
          id: "forks",
          command: "for i in $(seq 2000); do sleep 600 & done; echo right > value.txt; wait",
          timeLimit: "4 seconds"
        },
        {
          id: "odd",
          command:
            "mkfifo pipe; mkdir closed; echo x > closed/in; chmod 000 closed; echo y > shut; chmod 000 shut; exit 1"
        },
        { id: "right", command: "echo right > value.txt" }
      ]
    })
    const by = Object.fromEntries(report.attempts.map((attempt) => [attempt.id, attempt]))
    expect(by["flood"]).toMatchObject({ outcome: "failed" })
    expect(by["pipe"]).toMatchObject({ outcome: "failed" })
    expect(by["hang"]).toMatchObject({ outcome: "failed" })
    // Ended by its limit: its host failed, and its files, which were right, are no acceptance by accident.
    expect(["failed", "accepted"]).toContain(by["forks"]?.outcome)
    expect(by["odd"]).toMatchObject({ outcome: "failed" })
    expect(["accepted", "passedNotChosen"]).toContain(by["right"]?.outcome)
    expect(report.settlements).toEqual({ accepted: 1, total: 6 })
    const left = execFileSync("sh", ["-c", "ps -eo args | grep -c '[s]leep 600' || true"], { encoding: "utf8" })
    expect(left.trim()).toBe("0")
    expect(readdirSync(join(place.record, "scratch")).filter((name) => name !== "clean")).toEqual([])
  }, 300_000)

  it("G71 E16 a judge that hangs or is not there ends the run before any attempt is refused for it; one that always fails refuses all", async () => {
    const place = ground()
    const hangs = await place.refused({ verify: "sleep 600", verifyTimeLimit: "1 second" })
    expect(hangs).toMatchObject({ code: "ORACLE_NOT_PROVEN", broken: [expect.stringContaining("inconclusive")] })
    const other = ground()
    expect(await other.refused({ verify: "no-such-command-here" })).toMatchObject({
      code: "ORACLE_NOT_PROVEN",
      broken: [expect.stringContaining("unavailable")]
    })
    const never = await ground().run({ verify: "false" })
    expect(never).toMatchObject({ accepted: null, base: { outcome: "failed" }, replay: null })
    expect(outcomes(never)).toEqual([["a1", "refused"]])
  }, 240_000)

  it("W9 a preparation that fails is typed, logged, and tried again; nothing else was started", async () => {
    const place = ground()
    const error = await place.refused({ prepare: "echo out; echo err >&2; exit 7" })
    expect(error).toMatchObject({ code: "PREPARE_FAILED", exitCode: 7, timedOut: false })
    const log = readFileSync(join(place.record, "prepare.log"), "utf8")
    expect(log).toContain("out\nerr\n")
    const late = await place.refused({ prepare: "sleep 600", prepareTimeLimit: "1 second" })
    expect(late).toMatchObject({ code: "PREPARE_FAILED", timedOut: true })
    expect(outcomes(await place.run({ prepare: "true" }))).toEqual([["a1", "accepted"]])
  }, 240_000)

  it("W13 C11 a source that changes while it is read is read again, and refused when it never holds still", async () => {
    const place = ground()
    let writes = 0
    const writeOnImport = (most: number) => (event: { readonly stage: string; readonly text: string }) => {
      if (event.stage !== "import" || !event.text.startsWith("reading the source") || writes >= most) return
      writes += 1
      put(place.repository, { "draft.txt": `draft ${writes}\n` })
    }
    const verify = "sh check.sh && grep -qx 'draft 4' draft.txt"
    const error = await place.refused({ verify, onProgress: writeOnImport(3) })
    expect([writes, error]).toEqual([3, expect.objectContaining({ code: "SOURCE_UNUSABLE", reason: "changing" })])
    const report = await place.run({
      verify: "sh check.sh && grep -qx 'draft 4' draft.txt",
      onProgress: writeOnImport(4)
    })
    expect(outcomes(report)).toEqual([["a1", "accepted"]])
    expect([writes, report.source.examples]).toEqual([4, ["draft.txt"]])
  }, 240_000)

  it("G2 G62 one store serves many records and repositories; a run's name is refused for anything else, before anything is told as its own", async () => {
    const first = ground()
    const second = ground()
    const on = (place: typeof first, options: Partial<RepairRepositoryOptions>) =>
      repairRepository({
        repository: place.repository,
        record: place.record,
        attempts: ["echo right > value.txt", "exit 1"],
        verify: "sh check.sh",
        replay: false,
        ...options
      }).pipe(Effect.provide(standard({ store: join(first.root, "one-store") })))
    for (const place of [first, second]) {
      const report = await Effect.runPromise(on(place, {}))
      expect(outcomes(report)).toEqual([
        ["a1", "accepted"],
        ["a2", "failed"]
      ])
      expect(report.settlements).toEqual({ accepted: 1, total: 2 })
      expect(readFileSync(join(place.record, "verdicts", "base.log"), "utf8")).toContain("check.sh")
    }
    const named = { run: "named", record: join(first.root, "named") }
    await Effect.runPromise(on(first, named))
    const other = await Effect.runPromise(Effect.flip(on(second, { ...named, record: join(second.root, "named") })))
    expect(other).toMatchObject({ code: "REPAIR_OPTIONS", option: "run" })
    // The same run with a new record goes on from the store: what only the old record held is unknown, and nothing else changes.
    const again = await Effect.runPromise(on(first, { ...named, record: join(first.root, "named-again") }))
    expect(again.settlements).toEqual({ accepted: 1, total: 2 })
    expect(again.accepted).toMatchObject({ attempt: "a1", verification: null })
    expect(again.attempts.map(({ outcome, reason }) => [outcome, /REUSE/.test(reason)])).toEqual([
      ["accepted", false],
      ["failed", false]
    ])
  }, 240_000)

  it("C90 S51 W4 what a command that ends at once has printed is in the record", async () => {
    const place = ground()
    const report = await place.run({
      attempts: Array.from({ length: 4 }, (_, i) => `echo out ${i}; echo err ${i} >&2; exit 4`),
      replay: false
    })
    for (const [i, { turn }] of report.attempts.entries()) {
      expect(readFileSync(join(place.record, "results", `${turn}.stdout`), "utf8")).toBe(`out ${i}\n`)
      expect(readFileSync(join(place.record, "results", `${turn}.stderr`), "utf8")).toBe(`err ${i}\n`)
    }
  }, 240_000)

  it("W19 W12 a preparation that leaves a daemon is captured at rest, and the daemon is gone", async () => {
    const place = ground()
    const report = await place.run({
      prepare: "(setsid sleep 613 > /dev/null 2>&1 &); echo ready > ignored-not.txt",
      attempts: ["test -e ignored-not.txt && echo right > value.txt"],
      replay: false
    })
    expect(outcomes(report)).toEqual([["a1", "accepted"]])
    const left = execFileSync("sh", ["-c", "ps -eo args | grep -c '[s]leep 613' || true"], { encoding: "utf8" })
    // Those of the checkouts are ended with them as well.
    expect(left.trim()).toBe("0")
  }, 240_000)

  it("W12 G2 a directory with files of its own is no record, nor is one of a store, nor a record made in another store; nothing in it is touched", async () => {
    const place = ground()
    const option = async (options: Partial<RepairRepositoryOptions>) =>
      (await place.refused(options)) as { option?: string; message: string }
    for (const [name, path] of [
      ["own-scratch", "scratch/mine"],
      ["own-patch", "fix.patch"],
      ["own-report", "run.json"],
      ["own-about", "about.json"],
      ["own-store", "authority.db"]
    ] as const) {
      const record = join(place.root, name)
      put(record, { [path]: "mine\n" })
      expect(await option({ record }), name).toMatchObject({ option: "record" })
      expect(readFileSync(join(record, path), "utf8")).toBe("mine\n")
      expect(readdirSync(record)).toEqual([path.split("/")[0]])
    }
    mkdirSync(join(place.root, "own-directory", "about.json"), { recursive: true })
    expect(await option({ record: join(place.root, "own-directory") })).toMatchObject({ option: "record" })
    writeFileSync(join(place.root, "file"), "mine")
    expect(await option({ record: join(place.root, "file") })).toMatchObject({ option: "record" })
    // Files beside those of a record are nobody's business.
    put(place.record, { "notes.txt": "mine\n" })
    expect((await place.run()).accepted).not.toBeNull()
    const before = readFileSync(join(place.record, "run.json"), "utf8")
    const elsewhere = repairRepository({
      repository: place.repository,
      record: place.record,
      attempts: ["echo right > value.txt"],
      verify: "sh check.sh"
    }).pipe(Effect.provide(standard({ store: join(place.root, "another-store") })))
    expect(await Effect.runPromise(Effect.flip(elsewhere))).toMatchObject({
      option: "record",
      message: "The record belongs to a run in another store."
    })
    expect(readFileSync(join(place.record, "run.json"), "utf8")).toBe(before)
    // A report that is none any more is written anew.
    writeFileSync(join(place.record, "run.json"), "mine")
    expect((await place.run()).accepted).not.toBeNull()
  }, 240_000)

  it("P3 wrong options and sources that are none are refused with a remedy, and nothing is made", async () => {
    const place = ground()
    const option = async (options: Partial<RepairRepositoryOptions>) =>
      ((await place.refused(options)) as { option?: string }).option
    expect(await option({ verify: " " })).toBe("verify")
    expect(await option({ verify: undefined as never })).toBe("verify")
    expect(await option({ attempts: [] })).toBe("attempts")
    expect(await option({ attempts: [""] })).toBe("attempts")
    expect(await option({ attempts: [{ command: [] as never }] })).toBe("attempts")
    expect(await option({ prepare: "" })).toBe("prepare")
    expect(await option({ record: "" })).toBe("record")
    expect(await option({ prepair: "npm ci" } as never)).toBe("prepair")
    expect(await option({ hide: "/var/tmp" as never })).toBe("hide")
    expect(await option({ hide: ["held"] })).toBe("hide")
    expect(await option({ show: ["/tmp/a", "b"] })).toBe("show")
    expect(await option({ heldOut: "" })).toBe("oracle.heldOut")
    expect(await option({ passEnv: "PATH" as never })).toBe("passEnv")
    expect(await option({ verifyTimeLimit: Number.NaN as never })).toBe("oracle.timeLimit")
    expect(await option({ budget: { usd: Number.NaN, slots: 1 } })).toBe("budget")
    expect(await option({ attempts: [{ command: "true", title: 7 as never }] })).toBe("attempts")
    expect(await option({ heldOut: join(place.root, "nowhere") })).toBe("oracle.heldOut")
    mkdirSync(join(place.root, "empty"))
    expect(await option({ heldOut: join(place.root, "empty") })).toBe("oracle.heldOut")
    const bare = join(place.root, "bare")
    git(place.root, "init", "-q", "--bare", "bare")
    expect(await place.refused({ repository: bare })).toMatchObject({ code: "SOURCE_UNUSABLE", reason: "bare" })
    expect(await place.refused({ repository: join(place.root, "none") })).toMatchObject({ reason: "notFound" })
    expect(existsSync(place.record)).toBe(false)
  }, 240_000)
})
