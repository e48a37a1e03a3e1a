import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"
import { LongestFirst } from "./test/longestFirst.ts"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: join(import.meta.dirname, "test/wholeRun.ts"),
    alias: [{ find: /^.*\/WorkerUrl\.ts$/, replacement: join(import.meta.dirname, "test/builtWorkerUrl.ts") }],
    pool: "forks",
    // Most of a test is waiting: for the disk, for processes that begin and end.
    maxWorkers: Math.min(availableParallelism() + 1, 4),
    sequence: { sequencer: LongestFirst },
    testTimeout: 60_000,
    hookTimeout: 120_000,
    reporters: ["default", ["json", { outputFile: process.env["COPPICE_REPORT"] ?? ".reports/direct.json" }]]
  }
})
