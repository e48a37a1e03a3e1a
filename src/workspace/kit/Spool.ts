/**
 * Reads what the caller may not read (mode 000 made inside) through the holder, into copies beside the upper.
 * Promise: the live upper keeps every mode; the copies carry times and bytes, the list carries the true modes.
 * Rules: 04 "Harvest"; W12.
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { pipeline } from "node:stream/promises"
import { fromInput, type TreePath } from "../../base/PathBytes.ts"
import type { Spool } from "./Harvest.ts"
import { finished } from "./Holder.ts"
import type { OpenTree } from "./OpenTree.ts"
import { pathError } from "./Beneath.ts"

const environment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" }

/** Names and modes; find's `%p` repeats the argument it was given, so paths come back relative. */
const listScript = `cd "$1" && shift && exec find "$@" -printf '%m\\0%p\\0'`
/** Readable for the copy's owner, whatever the original says. */
const packScript = `cd "$1" && shift && exec tar --create --file=- --format=posix --mode=u+rwX -- "$@"`

/** The caller removes `directory`. Throws PathError `denied` where there is no holder to read through. */
export const spoolUnreadable = async (
  tree: OpenTree,
  unreadable: readonly TreePath[]
): Promise<{ readonly directory: string; readonly spool: Spool }> => {
  if (tree.holder === null) throw pathError("denied", unreadable[0] ?? "")
  const directory = path.join(tree.work, "spool")
  fs.mkdirSync(directory, { mode: 0o700 })
  const inside = (script: string) => {
    // A leading "./" keeps a name from being read as an option.
    const names = unreadable.map((name) => Buffer.from(`./${name}`, "latin1").toString("utf8"))
    const root = Buffer.from(tree.path, "latin1").toString("utf8")
    const argv = [...tree.holder!.asMappedRoot(), "/bin/sh", "-c", script, "sh", root, ...names]
    return spawn(argv[0]!, argv.slice(1), { stdio: ["ignore", "pipe", "ignore"], env: environment })
  }
  const lister = inside(listScript)
  const listed: Buffer[] = []
  lister.stdout.on("data", (chunk: Buffer) => listed.push(chunk))
  const listCode = await finished(lister)
  const packer = inside(packScript)
  const unpack = ["--extract", "--file=-", `--directory=${directory}`, "--preserve-permissions", "--no-same-owner"]
  const unpacker = spawn("tar", unpack, { stdio: ["pipe", "ignore", "ignore"], env: environment })
  const codes = Promise.all([finished(packer), finished(unpacker)])
  await pipeline(packer.stdout, unpacker.stdin).catch(() => undefined)
  const [packed, unpacked] = await codes
  if (listCode !== 0 || packed !== 0 || unpacked !== 0) throw pathError("denied", unreadable[0] ?? "")
  const modes: Record<TreePath, number> = {}
  const fields = Buffer.concat(listed).toString("latin1").split("\0")
  for (let i = 0; i + 1 < fields.length; i += 2) modes[fields[i + 1]!.slice(2)] = Number.parseInt(fields[i]!, 8)
  return { directory, spool: { root: fromInput(directory), modes } }
}
