/** `coppice/host`: the contract between Coppice and an agent runtime. */
export * from "./ClassifyFailure.ts"
export * from "./Host.ts"
export * from "./HostSession.ts"
export * from "./PlainDirectory.ts"
export * from "./TurnEnvironment.ts"
export * from "./TurnProtocol.ts"
export * from "./CommandHosts.ts"
