/** What the evaluator tests share: a tiny repository whose value is wrong, and an oracle whose judge is a line of shell. */
import { execFileSync } from "node:child_process"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterAll } from "vitest"
import { judge, type OracleSpec, type Verdict } from "../../src/evaluator/index.ts"
import { plainDirectory } from "../../src/host/index.ts"

const made: string[] = []
afterAll(() => {
  for (const place of made.splice(0)) rmSync(place, { recursive: true, force: true })
})

export const newPlace = (): string => {
  const place = mkdtempSync(join(tmpdir(), "coppice-evaluator-"))
  made.push(place)
  return place
}

const env = { PATH: process.env["PATH"], GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" }
export const git = (cwd: string, ...argv: string[]): string =>
  execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@example.invalid", ...argv], {
    cwd,
    env,
    encoding: "utf8"
  })

export interface Scene {
  readonly place: string
  readonly repository: string
  readonly base: string
  readonly heldOut: string
  readonly scratch: string
  readonly spec: OracleSpec
  /** The patch that a change of the repository's files comes to; the repository is as before afterwards. */
  readonly patchOf: (change: (repository: string) => void) => Uint8Array
  readonly judge: (patch: Uint8Array | null, more?: Partial<OracleSpec>) => Promise<Verdict>
}

/** `judge.sh` is the body of the judge; it runs in the checkout, with the held-out directory as its first argument. */
export const newScene = (
  judgeScript = 'grep -qx right value.txt || exit 1; test "$(cat other.txt)" = other'
): Scene => {
  const place = newPlace()
  const [repository, heldOut, scratch] = [join(place, "repository"), join(place, "held-out"), join(place, "scratch")]
  mkdirSync(repository)
  mkdirSync(heldOut)
  writeFileSync(join(repository, "value.txt"), "wrong\n")
  writeFileSync(join(repository, "other.txt"), "other\n")
  writeFileSync(join(repository, ".gitignore"), "ignored/\n")
  git(repository, "init", "-q", "-b", "main")
  git(repository, "add", "-A")
  git(repository, "commit", "-qm", "base")
  const base = git(repository, "rev-parse", "HEAD").trim()
  writeFileSync(join(heldOut, "judge.sh"), judgeScript)
  const spec: OracleSpec = {
    name: "tiny-oracle",
    repository,
    base,
    prepare: [],
    judge: ["sh", join(heldOut, "judge.sh"), heldOut],
    heldOut,
    timeLimitMs: 20_000,
    scratch,
    environment: plainDirectory
  }
  return {
    place,
    repository,
    base,
    heldOut,
    scratch,
    spec,
    patchOf: (change) => {
      change(repository)
      git(repository, "add", "-A", "--force")
      const patch = git(repository, "diff", "--cached", "--binary", "--full-index")
      git(repository, "reset", "-q", "--hard")
      return Buffer.from(patch)
    },
    judge: (patch, more = {}) => Effect.runPromise(judge({ ...spec, ...more }, { patch, candidate: null }))
  }
}

export const write =
  (name: string, text: string | Uint8Array) =>
  (repository: string): void =>
    writeFileSync(join(repository, name), text)

/** What clean checkouts were left. */
export const leftIn = (scene: Scene): readonly string[] => readdirSync(scene.scratch).filter((name) => name !== "clean")
