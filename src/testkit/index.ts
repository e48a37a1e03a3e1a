/**
 * `coppice/testkit`: the suites by which an implementation of a Coppice contract shows that it keeps the rules.
 * Promise: plain functions that give lists of scenarios, for any test runner; importing this starts, opens and writes nothing.
 * Rules: V2; 08 "suites as public API".
 */
export { authorityConformance } from "./AuthorityConformance.ts"
export type { AuthorityUnderTest, OpenedAuthority, OpenUnderTest, StoreUnderTest } from "./AuthorityUnderTest.ts"
export { serveAuthority } from "./AuthorityWorker.ts"
export {
  type LineFault,
  operationConformance,
  type OperationConformanceOptions,
  type OperationDevice
} from "./OperationConformance.ts"
export { type Scenario, titleOf, type Transcript } from "./Scenario.ts"
export { workspaceConformance } from "./WorkspaceConformance.ts"
export type { OpenProvider, PlaceUnderTest, WorkspaceUnderTest } from "./WorkspaceUnderTest.ts"
export { serveWorkspaces } from "./WorkspaceWorker.ts"
