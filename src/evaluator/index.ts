/** `coppice/evaluator`: did it work, and what did it cost? Independent oracles and clocks. */
export * from "./CleanDependencies.ts"
export * from "./CostLedger.ts"
export * from "./HeldOut.ts"
export * from "./Oracle.ts"
export * from "./OracleProof.ts"
