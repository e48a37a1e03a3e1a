/**
 * Where the worker's program lies: beside this file in the sources, beside the bundle's chunks when published.
 * Promise: no search and no computed package name. Workers are started with no flags of the host's own command line (one like
 * `--input-type` would break them). Rules: 01 "The host's event loop"; P9.
 */
export const workerUrl = (): URL =>
  new URL(import.meta.url.endsWith(".ts") ? "./worker.ts" : "./layerfs-worker.js", import.meta.url)
