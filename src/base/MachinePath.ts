/**
 * The machine's PATH, without what `npm run` and `npx` have put in front of it for the program that they started.
 * Promise: work on a repository finds the programs that its user finds, not those of the package that the host application was started
 * from (its own Node among them). Only the front is looked at, and only in a process that npm started. Rules: W4, W20.
 *
 * npm puts there the `node_modules/.bin` of the package's directory and of each above it, and a directory of its own with node-gyp
 * (npm-run-script(1), "Environment"; @npmcli/run-script).
 */
import { delimiter } from "node:path"

const ofNpm = /(^|[\\/])(node_modules[\\/]\.bin|node-gyp-bin)[\\/]?$/

const standardPlaces = "/usr/local/bin:/usr/bin:/bin"

export const machinePath = (source: Readonly<Record<string, string | undefined>> = process.env): string | undefined => {
  const path = source["PATH"]
  if (path === undefined || source["npm_execpath"] === undefined) return path
  const places = path.split(delimiter)
  const first = places.findIndex((place) => !ofNpm.test(place))
  // None is left: an empty PATH would mean the working directory.
  return first < 0 ? standardPlaces : places.slice(first).join(delimiter)
}
