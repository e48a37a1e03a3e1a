/** Edits from the shell in a real workspace are in the checkpoint, and blame names the call. Rules: C25, L3, L2. */
import { describe, expect, it } from "vitest"
import { forkOf, run, sharedGround, treeAt } from "./projFixture.ts"

const lines = (...all: string[]): string => all.map((line) => `${line}\n`).join("")
const shared = sharedGround({
  "src/edited": lines("alpha", "beta", "gamma"),
  "src/scripted": lines("one", "two", "three"),
  "src/moved": lines("m1", "m2", "m3"),
  "gone/deep/file": "gone",
  "gone/link": { link: "deep/file" }
})

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("C25 L3 sed -i, python, mv, a moved file and a deleted directory are all in the checkpoint, and blame names the call of each line", async () => {
    const { provider, commit } = await shared()
    const branch = await forkOf(provider, commit)
    const calls = {
      sed: "sed -i 's/beta/BETA/' src/edited",
      python: `python3 -c 'p="src/scripted"; s=open(p).read().replace("two", "2"); open(p, "w").write(s + "four\\n")'`,
      mv: "mkdir -p lib && mv src/moved lib/away && printf 'm4\\n' >> lib/away",
      move: "mv src/edited lib/edited",
      rm: "rm -r gone"
    }
    for (const [call, script] of Object.entries(calls)) {
      const { result, checkpoint } = await run(
        provider.execOn(branch, script, {
          projection,
          actor: { call, agent: "agent-1", goal: "goal-1" },
          message: call
        })
      )
      expect(result.exitCode, result.stderr.text).toBe(0)
      expect(checkpoint.outcome, call).toBe("committed")
    }
    expect(await treeAt(provider, branch)).toEqual({
      "lib/": "",
      "lib/away": lines("m1", "m2", "m3", "m4"),
      "lib/edited": lines("alpha", "BETA", "gamma"),
      "src/": "",
      "src/scripted": lines("one", "2", "three", "four")
    })
    const blamed = async (path: string) => {
      const page = await run(provider.blame(branch, path))
      return page.lines.map(({ text, commit: of, original }) => {
        const { actor } = page.commits[of]!
        if (actor.call !== undefined) expect(actor).toMatchObject({ agent: "agent-1", goal: "goal-1" })
        return `${actor.call ?? "import"} ${original.path}:${original.line} ${text}`
      })
    }
    expect(await blamed("lib/edited")).toEqual([
      "import src/edited:1 alpha",
      "sed src/edited:2 BETA",
      "import src/edited:3 gamma"
    ])
    expect(await blamed("src/scripted")).toEqual([
      "import src/scripted:1 one",
      "python src/scripted:2 2",
      "import src/scripted:3 three",
      "python src/scripted:4 four"
    ])
    expect(await blamed("lib/away")).toEqual([
      "import src/moved:1 m1",
      "import src/moved:2 m2",
      "import src/moved:3 m3",
      "mv lib/away:4 m4"
    ])
    const log = await run(provider.log(branch, { path: "gone" }))
    expect(log.commits.map(({ actor }) => actor.call ?? "import")).toEqual(["rm", "import"])
    const last = await run(provider.diff(log.commits[1]!.id, branch, { path: "gone" }))
    expect(last.changes.map(({ path, kind }) => `${kind} ${path}`)).toEqual([
      "removed gone",
      "removed gone/deep",
      "removed gone/deep/file",
      "removed gone/link"
    ])
  })
})
