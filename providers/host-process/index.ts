/** `coppice/providers/host-process`: hosts that are a command, on stdio or plain, or a function of the application. */
export { commandHost, type CommandHostOptions, commandHostVersion } from "./CommandHost.ts"
export { type InProcessTurn, inProcessHost } from "./InProcessHost.ts"
export { type ProcessHostOptions, processHost, processHostVersion } from "./ProcessHost.ts"
export type { ResultCheck } from "./ResultText.ts"
