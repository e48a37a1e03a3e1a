import { defineConfig } from "tsup"

// Every entry and chunk lies flat in dist/: code that starts a worker finds it as a neighbour of its own file.
export default defineConfig({
  entry: {
    index: "src/index.ts",
    minimal: "src/minimal.ts",
    standard: "src/standard.ts",
    governance: "src/governance/index.ts",
    session: "src/session/index.ts",
    host: "src/host/index.ts",
    workspace: "src/workspace/index.ts",
    explore: "src/explore/index.ts",
    evaluator: "src/evaluator/index.ts",
    assembly: "src/assembly/index.ts",
    "providers-layerfs": "providers/layerfs/index.ts",
    "layerfs-worker": "providers/layerfs/worker.ts",
    "providers-host-process": "providers/host-process/index.ts",
    "providers-authority-sqlite": "providers/authority-sqlite/index.ts"
  },
  format: ["esm"],
  target: "node22",
  platform: "node",
  splitting: true,
  sourcemap: true,
  clean: true,
  dts: false,
  removeNodeProtocol: false,
  // Crash points exist in development and test builds only: the flag is folded away, and with it every read of it.
  define: { __COPPICE_CRASH_POINTS__: "false" },
  esbuildOptions: (options) => {
    options.minifySyntax = true
  }
})
