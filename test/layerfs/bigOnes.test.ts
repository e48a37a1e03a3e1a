/** Many processes in one command, and a file of gigabytes. Rules: W4, W9, W19, C19, L15. */
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { committed, failure, forkOf, ground, run, scratch, shell, using } from "./projFixture.ts"

const many = 5000

/** Forks so many, each of which sleeps and keeps no pipe; says how many there are. */
const forks = `$| = 1; my $made = 0;
for (1 .. ${many}) { my $p = fork; if (!defined $p) { last } if ($p == 0) { close STDOUT; close STDERR; sleep 1000; exit } $made += 1 }
print $made;`

/** What this machine and its limits allow beside what runs already. */
const room = (): number => {
  const limit = Number(fs.readFileSync("/proc/sys/kernel/pid_max", "utf8"))
  return limit - fs.readdirSync("/proc").filter((name) => /^\d+$/.test(name)).length
}

it.skipIf(room() < 2 * many)(
  `W9 W19 W12 ${many} processes of one command are told, frozen together for a checkpoint, and ended by a time limit or by the call`,
  async () => {
    const { provider, commit } = await ground({ f: "f" })
    const branch = await forkOf(provider, commit)
    await using(provider, branch, { projection: "overlay" }, async (workspace) => {
      expect(await run(workspace.exec(["perl", "-e", forks]))).toMatchObject({
        stdout: { text: `${many}` },
        exitCode: 0
      })
      const refused = await failure(workspace.checkpoint())
      expect(refused).toMatchObject({ _tag: "ProcessesRunning" })
      expect((refused as unknown as { processes: unknown[] }).processes.length).toBeGreaterThanOrEqual(many)
      await run(workspace.write("made", "made"))
      expect(await run(workspace.checkpoint({ quiesce: true }))).toMatchObject({ outcome: "committed", quiesced: many })
      await run(workspace.exec(["true"], { endProcesses: true }))
      const limited = await run(workspace.exec(["perl", "-e", `${forks} sleep 1000`], { timeLimitMs: 4000 }))
      expect(limited.timedOut).toBe(true)
      // Nothing is left: a checkpoint without any word is taken.
      await run(workspace.write("made", "again"))
      await committed(workspace)
    })
    expect(await run(provider.left)).toEqual([])
  },
  60_000
)

it("C19 L15 W4 files of 4 GiB with nothing in them, and one with a few bytes in a large hole, are imported, made, spliced, checkpointed and exported as holes", async () => {
  const [one, four] = [2 ** 30, 4 * 2 ** 30]
  const { provider, commit, origin } = await ground({ f: "f", empty: "" })
  fs.truncateSync(join(origin, "empty"), four)
  const { commit: imported } = await run(provider.importDirectory({ source: origin }))
  expect(imported).not.toBe(commit)
  const branch = await forkOf(provider, imported)
  await using(provider, branch, { projection: "overlay" }, async (workspace) => {
    // What has data is read whole (docs/gaps/C19-sparse-maps.md).
    await shell(workspace, "truncate -s 4G hollow; truncate -s 1G some")
    await run(workspace.splice("some", 2 ** 29, 4, Buffer.from("here")))
    await committed(workspace)
  })
  const target = join(scratch(), "export")
  await run(provider.exportDirectory(branch, target))
  const found = ["empty", "hollow", "some"].map((name) => fs.lstatSync(join(target, name)))
  expect(found.map(({ size }) => size)).toEqual([four, four, one])
  for (const { blocks } of found) expect(blocks * 512).toBeLessThan(2 ** 20)
  const read = async (path: string, offset: number): Promise<string> =>
    Buffer.from(await run(provider.readAt(branch, path, { offset, length: 6 }))).toString()
  expect([await read("some", 2 ** 29 - 1), await read("empty", four - 6), await read("hollow", 2 ** 31)]).toEqual([
    "\0here\0",
    "\0".repeat(6),
    "\0".repeat(6)
  ])
  expect((await run(provider.stats)).storedBytes).toBeLessThan(2 ** 20)
}, 60_000)
