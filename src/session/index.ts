/** `coppice/session`: which executor acts for which agent, and the driver of governed turns. */
export * from "./Binding.ts"
export * from "./CarriedLease.ts"
export * from "./DeliveryDriver.ts"
export * from "./LeaseGuard.ts"
export * from "./Operations.ts"
export * from "./ResultFile.ts"
export * from "./TurnDriver.ts"
