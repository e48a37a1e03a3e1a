/**
 * `coppice/provider-kit`: a workspace provider of your own from a backend that keeps and makes trees.
 * Promise: you say how a directory is kept as a state and made again; rows, branches, history, open workspaces, isolation, candidates and
 * exports come from here, and `coppice/testkit` shows whether it holds. Importing this starts nothing. Rules: W1 to W23; P9.
 */
export { contentsOfDirectory } from "./DirectoryContents.ts"
export type {
  KeepInput,
  Made,
  MakeInput,
  Merged,
  MergeInput,
  Missing,
  Moved,
  Piece,
  Snapshot,
  SnapshotBackend,
  SnapshotCapabilities
} from "./SnapshotBackend.ts"
export {
  type BackendPlace,
  makeSnapshotProvider,
  type SnapshotOpenFailure,
  type SnapshotProviderOptions
} from "./SnapshotProvider.ts"
export type { MadeTree, Reached } from "./StorePort.ts"
export type { ContentSource, TreeChange } from "./Tree.ts"
