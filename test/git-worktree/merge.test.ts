/** Merges by git over what is kept, with what git knows nothing of. Rules: K2, W10, GW2; 04 L4. */
import { expect, it } from "vitest"
import type { MergeConflict, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { withGitEnded } from "../endedGit.ts"
import { failure, forkOf, imported, type Put, repository, run, shell, using } from "./ground.ts"

const lines = (...changed: readonly (readonly [number, string])[]): string => {
  const all = Array.from({ length: 20 }, (_, at) => `line ${at}`)
  for (const [at, text] of changed) all[at] = text
  return `${all.join("\n")}\n`
}

/** Two branches of one import, each changed by a shell command. */
const sides = async (files: Put, ours: string, theirs: string) => {
  const { provider, receipt } = await imported(repository(files))
  const branches: string[] = []
  for (const command of [ours, theirs]) {
    const branch = await forkOf(provider, receipt.layer)
    await using(provider, branch, async (workspace) => {
      await shell(workspace, command)
      const { outcome } = await run(workspace.checkpoint({}))
      expect(outcome).toBe("committed")
    })
    branches.push(branch)
  }
  return { provider, ours: branches[0]!, theirs: branches[1]! }
}

/** What lies at a branch. */
const shown = (provider: WorkspaceProvider, branch: string): Promise<string> =>
  using(provider, branch, (workspace) =>
    shell(
      workspace,
      "find . -path ./.git -prune -o ! -name . -printf '%P %y %m\\n' | sort; cat $(find . -path ./.git -prune -o -type f -print | sort)"
    )
  )

it("K2 W10 GW2 what goes together is merged: lines apart, a rename and an edit, modes apart from contents, equal bytes, empty directories", async () => {
  const { provider, ours, theirs } = await sides(
    {
      text: lines(),
      moved: lines(),
      mode: "m\n",
      exact: "e\n",
      "gone/one": "1\n",
      same: "s\n",
      secret: "a secret\n",
      "kept/one": "1\n"
    },
    `sed -i 's/^line 1$/ours 1/' text; mv moved renamed; chmod 755 mode; chmod 600 exact; echo both > same; mkdir -p ours-empty; chmod 600 secret`,
    `sed -i 's/^line 18$/theirs 18/' text; sed -i 's/^line 9$/edited/' moved; echo changed > mode; echo new > exact;
     rm -r gone; echo both > same; touch -d 2001-01-01 kept/one; mkdir -p theirs-empty; chmod 700 kept; mv secret hidden`
  )
  const dry = await run(provider.merge(theirs, ours, { dryRun: true }))
  expect(dry).toMatchObject({ outcome: "merged", commit: null })
  const merged = await run(provider.merge(theirs, ours))
  expect(merged).toMatchObject({ outcome: "merged" })
  expect(await shown(provider, ours)).toBe(
    [
      "exact f 600",
      "hidden f 600",
      "kept d 700",
      "kept/one f 644",
      "mode f 755",
      "ours-empty d 755",
      "renamed f 644",
      "same f 644",
      "text f 644",
      "theirs-empty d 755",
      `new\na secret\n1\nchanged\n${lines([9, "edited"])}both\n${lines([1, "ours 1"], [18, "theirs 18"])}`
    ].join("\n")
  )
  expect(await run(provider.merge(theirs, ours))).toMatchObject({ outcome: "unchanged" })
  const { commits } = await run(provider.log(ours))
  expect(commits[0]!.secondParent).toBe((await run(provider.branch(theirs))).head)
}, 120_000)

it("K2 W10 every conflict is told with its sides, and the branch stays as it was", async () => {
  const { provider, ours, theirs } = await sides(
    {
      text: lines(),
      edited: "e\n",
      deleted: "d\n",
      renamed: lines([0, "r"]),
      mode: "m\n",
      link: { link: "a" },
      dir: "f\n",
      kind: "k\n"
    },
    `sed -i 's/^line 5$/ours/' text; echo ours > edited; rm deleted; mv renamed one; chmod 600 mode; ln -sf b link; echo ours > added;
     rm dir; mkdir dir; echo x > dir/x; rm kind; ln -s elsewhere kind`,
    `sed -i 's/^line 5$/theirs/' text; rm edited; echo theirs > deleted; mv renamed two; chmod 640 mode; ln -sf c link; echo theirs > added;
     echo theirs > dir; echo theirs > kind`
  )
  const { head } = await run(provider.branch(ours))
  const outcome = await run(provider.merge(theirs, ours))
  if (outcome.outcome !== "conflict") throw new Error(outcome.outcome)
  expect((await run(provider.branch(ours))).head).toBe(head)
  const told = outcome.conflicts.map(({ path, kind, base, ours: mine, theirs: other }: MergeConflict) =>
    [
      path,
      kind,
      ...[base, mine, other].map((side) => (side === null ? "-" : `${side.path}:${side.type}:${side.mode.toString(8)}`))
    ].join(" ")
  )
  expect(told).toEqual([
    "added addAdd - added:file:644 added:file:644",
    "deleted editDelete deleted:file:644 - deleted:file:644",
    "dir type dir:file:644 dir:directory:755 dir:file:644",
    "edited editDelete edited:file:644 edited:file:644 -",
    "kind type kind:file:644 kind:symlink:0 kind:file:644",
    "link link link:symlink:0 link:symlink:0 link:symlink:0",
    "mode mode mode:file:644 mode:file:600 mode:file:640",
    "one renameRename renamed:file:644 one:file:644 two:file:644",
    "text content text:file:644 text:file:644 text:file:644"
  ])
  const text = outcome.conflicts.at(-1)!
  const [a, b, c] = await Promise.all(
    [text.base!, text.ours!, text.theirs!].map((side) => run(provider.readAt(side.commit, side.path)))
  )
  expect([a, b, c].map((bytes) => Buffer.from(bytes!).toString())).toEqual([
    lines(),
    lines([5, "ours"]),
    lines([5, "theirs"])
  ])
}, 120_000)

it("K2 W10 GW2 a merge whose git is ended in the middle of its answer fails, and nothing of what it had said is taken", async () => {
  const { provider, ours, theirs } = await sides(
    { text: lines() },
    "sed -i 's/^line 5$/ours/' text",
    "sed -i 's/^line 5$/theirs/' text"
  )
  const { head } = await run(provider.branch(ours))
  // The answer stops after the id of the merged tree: the conflicts would have come next.
  expect(await withGitEnded('*" merge-tree "*', 41, () => failure(provider.merge(theirs, ours)))).toMatchObject({
    _tag: "Unavailable",
    message: expect.stringMatching(/merge-tree failed.*SIGKILL/)
  })
  expect((await run(provider.branch(ours))).head).toBe(head)
  expect(await run(provider.merge(theirs, ours))).toMatchObject({ outcome: "conflict" })
}, 120_000)

it("K2 GW2 C24 hostile attributes and paths that git keeps for itself are merged as bytes", async () => {
  const { provider, ours, theirs } = await sides(
    { ".gitattributes": "* merge=union text eol=crlf\n*.bin -merge\n", text: lines(), "nested/file": "n\n" },
    `sed -i 's/^line 1$/ours 1/' text; git init -q nested; printf 'a\\r\\nb' > crlf`,
    `sed -i 's/^line 18$/theirs 18/' text; printf 'x\\r\\n' > other; ln -s nowhere .gitmodules`
  )
  expect(await run(provider.merge(theirs, ours))).toMatchObject({ outcome: "merged" })
  await using(provider, ours, async (workspace) => {
    expect(
      await shell(workspace, "cat text; od -c crlf other; git -C nested rev-parse --git-dir; readlink .gitmodules")
    ).toBe(
      `${lines([1, "ours 1"], [18, "theirs 18"])}0000000   a  \\r  \\n   b   x  \\r  \\n\n0000007\n.git\nnowhere\n`
    )
  })
}, 120_000)
