/**
 * Where the programs of threads lie: beside this file in the sources, beside the bundle's chunks when published.
 * Promise: no search and no computed package name. Workers are started with no flags of the host's own command line (one like
 * `--input-type` would break them). Rules: 01 "The host's event loop"; P9.
 */
const isSource = import.meta.url.endsWith(".ts")

export const workerUrl = (): URL => new URL(isSource ? "./worker.ts" : "./layerfs-worker.js", import.meta.url)

/** Of what serves a tree: as a thread, or as a process. */
export const lazyServerUrl = (): URL => new URL(isSource ? "./lazyServer.ts" : "./layerfs-lazy.js", import.meta.url)

/** What that program loads later: all that reads a tree. */
export const lazyTreeUrl = (): URL =>
  new URL(isSource ? "./lazy/ServeCommit.ts" : "./layerfs-lazy-tree.js", import.meta.url)
