/**
 * Runs `ready.ts` as an ordinary user: Node's binary and a bundled build in a directory that everybody may read.
 * Promise: the child has a free uid, no groups, no variable of ours but HOME, TMPDIR and PATH; its directories go with the scratch
 * directory they lie in. Rules: workspaces.md, "Figures" (ordinary user); W2.
 */
import { execFile } from "node:child_process"
import { chmodSync, chownSync, copyFileSync, mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { build } from "esbuild"
import { freeUserId } from "./measure.ts"
import type { ReadySamples } from "./ready.ts"

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
      "layerfs-lazy": "providers/layerfs/lazyServer.ts"
    },
    outdir: directory,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node22",
    define: { __COPPICE_CRASH_POINTS__: "false" },
    logLevel: "error"
  })
  writeFileSync(join(directory, "package.json"), `{ "type": "module" }`)
  const node = join(directory, "node")
  copyFileSync(process.execPath, node)
  chmodSync(node, 0o755)
  return { node, program: join(directory, "ready.js") }
}

/** Measures as an ordinary user. Needs root, `setpriv`, and a tree that everybody may read. */
export const readyAsOrdinaryUser = async (input: {
  readonly root: string
  readonly scratch: string
  readonly tree: string
  readonly rounds: number
}): Promise<ReadySamples> => {
  const { node, program } = await installBuild(input.root, join(input.scratch, "build"))
  const uid = freeUserId()
  const home = join(input.scratch, "home")
  const temporary = join(home, "tmp")
  for (const directory of [home, temporary]) {
    mkdirSync(directory, { mode: 0o700 })
    chownSync(directory, uid, uid)
  }
  const variables = [`HOME=${home}`, `TMPDIR=${temporary}`, "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]
  const identity = [`--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--reset-env"]
  const { stdout } = await promisify(execFile)(
    "setpriv",
    [...identity, "env", ...variables, node, program, input.tree, join(home, "store"), String(input.rounds)],
    { cwd: home, maxBuffer: 64 * 1024 * 1024 }
  ).catch((error: Error & { readonly stderr?: string }) => {
    const said = (error.stderr ?? "")
      .split("\n")
      .filter((line) => /^\w*(?:Error|Unavailable|StoreLocation)\b/.test(line))
    throw new Error(`As an ordinary user it failed: ${said[0] ?? error.message.split("\n", 1)[0]}`)
  })
  return JSON.parse(stdout) as ReadySamples
}
