/** Programs of the tests as one file each: a process that loads one file starts several times faster than one that loads hundreds. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buildSync } from "esbuild"

let place: string | undefined
const made = new Map<string, string>()

/** The path of a program of `programs/`, built as it stands in the sources: with its crash points. */
export const bundled = (name: string): string => {
  if (place === undefined) {
    place = mkdtempSync(join(tmpdir(), "coppice-programs-"))
    const directory = place
    process.once("exit", () => rmSync(directory, { recursive: true, force: true }))
  }
  const known = made.get(name)
  if (known !== undefined) return known
  const outfile = join(place, `${name}.mjs`)
  buildSync({
    entryPoints: [join(import.meta.dirname, "programs", `${name}.ts`)],
    outfile,
    bundle: true,
    minify: true,
    platform: "node",
    format: "esm",
    target: "node22",
    logLevel: "error",
    banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url)' }
  })
  made.set(name, outfile)
  return outfile
}

/** The environment of such a program: what was compiled of it once is kept beside it. */
export const bundleEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  NODE_COMPILE_CACHE: join(place ?? tmpdir(), "compiled")
})
