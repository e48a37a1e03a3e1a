/**
 * Runs `ready.ts` as an ordinary user: Node's binary and a bundled build in a directory that everybody may read.
 * Promise: the child has a free uid, no groups, no variable of ours but HOME, TMPDIR and PATH; its directories go with the scratch
 * directory they lie in. Rules: workspaces.md, "Figures" (ordinary user); W2.
 */
import { execFile, execFileSync } from "node:child_process"
import { chmodSync, chownSync, copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { build } from "esbuild"
import { freeUserId } from "./measure.ts"
import type { ReadySamples, Way } from "./ready.ts"

/** Bundles the program and the store's worker into `directory`, next to a copy of Node. */
const installBuild = async (
  root: string,
  directory: string
): Promise<{ readonly node: string; readonly program: string }> => {
  mkdirSync(directory, { mode: 0o755 })
  await build({
    absWorkingDir: root,
    entryPoints: {
      ready: "bench/ready.ts",
      "layerfs-worker": "providers/layerfs/worker.ts",
      "layerfs-lazy": "providers/layerfs/lazyServer.ts",
      "layerfs-lazy-tree": "providers/layerfs/lazy/ServeCommit.ts"
    },
    outdir: directory,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    minify: true,
    define: { __COPPICE_CRASH_POINTS__: "false" },
    logLevel: "error"
  })
  writeFileSync(join(directory, "package.json"), `{ "type": "module" }`)
  const node = join(directory, "node")
  copyFileSync(process.execPath, node)
  chmodSync(node, 0o755)
  return { node, program: join(directory, "ready.js") }
}

/** In front of a program: /dev/fuse opens for everybody, as most distributions have it, in a mount namespace of its own. */
export const fuseForAll = (node: string): readonly string[] => {
  if (!existsSync("/dev/fuse")) return []
  execFileSync("mknod", ["-m", "666", node, "c", "10", "229"])
  return ["unshare", "--mount", "sh", "-ec", `mount --bind "$0" /dev/fuse; exec "$@"`, node]
}

interface BuildInput {
  readonly root: string
  readonly scratch: string
  readonly tree: string
  readonly rounds: number
  readonly way?: Way
}

/** Measures as whoever runs this, from a build: a program that is waited for loads slower from its sources. */
export const readyOfBuild = async (input: BuildInput): Promise<ReadySamples> => {
  const way = input.way ?? "overlay"
  const { node, program } = await installBuild(input.root, join(input.scratch, `build-own-${way}`))
  const run = [program, input.tree, join(input.scratch, `store-own-${way}`), String(input.rounds), way]
  const { stdout } = await promisify(execFile)(node, run, { maxBuffer: 64 * 1024 * 1024 })
  return JSON.parse(stdout) as ReadySamples
}

/** Measures as an ordinary user. Needs root, `setpriv`, and a tree that everybody may read. */
export const readyAsOrdinaryUser = async (input: BuildInput): Promise<ReadySamples> => {
  const way = input.way ?? "overlay"
  const { node, program } = await installBuild(input.root, join(input.scratch, `build-${way}`))
  const uid = freeUserId()
  const home = join(input.scratch, `home-${way}`)
  const temporary = join(home, "tmp")
  for (const directory of [home, temporary]) {
    mkdirSync(directory, { mode: 0o700 })
    chownSync(directory, uid, uid)
  }
  const variables = [`HOME=${home}`, `TMPDIR=${temporary}`, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]
  const identity = [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--reset-env"]
  const run = [node, program, input.tree, join(home, "store"), String(input.rounds), way]
  const [launcher, ...argv] = [...fuseForAll(join(home, "fuse")), "setpriv", ...identity, "env", ...variables, ...run]
  const { stdout } = await promisify(execFile)(launcher!, argv, { cwd: home, maxBuffer: 64 * 1024 * 1024 }).catch(
    (error: Error & { readonly stderr?: string }) => {
      const said = (error.stderr ?? "")
        .split("\n")
        .filter((line) => /^\w*(?:Error|Unavailable|StoreLocation)\b/.test(line))
      throw new Error(`As an ordinary user it failed: ${said[0] ?? error.message.split("\n", 1)[0]}`)
    }
  )
  return JSON.parse(stdout) as ReadySamples
}
