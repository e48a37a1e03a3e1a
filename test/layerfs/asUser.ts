/**
 * Runs a program of the tests as an ordinary user: bundled, with a copy of Node, in a directory that the user can read.
 * Promise: nothing of the machine is given to the user but that directory and a home; both go afterwards. When the tests
 * themselves run as an ordinary user, the program runs as that user, in place.
 */
import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import { build } from "esbuild"
import { fuseForAll } from "../../bench/ordinary-user.ts"

/** An id that no account and no process has. */
const freeId = (): number => {
  const taken = fs.readFileSync("/etc/passwd", "utf8") + fs.readFileSync("/etc/group", "utf8")
  const running = fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => fs.statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid)
  for (let id = 20_000 + (process.pid % 10_000); ; id += 1) {
    if (!taken.includes(`:${id}:`) && !running.includes(id)) return id
  }
}

export interface UserRun {
  readonly uid: number
  readonly home: string
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * `program` is a TypeScript file beside this one; it gets `args` and its home as working directory. `before` goes in front of everything
 * and still runs as whoever runs the tests: what it changes about the machine holds for the program alone.
 */
export const runAsUser = async (
  program: string,
  args: readonly string[] = [],
  before: readonly string[] = []
): Promise<UserRun> => {
  const root = fs.realpathSync(fs.mkdtempSync("/var/tmp/coppice-user-"))
  fs.chmodSync(root, 0o755)
  try {
    const bin = join(root, "bin")
    const home = join(root, "home")
    await build({
      entryPoints: {
        program: join(import.meta.dirname, program),
        "layerfs-worker": join(import.meta.dirname, "../../providers/layerfs/worker.ts"),
        "layerfs-lazy": join(import.meta.dirname, "../../providers/layerfs/lazyServer.ts"),
        "layerfs-lazy-tree": join(import.meta.dirname, "../../providers/layerfs/lazy/ServeCommit.ts"),
        "grep-worker": join(import.meta.dirname, "../../src/workspace/kit/grepWorker.ts")
      },
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node22",
      outdir: bin,
      outExtension: { ".js": ".mjs" },
      define: { __COPPICE_CRASH_POINTS__: "false" },
      logLevel: "silent"
    })
    for (const thread of ["layerfs-worker", "layerfs-lazy", "layerfs-lazy-tree", "grep-worker"])
      fs.renameSync(join(bin, `${thread}.mjs`), join(bin, `${thread}.js`))
    fs.writeFileSync(join(bin, "package.json"), `{"type":"module"}`)
    const node = join(bin, "node")
    fs.copyFileSync(process.execPath, node)
    fs.chmodSync(node, 0o755)
    fs.mkdirSync(home)
    const root0 = process.getuid!() === 0
    const uid = root0 ? freeId() : process.getuid!()
    if (root0) {
      fs.chownSync(home, uid, uid)
      const opened = fuseForAll(join(root, "fuse"))
      const ids = ["--reuid", String(uid), "--regid", String(uid), "--clear-groups", "--reset-env"]
      return await finish([...opened, ...before, "setpriv", ...ids, node, join(bin, "program.mjs"), ...args], uid, home)
    }
    return await finish([...before, node, join(bin, "program.mjs"), ...args], uid, home)
  } finally {
    // What a test run as root cannot open up does not exist: root may remove whatever the user left.
    execFileSync("chmod", ["-R", "u+rwX", root], { stdio: "ignore" })
    fs.rmSync(root, { recursive: true, force: true })
  }
}

const finish = async (argv: readonly string[], uid: number, home: string): Promise<UserRun> => {
  // setpriv's --reset-env keeps nothing, so the program's own variables are set by env after it.
  const at = argv.findIndex((part) => part.endsWith("/node"))
  const variables = [`HOME=${home}`, `TMPDIR=${home}`, `PATH=/usr/local/bin:/usr/bin:/bin`, "LANG=C.UTF-8"]
  const whole = [...argv.slice(0, at), "env", ...variables, ...argv.slice(at)]
  const child = spawn(whole[0]!, whole.slice(1), { cwd: home, stdio: ["ignore", "pipe", "pipe"] })
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const [code] = (await once(child, "close")) as [number | null]
  return { uid, home, code, stdout, stderr }
}
