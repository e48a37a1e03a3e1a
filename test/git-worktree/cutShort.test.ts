/** A git that is ended from outside in the middle of a command (an out-of-memory killer, for example). Rules: K3, GW1, GW2, GW4, W3, L10. */
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, it } from "vitest"
import { keptInside } from "../../providers/git-worktree/index.ts"
import { withGitEnded } from "../endedGit.ts"
import { failure, forkOf, git, imported, providerOn, repository, run, scratch, shell, using } from "./ground.ts"

it("K3 GW1 an import whose git is ended says so: the source is not told to be no repository, empty, or whole", async () => {
  const source = repository({ a: "a\n" })
  git(source, "config", "remote.origin.promisor", "true")
  const provider = await providerOn(join(scratch(), "store"))
  for (const when of ['*" --show-toplevel "*', '*" --verify "*', '*" --get-regexp "*']) {
    for (const how of ["kill -9 $$", "exit 137"]) {
      const failed = await withGitEnded(when, 0, () => failure(provider.importDirectory({ source })), how)
      expect(failed, when).toMatchObject({
        _tag: "Unavailable",
        message: expect.stringMatching(/failed: it.*(?:SIGKILL|137)/)
      })
    }
  }
  expect(await failure(provider.importDirectory({ source }))).toMatchObject({
    _tag: "ImportRefused",
    reason: "unsupportedRepository"
  })
}, 120_000)

it("K3 GW2 L10 reading a state whose git is ended is no damage: nobody is told to restore a backup", async () => {
  const { provider, receipt } = await imported(repository({ a: "a\n", large: "l".repeat(3 << 20) }))
  const branch = await forkOf(provider, receipt.layer)
  for (const [when, bytes] of [
    ['*" ls-tree "*', 10],
    ['*" cat-file --batch --buffer "*', 10],
    ['*" cat-file --batch --buffer "*', 2 << 20]
  ] as const) {
    expect(await withGitEnded(when, bytes, () => failure(provider.readAt(branch, "large"))), when).toMatchObject({
      _tag: "Unavailable"
    })
    const opened = () => failure(Effect.scoped(provider.open(branch)))
    expect(await withGitEnded(when, bytes, opened), when).toMatchObject({ _tag: "Unavailable" })
  }
  expect((await run(provider.readAt(branch, "large"))).length).toBe(3 << 20)
}, 120_000)

it("K3 GW4 what was committed inside is not dropped where git was ended while it looked for it", async () => {
  for (const when of ['*" show-index "*', '*" pack-objects "*', '*" pack-objects "*|*" cat-file --batch "*']) {
    const { provider, receipt, store } = await imported(repository({ a: "a\n" }))
    const branch = await forkOf(provider, receipt.layer)
    await using(provider, branch, (workspace) =>
      shell(workspace, "echo b > b && git add b && git -c user.name=a -c user.email=a@b commit -qm inside && git gc -q")
    )
    const [left] = await run(provider.left)
    await withGitEnded(when, 0, () => run(provider.discardLeft(left!.id, "not wanted"))).catch(() => undefined)
    for (const { id } of await run(provider.left)) await run(provider.discardLeft(id, "not wanted"))
    const kept = await run(keptInside({ store }))
    expect(kept, when).toContainEqual(expect.objectContaining({ subject: "inside" }))
    expect(git(kept[0]!.repository, "show", `${kept[0]!.id}:b`)).toBe("b\n")
  }
}, 120_000)
