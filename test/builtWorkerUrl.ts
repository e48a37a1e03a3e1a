/**
 * Stands in for `providers/layerfs/WorkerUrl.ts` in test files (see `vitest.config.ts`): the same threads, from one built file each. They open
 * a store three times faster than from a hundred sources, and the tests open hundreds.
 */
import { builtThreads } from "./oneFile.ts"

const { worker, lazyServer } = await builtThreads()
export const workerUrl = (): URL => worker
export const lazyServerUrl = (): URL => lazyServer
