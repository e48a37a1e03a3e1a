/**
 * The tests that mutants of the governance rules are held against: those of one process, the conformance suite and the drivers' tests included.
 * Promise: `npm run mutation` runs them with their stores in memory where the system has such a place. See docs/decisions/056.
 */
import { existsSync } from "node:fs"
import { defineConfig } from "vitest/config"

/** A file system in memory (tmpfs(5)): durability is not what these tests are about, and fsync costs nothing there. */
const inMemory = "/dev/shm"

export default defineConfig({
  test: {
    include: [
      "test/governance/**/*.test.ts",
      "test/session/{binding,context,delivery,driver,gate,operations,retry}.test.ts",
      "test/testkit/authority.test.ts"
    ],
    exclude: [
      "test/governance/{continuity,crashPoints,faults,golden,history,invariants,journal,races,store,wakeup}.test.ts"
    ],
    setupFiles: ["test/governance/mutationSetup.ts"],
    env: existsSync(inMemory) ? { TMPDIR: inMemory } : {},
    pool: "threads",
    maxWorkers: 1,
    isolate: false,
    testTimeout: 20_000,
    reporters: ["default"]
  }
})
