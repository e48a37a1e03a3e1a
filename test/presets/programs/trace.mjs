// Loaded with --import before anything else: notes every module that is loaded, every path that a function of node:fs is given,
// every worker thread, child process and socket that is made. The program under it reads globalThis.coppiceTrace.
import { subscribe } from "node:diagnostics_channel"
import fs from "node:fs"
import { registerHooks, syncBuiltinESMExports } from "node:module"
import { fileURLToPath } from "node:url"

const trace = { modules: [], paths: [], threads: 0, processes: 0, sockets: 0 }
globalThis.coppiceTrace = trace

const pathOf = (given) =>
  typeof given === "string"
    ? given
    : given instanceof URL
      ? fileURLToPath(given)
      : given instanceof Uint8Array
        ? Buffer.from(given).toString("latin1")
        : undefined

// Node's own loader does not go through these: what is noted is what programs ask for.
for (const api of [fs, fs.promises]) {
  for (const [name, original] of Object.entries(api)) {
    if (typeof original !== "function" || !/^[a-z]/.test(name)) continue
    const noting = function (...given) {
      const path = pathOf(given[0])
      if (path !== undefined) trace.paths.push(path)
      return original.apply(this, given)
    }
    api[name] = Object.defineProperties(noting, Object.getOwnPropertyDescriptors(original))
  }
}
syncBuiltinESMExports()

registerHooks({
  // A module of Node that something else has loaded before is asked for here all the same.
  resolve: (specifier, context, next) => {
    const resolved = next(specifier, context)
    if (resolved.url.startsWith("node:")) trace.modules.push(resolved.url)
    return resolved
  },
  load: (url, context, next) => {
    if (!url.startsWith("node:")) trace.modules.push(url)
    return next(url, context)
  }
})
for (const [channel, what] of [
  ["worker_threads", "threads"],
  ["child_process", "processes"],
  ["net.client.socket", "sockets"],
  ["net.server.socket", "sockets"],
  ["net.server.listen", "sockets"],
  ["udp.socket", "sockets"]
]) {
  subscribe(channel, () => {
    trace[what] += 1
  })
}
