/** `coppice/workspace`: the contract of forkable, complete workspaces. */
export * from "./Candidate.ts"
export * from "./CleanCheckout.ts"
export * from "./EnvironmentManifest.ts"
export * from "./SourceState.ts"
export * from "./WorkspaceError.ts"
export * from "./WorkspaceProvider.ts"
export * from "./TreeDigest.ts"
export { type ChangedFile, makePatch, type PatchFile, type PatchInput } from "./Patch.ts"
