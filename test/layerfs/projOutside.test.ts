/** What programs outside of a workspace are given: its tree, and a way in. */
import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { Entering } from "../../src/workspace/WorkspaceProvider.ts"
import { committed, failure, forkOf, run, sharedGround, shell, using } from "./projFixture.ts"

const shared = sharedGround({ f: "f", "d/g": "g" })

const start = ({ argv, env, cwd }: Entering) =>
  spawn(argv[0], argv.slice(1), { env, ...(cwd === null ? {} : { cwd }), stdio: ["ignore", "pipe", "inherit"] })

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("W4 W17 another program sees and changes the tree where it is told to look, until the workspace ends", async () => {
    const { provider, commit } = await shared()
    const path = await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
      const { path, by } = await run(workspace.visiblePath)
      expect(by).toBe(projection === "overlay" ? "procRoot" : "directory")
      expect(spawnSync("cat", [join(path, "d/g")], { encoding: "utf8" }).stdout).toBe("g")
      expect(spawnSync("sh", ["-c", 'echo new > "$0/new"; rm "$0/f"', path]).status).toBe(0)
      expect(await shell(workspace, "ls; cat new")).toBe("d\nnew\nnew\n")
      expect((await run(workspace.checkpoint())).outcome).toBe("committed")
      return path
    })
    expect(fs.existsSync(path)).toBe(false)
  })

  it("W7 L10 what a program outside still writes after the end changes no later workspace of the commit", async () => {
    const { provider, commit } = await shared()
    let open = -1
    const made = await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
      await shell(workspace, "echo good > kept")
      const { path } = await run(workspace.visiblePath)
      open = fs.openSync(join(path, "kept"), "r+")
      return committed(workspace)
    })
    fs.writeSync(open, "EVIL")
    fs.closeSync(open)
    await using(provider, await forkOf(provider, made), { projection }, async (workspace) => {
      expect(await shell(workspace, "cat kept")).toBe("good\n")
    })
  })

  it("W4 W17 S23 a process that a program starts itself is inside: isolated, with the rights and variables of exec, and gone with the workspace", async () => {
    const { provider, commit, store } = await shared()
    const closed = await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
      const say = await run(
        workspace.enter(
          [
            "sh",
            "-c",
            `pwd; id -u; ls -A '${store}' | wc -l; env | cut -d= -f1 | sort; umount -l /tmp 2> /dev/null || echo refused`
          ],
          { cwd: "d", env: { MORE: "1" } }
        )
      )
      const child = start(say)
      let text = ""
      child.stdout.setEncoding("utf8").on("data", (part: string) => (text += part))
      await once(child, "close")
      const bySdk = await shell(workspace, "env | cut -d= -f1 | sort")
      const names = text.trim().split("\n").slice(3, -1)
      expect(text.startsWith(`${workspace.path}/d\n${process.getuid!()}\n0\n`)).toBe(true)
      expect(text.endsWith("refused\n")).toBe(true)
      expect(names).toContain("MORE")
      const extra = new Set(["MORE", "COPPICE_CALL", "PWD", "OLDPWD", "_", "SHLVL"])
      const common = (all: readonly string[]): string[] => all.filter((name) => !extra.has(name))
      expect(common(names)).toEqual(common(bySdk.trim().split("\n")))

      const lasting = start(await run(workspace.enter(["sh", "-c", "echo up; exec sleep 1000"])))
      await once(lasting.stdout, "data")
      expect(await failure(workspace.checkpoint())).toMatchObject({ _tag: "ProcessesRunning" })
      expect(await failure(workspace.enter(["no-such-program"]))).toMatchObject({ _tag: "SpawnFailed" })
      expect(await failure(workspace.enter(["true"], { cwd: "../.." }))).toMatchObject({ _tag: "OutsideWorkspace" })
      return { workspace, lasting }
    })
    if (closed.lasting.exitCode === null && closed.lasting.signalCode === null) await once(closed.lasting, "close")
    expect(closed.lasting.exitCode).not.toBe(0)
    expect(await failure(closed.workspace.enter(["true"]))).toMatchObject({ _tag: "WorkspaceClosed" })
    expect(await failure(closed.workspace.visiblePath)).toMatchObject({ _tag: "WorkspaceClosed" })
  })
})
