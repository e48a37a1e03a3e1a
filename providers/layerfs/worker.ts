/**
 * The program of LayerFS's worker threads: the store itself, or one reader of an import.
 * Promise: nothing of the store runs on the main thread. Rules: 01 "The host's event loop".
 */
import { parentPort, workerData } from "node:worker_threads"
import { type ReaderSetup, serveImportReader } from "./ImportReader.ts"
import type { WorkerSetup } from "./LayerStore.ts"
import { serveStore } from "./StoreServer.ts"

const setup = workerData as WorkerSetup | ReaderSetup
if (parentPort !== null) {
  if (setup.role === "import") serveImportReader(parentPort, setup)
  else serveStore(parentPort, setup)
}
