// What the workers of this example share: one turn of the stdio protocol, and running a tool in the workspace.
// A worker is an ordinary program. It knows nothing of Coppice but this: a JSON request comes on stdin, a JSON result goes
// to stdout, a line of progress to stderr; its files are under `request.root`.
import { spawnSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** The directory of npm may be read-only here, and nobody reads its log. */
const quietNpm = {
  npm_config_cache: "/tmp/npm-cache",
  npm_config_logs_max: "0",
  npm_config_update_notifier: "false",
  npm_config_audit: "false",
  npm_config_fund: "false"
}

const workspace = (root) => {
  const at = (path) => join(root, path)
  const run = (program, argv, input) => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    return spawnSync(program, argv, {
      cwd: root,
      env: { ...env, ...quietNpm },
      encoding: "utf8",
      input,
      maxBuffer: 16 * 1024 * 1024
    })
  }
  const must = (program, argv, input) => {
    const done = run(program, argv, input)
    if (done.status !== 0) throw new Error(`${program} ${argv[0] ?? ""} ended with ${done.status ?? done.signal}`)
    return done.stdout
  }
  return {
    read: (path) => readFileSync(at(path), "utf8"),
    write: (path, text) => writeFileSync(at(path), text),
    sed: (script, path) => must("sed", ["-i", "-e", script, path]),
    move: (from, to) => must("mv", [from, to]),
    patch: (text) => must("git", ["apply", "--whitespace=nowarn", "-"], text),
    build: () => must("npm", ["run", "-s", "build"]),
    /** True when the built tests of a package pass. */
    tests: (name) => run(process.execPath, ["--test", `packages/${name}/dist/test/${name === "core" ? "ledger" : "gate"}.test.js`]).status === 0,
    /** True when `npm test` passes. */
    npmTest: () => run("npm", ["test"]).status === 0
  }
}

const progress = (text) => process.stderr.write(`${JSON.stringify({ coppice: "progress", text })}\n`)

/** Reads the request, lets `work` do the turn, and prints its result. What `work` throws is a failed turn, not a crash. */
export const takeTurn = (work) => {
  const request = JSON.parse(readFileSync(0, "utf8"))
  if (request.protocol !== "coppice.turn" || request.version !== 1) throw new Error("Not a request of coppice.turn 1")
  let result
  try {
    result = work({ request, progress, ...workspace(request.root) })
  } catch (error) {
    process.stderr.write(`${error.stack}\n`)
    result = { outcome: "failed", summary: "The worker met something that it did not expect; its files are as they were then." }
  }
  const { protocol, version, turnKey } = request
  process.stdout.write(`${JSON.stringify({ protocol, version, turnKey, usage: { usd: 0.2 }, ...result })}\n`)
}
