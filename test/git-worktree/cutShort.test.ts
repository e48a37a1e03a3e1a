/** A git that is ended from outside in the middle of a command (an out-of-memory killer, for example). Rules: K3, GW1, GW2, GW3, GW4, W3, W9, L10. */
import { existsSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { expect, it, vi } from "vitest"
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

it("W9 GW3 a call whose git does not go on ends when it is given up, whichever command that is, and nothing is left of it", async () => {
  const source = repository({ a: "a\n" }, { beside: "b\n" })
  const { provider, receipt, store } = await imported(source)
  const branch = await forkOf(provider, receipt.layer)
  await run(provider.applyTo(branch, [{ op: "write", path: "a", bytes: "changed\n" }]))
  const before = await run(provider.stats)
  const opened = Effect.scoped(Effect.asVoid(provider.open(branch)))
  const calls: readonly (readonly [string, Effect.Effect<unknown, unknown>, readonly string[]])[] = [
    [
      "import",
      provider.importDirectory({ source }),
      ["rev-parse", "config", "init", "for-each-ref", "update-ref", "pack-objects", "cat-file", "ls-tree"]
    ],
    ["open", opened, ["ls-tree", "cat-file", "worktree"]],
    ["read", provider.readAt(branch, "a"), ["ls-tree", "cat-file"]],
    ["grep", provider.grepAt(branch, /a/), ["cat-file"]],
    [
      "patch",
      provider.exportPatch({ from: receipt.layer, to: branch }),
      ["cat-file", "init", "ls-files", "check-ignore", "fast-import", "diff-tree"]
    ]
  ]
  const reached = join(scratch(), "reached")
  for (const [name, call, commands] of calls) {
    for (const command of commands) {
      await withGitEnded(
        `*" ${command} "*`,
        0,
        async () => {
          const fiber = Effect.runFork(call)
          await vi.waitUntil(() => existsSync(reached), { interval: 2, timeout: 30_000 })
          const given = Fiber.interrupt(fiber).pipe(Effect.as("ended"), Effect.timeout("30 seconds"))
          expect(await run(given), `${name} ${command}`).toBe("ended")
        },
        `touch "$0.done" '${reached}'; exec sleep 1000`
      )
      rmSync(reached)
    }
  }
  expect({ ...(await run(provider.stats)), storedBytes: 0, indexBytes: 0 }).toEqual({
    ...before,
    storedBytes: 0,
    indexBytes: 0
  })
  expect(await run(provider.left)).toEqual([])
  for (const place of ["building", "worktrees", "work"])
    expect(readdirSync(join(store, "git-worktree", place))).toEqual([])
}, 240_000)
