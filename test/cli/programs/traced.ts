/** Runs the command with the given arguments and writes, when it ends, what was loaded: `node --import trace.mjs traced.ts OUT ARG...`. */
import { writeFileSync } from "node:fs"

const [out, ...argv] = process.argv.slice(2) as [string, ...string[]]
process.argv = [process.argv[0]!, "coppice", ...argv]
process.on("exit", () => {
  const { modules, threads, processes } = (globalThis as any).coppiceTrace
  writeFileSync(out, JSON.stringify({ modules, threads, processes }))
})
await import("../../../src/cli/main.ts")
