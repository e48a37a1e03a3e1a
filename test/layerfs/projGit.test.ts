/** Git at work inside a workspace: many committers at once, one of them killed. Rules: C6; W11, W19, L10. */
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { seededRandom } from "../seededRandom.ts"
import { forkOf, ground, run, shell, treeAt, using } from "./projFixture.ts"

const committers = 8

/**
 * Commits once after the other, each to a file of its own, until it has made ten or is killed. Git lets one at a time have the index:
 * the others try again, and a lock whose owner is dead is left for whoever looks after it, as git itself leaves it.
 */
const committer = `
n=$1
i=0
while [ $i -lt 10 ]; do
  echo "$n $i" >> "by-$n.txt"
  git add "by-$n.txt" 2>/dev/null && git commit -q -m "$n $i" -- "by-$n.txt" 2>/dev/null && i=$((i + 1))
  [ -e stop ] && exit 0
done
`

it("C6 L10 W19 eight processes make git commits in one workspace and one is killed at random: the store verifies, git fsck is clean, and no file is padded with zeros", async () => {
  const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 2 ** 31)
  console.log(`C6: COPPICE_SEED=${seed}`)
  const random = seededRandom(seed)
  const { provider, commit } = await ground({ "committer.sh": committer, "a.txt": "a\n" })
  const branch = await forkOf(provider, commit)
  await using(provider, branch, {}, async (workspace) => {
    const identity =
      "git config user.name t && git config user.email t@example.invalid && git config commit.gpgsign false"
    await shell(workspace, `git init -q -b main && ${identity} && git add -A && git commit -q -m base`)
    const victim = random(committers)
    await run(
      Effect.scoped(
        Effect.gen(function* () {
          const running = yield* Effect.forEach(Array.from({ length: committers }).keys(), (n) =>
            workspace.start(["sh", "committer.sh", String(n)])
          )
          // Killed after some commits of all together, counted in git's own log: no waiting by the clock.
          const after = 2 + random(20)
          const commits = workspace.exec("git rev-list --count HEAD")
          while (Number((yield* commits).stdout.text) < after) yield* Effect.yieldNow
          yield* running[victim]!.kill({ graceMs: 0 })
          // What the killed one held locked stays locked for ever: the others are told to end.
          while (Number((yield* commits).stdout.text) < after + 5) {
            const lock = yield* workspace.exec("test -e .git/index.lock")
            if (lock.exitCode === 0) break
          }
          yield* workspace.exec("touch stop")
          yield* Effect.forEach(running, (one) => one.wait, { discard: true })
        })
      )
    )
    await shell(workspace, "rm -f stop .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock")
    expect((await run(workspace.checkpoint())).outcome).toBe("committed")
    const fsck = await run(workspace.exec("git fsck --full --strict --no-dangling"))
    expect([fsck.exitCode, fsck.stdout.text], fsck.stderr.text).toEqual([0, ""])
  })
  const { head } = await run(provider.branch(branch))
  const tree = await treeAt(provider, head)
  // A file that was caught between its length and its bytes ends in many zeros; the checksum of a compressed object may end in one.
  expect(
    Object.keys(tree).filter((path) => tree[path]!.endsWith("\0".repeat(16)) && !path.startsWith(".git/index"))
  ).toEqual([])
  expect(Object.keys(tree).filter((path) => path.startsWith(".git/refs/heads/"))).toEqual([
    ".git/refs/heads/",
    ".git/refs/heads/main"
  ])
  const report = await run(provider.verify())
  expect(report.damaged).toEqual([])
  // The same again from the store: a fork that was never open before is as sound.
  await using(provider, await forkOf(provider, head), {}, async (workspace) => {
    expect(await shell(workspace, "git fsck --full --strict --no-dangling && git status --porcelain")).not.toContain(
      "error"
    )
  })
}, 300_000)
