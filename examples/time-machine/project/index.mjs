export * from "./src/ledger.mjs"
export * from "./src/money.mjs"
