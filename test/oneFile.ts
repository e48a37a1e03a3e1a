/**
 * Programs that tests start and kill, as one built file each: a process that loads one file starts many times faster than one
 * that loads some hundred sources. Promise: the same program, crash points and fault points included; what it finds beside its
 * source (`import.meta.dirname`, `import.meta.url`) it still finds there; built once a test run, and gone at its end.
 */
import { existsSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { build, type Plugin } from "esbuild"
import { sha256 } from "../src/base/Digest.ts"

const layerFs = join(dirname(import.meta.dirname), "providers/layerfs")
const workerSource = join(layerFs, "worker.ts")
const lazySource = join(layerFs, "lazyServer.ts")
const treeSource = join(layerFs, "lazy/ServeCommit.ts")
/** Names the directory that all processes of a test run share; without it each process makes its own. */
const shared = "COPPICE_TEST_PROGRAMS"
let own: string | undefined
const made = new Map<string, Promise<string>>()

/** The worker's file is looked for beside the built program; everything else of ours stays where its source is. */
const placesOfSources: Plugin = {
  name: "places of sources",
  setup: (builder) =>
    builder.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      if (path.includes("/node_modules/") || /\/(?:WorkerUrl|oneFile)\.ts$/.test(path)) return undefined
      const contents = readFileSync(path, "utf8")
        .replaceAll("import.meta.dirname", JSON.stringify(dirname(path)))
        .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href))
      return { contents, loader: "ts", resolveDir: dirname(path) }
    })
}

/** A directory for programs, until this process ends: those that it started have ended before, and written what they compiled. */
const makePlace = (): string => {
  const place = realpathSync(mkdtempSync(join(tmpdir(), "coppice-programs-")))
  writeFileSync(join(place, "package.json"), `{"type":"module"}`)
  process.once("exit", () => rmSync(place, { recursive: true, force: true }))
  return place
}

const placeOf = (): string => process.env[shared] ?? (own ??= makePlace())

/** What starts the store's threads looks for these names beside itself. */
const threads: ReadonlyMap<string, string> = new Map([
  [workerSource, "layerfs-worker.js"],
  [lazySource, "layerfs-lazy.js"],
  [treeSource, "layerfs-lazy-tree.js"]
])

const make = async (entry: string): Promise<string> => {
  const outdir = join(placeOf(), sha256(Buffer.from(entry)).slice(-16))
  const thread = threads.get(entry)
  const program = thread ?? "program.js"
  if (!existsSync(outdir)) {
    const working = `${outdir}.${process.pid}`
    await build({
      entryPoints: [entry],
      outfile: join(working, program),
      bundle: true,
      minify: true,
      platform: "node",
      format: "esm",
      target: "node22",
      logLevel: "error",
      plugins: [placesOfSources],
      banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url)' }
    })
    const beside =
      thread === undefined ? threads : entry === lazySource ? [[treeSource, threads.get(treeSource)!] as const] : []
    for (const [source, name] of beside) {
      const built = pathToFileURL(await oneFile(source)).href
      writeFileSync(join(working, name), `export * from ${JSON.stringify(built)}\n`)
    }
    try {
      renameSync(working, outdir)
    } catch {
      // Another test file made it meanwhile, of the same sources.
      rmSync(working, { recursive: true })
    }
  }
  return join(outdir, program)
}

/** The path of a program (absolute path of its source). */
export const oneFile = (entry: string): Promise<string> => {
  const known = made.get(entry) ?? make(entry)
  made.set(entry, known)
  return known
}

/** The environment of such a program: what was compiled of it once is kept beside it. */
export const oneFileEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  NODE_COMPILE_CACHE: join(placeOf(), "compiled")
})

/** Before a test run: its processes share the programs, and start the store's thread from one file too. */
export const shareProgramsOfRun = async (): Promise<void> => {
  const place = makePlace()
  process.env[shared] = place
  // For the threads of the tests' own processes.
  process.env["NODE_COMPILE_CACHE"] = join(place, "compiled")
  for (const source of threads.keys()) await oneFile(source)
}

/** The store's threads as one file each: they stand in for `WorkerUrl.ts` where tests load the sources. */
export const builtThreads = async (): Promise<{ readonly worker: URL; readonly lazyServer: URL }> => ({
  worker: pathToFileURL(await oneFile(workerSource)),
  lazyServer: pathToFileURL(await oneFile(lazySource))
})
