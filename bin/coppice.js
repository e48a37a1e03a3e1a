#!/usr/bin/env node
// The `coppice` command. Promise: an older Node gets a plain sentence and exit code 1, not a crash in something it lacks; in a
// checkout the sources run, in the package the build. Plain JavaScript without static imports of ours. Rules: P1, P3.
import { existsSync } from "node:fs"

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
if (major < 22 || (major === 22 && minor < 19)) {
  console.error(`NODE_TOO_OLD: coppice needs Node 22.19 or newer, and this is ${process.versions.node}.`)
  console.error("Remedy: install a newer Node, or put one first on PATH.")
  process.exitCode = 1
} else {
  const source = new URL("../src/cli/main.ts", import.meta.url)
  await import(existsSync(source) ? source.href : new URL("../dist/standalone/coppice.js", import.meta.url).href)
}
