import { defineConfig, type Options } from "tsup"

const shared: Options = {
  format: ["esm"],
  target: "node22",
  platform: "node",
  splitting: true,
  sourcemap: true,
  dts: false,
  removeNodeProtocol: false,
  // Crash points exist in development and test builds only: the flag is folded away, and with it every read of it.
  define: { __COPPICE_CRASH_POINTS__: "false" },
  esbuildOptions: (options) => {
    options.minifySyntax = true
  }
}

const lazyName = "layerfs-lazy"

/** A workspace waits for this program: alone in its file, it loads nothing but what it needs, and nothing of Effect. The rest is a file of its own. */
const lazyServer = (outDir: string): Options => ({
  ...shared,
  entry: {
    [lazyName]: "providers/layerfs/lazyServer.ts",
    [`${lazyName}-tree`]: "providers/layerfs/lazy/ServeCommit.ts"
  },
  outDir,
  splitting: false,
  sourcemap: false,
  minify: true,
  clean: false
})

// Every entry and chunk of a build lies flat in its directory: code that starts a worker finds it as a neighbour of its own file.
export default defineConfig([
  {
    ...shared,
    entry: {
      index: "src/index.ts",
      minimal: "src/minimal.ts",
      standard: "src/standard.ts",
      governance: "src/governance/index.ts",
      session: "src/session/index.ts",
      host: "src/host/index.ts",
      workspace: "src/workspace/index.ts",
      "provider-kit": "src/workspace/kit/index.ts",
      "grep-worker": "src/workspace/kit/grepWorker.ts",
      explore: "src/explore/index.ts",
      evaluator: "src/evaluator/index.ts",
      assembly: "src/assembly/index.ts",
      testkit: "src/testkit/index.ts",
      "providers-layerfs": "providers/layerfs/index.ts",
      "layerfs-worker": "providers/layerfs/worker.ts",
      "providers-git-worktree": "providers/git-worktree/index.ts",
      "providers-reflink": "providers/reflink/index.ts",
      "providers-host-process": "providers/host-process/index.ts",
      "providers-authority-sqlite": "providers/authority-sqlite/index.ts"
    },
    // All builds run at once: this one leaves the others' files alone.
    clean: ["!standalone/**", `!${lazyName}*`]
  },
  {
    // For those who do not use Effect: these bring their own copy of it, and whatever else they need.
    ...shared,
    entry: {
      promise: "src/promise.ts",
      coppice: "src/cli/main.ts",
      "grep-worker": "src/workspace/kit/grepWorker.ts",
      "layerfs-worker": "providers/layerfs/worker.ts"
    },
    outDir: "dist/standalone",
    noExternal: [/.*/],
    sourcemap: false,
    clean: [`!${lazyName}*`]
  },
  lazyServer("dist"),
  lazyServer("dist/standalone")
])
