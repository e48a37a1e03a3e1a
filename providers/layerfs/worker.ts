/**
 * The program of LayerFS's worker threads: the store itself, one reader of an import, a compaction, or a look at a layer.
 * Promise: nothing of the store runs on the main thread. Rules: 01 "The host's event loop".
 */
import { parentPort, workerData } from "node:worker_threads"
import type { CompactSetup } from "./CompactThread.ts"
import type { ReaderSetup } from "./ImportReader.ts"
import type { WorkerSetup } from "./LayerStore.ts"
import type { LookSetup } from "./LookThread.ts"

const setup = workerData as WorkerSetup | ReaderSetup | CompactSetup | LookSetup
// Each loads only what it needs: messages that arrive meanwhile wait in the port until it is listened to.
if (parentPort !== null) {
  if (setup.role === "import") (await import("./ImportReader.ts")).serveImportReader(parentPort, setup)
  else if (setup.role === "compact") (await import("./CompactThread.ts")).serveCompact(parentPort, setup)
  else if (setup.role === "look") (await import("./LookThread.ts")).serveLook(parentPort, setup)
  else (await import("./StoreServer.ts")).serveStore(parentPort, setup)
}
