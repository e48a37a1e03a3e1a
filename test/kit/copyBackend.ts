/**
 * The plainest backend there can be: every state is a directory, kept and made by `cp -a`. For tests of the kit.
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { fromInput, toBytes, type TreePath } from "../../src/base/PathBytes.ts"
import type { BackendPlace } from "../../src/workspace/kit/SnapshotProvider.ts"
import type { Moved, Snapshot, SnapshotBackend } from "../../src/workspace/kit/SnapshotBackend.ts"
import { contentsOfDirectory } from "../../src/workspace/kit/DirectoryContents.ts"

const run = (argv: readonly [string, ...string[]]): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn(argv[0], argv.slice(1), { stdio: ["ignore", "ignore", "pipe"] })
    let said = ""
    child.stderr.on("data", (text: Buffer) => (said += text.toString()))
    child.once("error", reject)
    child.once("close", (code) =>
      code === 0
        ? resolve()
        : reject(Object.assign(new Error(said), { code: said.includes("No space") ? "ENOSPC" : "EIO", syscall: "cp" }))
    )
  })

const text = (at: TreePath): string => toBytes(at).toString("utf8")

export const copyBackend = ({ directory }: BackendPlace): SnapshotBackend => {
  const states = path.join(directory, "states")
  fs.mkdirSync(states, { recursive: true, mode: 0o700 })
  const at = ({ commit }: Snapshot): string => path.join(states, commit)
  const copy = async (from: string, to: string): Promise<Moved> => {
    await run(["cp", "-a", "--", from, to])
    return { method: "copy", copiedBytes: 1 }
  }
  return {
    provider: "copies",
    version: "1",
    projection: "copy",
    capabilities: {
      copyFreeFork: false,
      symlinks: true,
      hardLinks: "preserved",
      modes: true,
      nanosecondMtimes: true,
      xattrs: true,
      sparseFiles: true,
      nonUtf8Names: true,
      crossMachine: false,
      mountAtChosenPath: true,
      quota: false
    },
    restores: false,
    probe: async () => [],
    keep: async ({ snapshot, tree, leaveOut }) => {
      const working = `${at(snapshot)}.part`
      const moved = await copy(text(tree), working)
      for (const name of leaveOut)
        fs.rmSync(Buffer.concat([Buffer.from(`${working}/`), toBytes(name)]), { recursive: true, force: true })
      fs.renameSync(working, at(snapshot))
      return moved
    },
    make: ({ snapshot, target }) => copy(at(snapshot), text(target)),
    drop: async (snapshot) => {
      for (const name of [at(snapshot), `${at(snapshot)}.part`]) fs.rmSync(name, { recursive: true, force: true })
    },
    kept: async () => fs.readdirSync(states).map((commit) => ({ project: "", commit })),
    directoryOf: (snapshot) => fromInput(at(snapshot)),
    contents: (snapshot, paths) => contentsOfDirectory(fromInput(at(snapshot)), paths),
    storedBytes: async () => null
  }
}
