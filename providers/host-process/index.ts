/** `coppice/providers/host-process`: hosts that are a command on stdio, or a function of the application. */
export { type InProcessTurn, inProcessHost } from "./InProcessHost.ts"
export { type ProcessHostOptions, processHost, processHostVersion } from "./ProcessHost.ts"
export type { ResultCheck } from "./ResultText.ts"
