/** Vitest calls this once before all test files. */
export { shareProgramsOfRun as setup } from "./oneFile.ts"
