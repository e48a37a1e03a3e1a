/**
 * A tree with everything that a clone must bring along, and the look of a tree as it can be compared.
 * Promise: two trees with the same look differ in nothing that a state holds.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { sha256 } from "../../src/base/Digest.ts"
import { compare } from "../../src/base/PathBytes.ts"

const python = (at: string, script: string): string =>
  execFileSync("python3", ["-c", script, at], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] })

/** `seed` gives the contents. A socket, a fifo, names of bytes, a hole, xattrs, hard links across directories, times to the nanosecond. */
export const oddTree = (at: string, seed: string): void => {
  fs.mkdirSync(join(at, "d/empty"), { recursive: true })
  fs.writeFileSync(join(at, "big"), seed.repeat(50_000))
  fs.writeFileSync(join(at, "small"), seed)
  fs.writeFileSync(join(at, "none"), "")
  fs.linkSync(join(at, "big"), join(at, "d/hard"))
  fs.symlinkSync("../big", join(at, "d/link"))
  fs.symlinkSync("/nowhere", join(at, "d/dangling"))
  fs.writeFileSync(join(at, "d/script"), "#!/bin/sh\n")
  fs.chmodSync(join(at, "d/script"), 0o4755)
  fs.writeFileSync(Buffer.concat([Buffer.from(join(at, "d/b")), Buffer.from("\xfe\xff\n'x", "latin1")]), seed)
  fs.writeFileSync(join(at, "d", "n".repeat(255)), seed)
  fs.writeFileSync(join(at, "hole"), "")
  fs.truncateSync(join(at, "hole"), 2 ** 40)
  fs.writeFileSync(join(at, "mixed"), "")
  fs.truncateSync(join(at, "mixed"), 1 << 24)
  const mixed = fs.openSync(join(at, "mixed"), "r+")
  fs.writeSync(mixed, seed, 1 << 23)
  fs.closeSync(mixed)
  fs.mkdirSync(join(at, "specials"))
  python(
    at,
    `import os, socket, sys
at = sys.argv[1]
os.setxattr(at + "/small", "user.coppice", b"value")
os.mkfifo(at + "/specials/fifo")
socket.socket(socket.AF_UNIX).bind(at + "/specials/socket") if len(at) < 80 else os.mkfifo(at + "/specials/socket")
for name, ns in (("small", 1700000000123456789), ("d/link", 1600000000987654321), ("d", 1500000000000000001), ("specials", 1500000000000000003), (".", 1500000000000000002)):
    os.utime(at + "/" + name, ns=(ns, ns), follow_symlinks=False)`
  )
}

export const specials = ["specials/fifo", "specials/socket"]

const xattrsOf = (at: string): Readonly<Record<string, string>> =>
  JSON.parse(
    python(
      at,
      `import json, os, sys
at = os.fsencode(sys.argv[1])
found = {}
for directory, below, files in os.walk(at):
    for name in below + files:
        path = os.path.join(directory, name)
        for key in os.listxattr(path, follow_symlinks=False):
            if key.startswith("user."):
                found[os.path.relpath(path, at).decode("latin1") + " " + key] = os.getxattr(path, key).decode()
print(json.dumps(found))`
    )
  ) as Record<string, string>

/** One line an entry; the last one tells the xattrs. Owners are left out: a state holds none. */
export const lookOf = (at: string, { xattrs = true }: { readonly xattrs?: boolean } = {}): readonly string[] => {
  const lines: string[] = []
  const names = new Map<string, string>()
  const visit = (path: string): void => {
    const bytes = Buffer.concat([Buffer.from(at), Buffer.from(path === "" ? "" : `/${path}`, "latin1")])
    const stat = fs.lstatSync(bytes, { bigint: true })
    const inode = `${stat.dev}:${stat.ino}`
    const first = names.get(inode) ?? path
    names.set(inode, first)
    const what = stat.isSymbolicLink()
      ? `-> ${fs.readlinkSync(bytes, "latin1")}`
      : stat.isFile()
        ? `${stat.size} ${stat.size > 1n << 30n ? `${stat.blocks} blocks` : sha256(fs.readFileSync(bytes))}`
        : "."
    lines.push(`${JSON.stringify(path)} ${stat.mode.toString(8)} ${stat.mtimeNs} ${what} ${stat.isFile() ? first : ""}`)
    if (!stat.isDirectory()) return
    for (const name of fs.readdirSync(bytes, { encoding: "latin1" }).sort(compare)) {
      visit(path === "" ? name : `${path}/${name}`)
    }
  }
  visit("")
  return xattrs ? [...lines, JSON.stringify(xattrsOf(at))] : lines
}
