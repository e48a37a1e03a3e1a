// Loaded with --import before anything else: notes every module that is loaded, every worker thread, child process and
// socket that is made. The program under it reads globalThis.coppiceTrace.
import { subscribe } from "node:diagnostics_channel"
import { registerHooks } from "node:module"

const trace = { modules: [], threads: 0, processes: 0, sockets: 0 }
globalThis.coppiceTrace = trace
registerHooks({
  load: (url, context, next) => {
    trace.modules.push(url)
    return next(url, context)
  }
})
subscribe("worker_threads", () => {
  trace.threads += 1
})
subscribe("child_process", () => {
  trace.processes += 1
})
subscribe("net.client.socket", () => {
  trace.sockets += 1
})
subscribe("net.server.socket", () => {
  trace.sockets += 1
})
