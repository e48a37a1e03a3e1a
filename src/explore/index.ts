/** `coppice/explore`: why the work went where it went. */
export * from "./Explore.ts"
export * from "./ExploreGraph.ts"
