/**
 * What cached layers take on the disk, in allocated bytes.
 * Promise: each is measured once, because it never changes again; what could not be measured is null, not zero. Rules: L11, W15.
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"

/** Beside the layer, like its mark. */
const fileOf = (cache: string, name: string): string => path.join(cache, `${name}.size`)

/** The known sizes of `names`; those that nobody has measured yet are, by one process. `working` names a file that is being written. */
export const layerSizes = async (
  cache: string,
  names: readonly string[],
  working: (name: string) => string
): Promise<ReadonlyMap<string, number | null>> => {
  const sizes = new Map<string, number | null>()
  for (const name of names) sizes.set(name, await known(cache, name))
  const rest = names.filter((name) => sizes.get(name) === null)
  const measured = rest.length === 0 ? new Map<string, number>() : await measure(cache, rest)
  for (const [name, bytes] of measured) {
    sizes.set(name, bytes)
    const made = working(`${name}.size`)
    // A full disk only means that it is measured again.
    await fs
      .writeFile(made, String(bytes), { mode: 0o600 })
      .then(() => fs.rename(made, fileOf(cache, name)))
      .catch(() => fs.rm(made, { force: true }))
  }
  return sizes
}

const known = async (cache: string, name: string): Promise<number | null> => {
  const text = await fs.readFile(fileOf(cache, name), "utf8").catch(() => "")
  return /^\d+$/.test(text) ? Number(text) : null
}

/** du(1) of any make: a hundred thousand files in a fraction of the time that as many calls from here take. */
const measure = (cache: string, names: readonly string[]): Promise<ReadonlyMap<string, number>> =>
  new Promise((resolve) => {
    const env = { PATH: "/usr/bin:/bin", LC_ALL: "C" }
    const child = spawn("du", ["-sk", "--", ...names], { cwd: cache, stdio: ["ignore", "pipe", "ignore"], env })
    let text = ""
    child.stdout.setEncoding("latin1").on("data", (part: string) => (text += part))
    child.once("error", () => resolve(new Map()))
    child.once("close", () => {
      const lines = text.split("\n").map((line) => /^(\d+)\t(.*)$/.exec(line))
      resolve(new Map(lines.flatMap((found) => (found === null ? [] : [[found[2]!, Number(found[1]) * 1024]]))))
    })
  })
