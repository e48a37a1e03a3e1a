/**
 * `coppice`: the public types and services, and the composed journeys. No provider's code is loaded from here.
 */
export { isCoppiceError, type CoppiceError } from "./base/CoppiceError.ts"
export { exploreRepair, requireAccepted } from "./journey/ExploreRepair.ts"
export * from "./journey/RepairPlan.ts"
export { RunInProgress } from "./journey/RunLock.ts"
export { FileNotWritten } from "./base/DurableFile.ts"
export * from "./journey/RepairRepository.ts"
