/** `coppice/workspace`: the contract of forkable, complete workspaces. */
export * from "./Candidate.ts"
export * from "./CleanCheckout.ts"
export * from "./EnvironmentManifest.ts"
export * from "./WorkspaceError.ts"
export * from "./WorkspaceProvider.ts"
