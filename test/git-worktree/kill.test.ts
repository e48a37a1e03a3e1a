/** A process killed at every step: what was acknowledged is there, nothing half-made stays. Rules: GW3, GW2, L8, W12; C31. */
import { spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { crashPoints } from "../../src/base/CrashPointList.ts"
import { container } from "../container.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { git, picture, providerOn, repository, run, scratch } from "./ground.ts"

const life = await oneFile(join(import.meta.dirname, "programs/life.ts"))

/** Runs it, killed at a point or to its end, and answers what it told. */
const live = (args: readonly string[], crashAt?: string, within: readonly string[] = []) => {
  const env = { ...oneFileEnvironment(), ...(crashAt === undefined ? {} : { COPPICE_CRASH_AT: crashAt }) }
  const [program, ...argv] = [...within, process.execPath, life, ...args] as [string]
  const { signal, status, stdout, stderr } = spawnSync(program, argv, { encoding: "utf8", env })
  const told: Readonly<Record<string, string>> = Object.assign(
    {},
    ...stdout
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line))
  )
  return { signal, status, told, stderr }
}

const files = (directory: string): readonly string[] => (fs.existsSync(directory) ? fs.readdirSync(directory) : [])

/** Of a keep the first passage is the import, the second the checkpoint. */
const points = Object.keys(crashPoints)
  .filter((name) => name.startsWith("gitWorktree."))
  .flatMap((name) => (/keep\.(?:written|flushed)$/.test(name) ? [name, `${name}:2`] : [name]))

it.each(points)(
  "GW3 GW2 L8 C31 killed at %s: the next opening takes back what was half-made, the user's repository is as it was, and the work is done",
  async (point) => {
    const source = repository({ a: "a\n" }, { untracked: "u\n" })
    const before = picture(source)
    const store = join(scratch(), "store")
    const { signal, told } = live([store, source], point)
    expect(signal).toBe("SIGKILL")
    const provider = await providerOn(store)
    const place = join(store, "git-worktree")
    // Workspaces that were told as open are there to be recovered; of any other nothing is left.
    const left = await run(provider.left)
    for (const { id } of left) await run(provider.recover(id, { operationId: `op-${id}` }))
    for (const name of ["worktrees", "building", "merging", "work"])
      expect([name, files(join(place, name))]).toEqual([name, []])
    expect(files(join(place, "projects")).filter((name) => name.startsWith("."))).toEqual([])
    expect(picture(source)).toEqual(before)
    expect(git(source, "fsck", "--strict")).toBe("")
    if (told["outcome"] === "committed") {
      expect(Buffer.from(await run(provider.readAt(told["commit"]!, "made"))).toString()).toBe("inside\n")
    }
    expect(await run(provider.verify())).toMatchObject({ ok: true })
    const again = live([store, source, ...(told["branch"] === undefined ? [] : [told["branch"]])])
    expect([again.status, again.stderr, again.told["ended"]]).toEqual([0, "", true])
    expect(picture(source)).toEqual(before)
  },
  120_000
)

it.each(["gitWorktree.make.added", "gitWorktree.keep.written:2", "kit.kept:2", "workspace.closed"])(
  "GW3 L8 L12 W12 killed at %s in another pid namespace: the next opening takes back what was half-made",
  async (point) => {
    const source = repository({ a: "a\n" })
    const before = picture(source)
    const store = join(scratch(), "store")
    expect(live([store, source], point, container).status).toBe(128 + 9)
    const provider = await providerOn(store)
    for (const { id } of await run(provider.left)) await run(provider.discardLeft(id, "test"))
    for (const name of ["worktrees", "building", "work"])
      expect([name, files(join(store, "git-worktree", name))]).toEqual([name, []])
    expect(picture(source)).toEqual(before)
    expect(await run(provider.verify())).toMatchObject({ ok: true })
    const commits = git(
      join(store, "git-worktree/projects", files(join(store, "git-worktree/projects"))[0]!, "states.git"),
      "for-each-ref"
    )
    // The import, and a checkpoint only where it was committed.
    expect(commits.match(/refs\/coppice\/commits\//g)?.length).toBe(point === "workspace.closed" ? 2 : 1)
  },
  60_000
)
