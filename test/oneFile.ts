/**
 * Programs that tests start and kill, as one built file each: a process that loads one file starts many times faster than one
 * that loads some hundred sources. Promise: the same program, crash points and fault points included; what it finds beside its
 * source (`import.meta.dirname`, `import.meta.url`) it still finds there; the build goes when the test's process ends.
 */
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { build, type Plugin } from "esbuild"

const root = dirname(import.meta.dirname)
let place: string | undefined
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

const make = async (entry: string): Promise<string> => {
  if (place === undefined) {
    const directory = realpathSync(mkdtempSync(join(tmpdir(), "coppice-programs-")))
    place = directory
    writeFileSync(join(directory, "package.json"), `{"type":"module"}`)
    process.once("exit", () => rmSync(directory, { recursive: true, force: true }))
  }
  const outdir = join(place, String(made.size))
  await build({
    entryPoints: { program: entry, "layerfs-worker": join(root, "providers/layerfs/worker.ts") },
    outdir,
    bundle: true,
    splitting: true,
    minify: true,
    platform: "node",
    format: "esm",
    target: "node22",
    logLevel: "error",
    plugins: [placesOfSources],
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url)' }
  })
  return join(outdir, "program.js")
}

/** The path of a program (absolute path of its source), built once per test file. */
export const oneFile = (entry: string): Promise<string> => {
  const known = made.get(entry) ?? make(entry)
  made.set(entry, known)
  return known
}

/** The environment of such a program: what was compiled of it once is kept beside it. */
export const oneFileEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  NODE_COMPILE_CACHE: join(place ?? tmpdir(), "compiled")
})
