import { availableParallelism } from "node:os"
import { join } from "node:path"
import { defineConfig } from "vitest/config"
import { LongestFirst } from "./test/longestFirst.ts"
import { ToldAgain } from "./test/toldAgain.ts"

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
    // CI tries a failed test once more and names it; anybody else hears of it at once.
    retry: Number(process.env["COPPICE_RETRY"] ?? 0),
    reporters: [
      "default",
      new ToldAgain(),
      ["json", { outputFile: process.env["COPPICE_REPORT"] ?? ".reports/direct.json" }]
    ]
  }
})
