/** What an import says about a tree beside storing it. Rules: W13; C8, C17, C22. */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import * as fs from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { ImportNotes } from "../../src/workspace/kit/ImportNotes.ts"
import { type Machine, signsOf } from "../../src/workspace/kit/ImportSigns.ts"
import type { ImportReceipt } from "../../src/workspace/WorkspaceProvider.ts"
import { open, importInto, scratch } from "./storeFixture.ts"
import { latin } from "./storeChange.ts"

const put = (root: string, files: Readonly<Record<string, string | Buffer>>): void => {
  for (const [name, content] of Object.entries(files)) {
    fs.mkdirSync(join(root, name, ".."), { recursive: true })
    fs.writeFileSync(join(root, name), content)
  }
}
const notesOf = (receipt: ImportReceipt, ...kinds: string[]): string[] =>
  receipt.notes.filter(({ kind }) => kinds.includes(kind)).map(({ path }) => path.path)

/** Everything that an import could have touched: names, modes, times (the access time of files too), links and bytes. */
const digestOf = (root: string): string => {
  const hash = createHash("sha256")
  const walk = (path: string): void => {
    const stat = fs.lstatSync(path, { bigint: true })
    const times = stat.isFile() ? stat.atimeNs : 0n
    hash.update(`${path} ${stat.mode} ${stat.uid} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.ino} ${stat.nlink} ${times}\n`)
    if (stat.isSymbolicLink()) hash.update(fs.readlinkSync(path))
    else if (stat.isDirectory()) for (const name of fs.readdirSync(path).sort()) walk(join(path, name))
  }
  walk(root)
  return hash.digest("hex")
}

const elf = (machine: number, rest = ""): Buffer => {
  const bytes = Buffer.alloc(64)
  bytes.write("\x7fELF\x02\x01\x01", 0, "latin1")
  bytes.writeUInt16LE(machine, 18)
  return Buffer.concat([bytes, Buffer.from(rest)])
}
const linuxX64: Machine = { platform: "linux", arch: "x64", nodeAbi: "137", libc: "glibc" }
const signs = (path: string, head: Buffer | string, mode = 0o644, machine = linuxX64): string[] =>
  signsOf({ path, source: "/tree", mode, head: Buffer.from(head) }, machine).map(
    ({ kind, detail }) => `${kind}: ${detail}`
  )

describe("the source", () => {
  it("W13 is the same after an import, with its .git, to the last access time of a file", async () => {
    const source = scratch()
    const git = (...args: string[]): void =>
      void execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", ...args], { cwd: source })
    put(source, { "src/a": "a", "src/b": "b", ".gitignore": "out\n", "out/x": "x".repeat(5_000_000) })
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    fs.symlinkSync("src/a", join(source, "link"))
    const old = new Date("2020-01-01T00:00:00Z")
    for (const name of ["src/a", "out/x", ".git/index"]) fs.utimesSync(join(source, name), old, old)
    const before = digestOf(source)
    const store = await open(join(scratch(), "s"))
    const receipt = await importInto(store, source)
    expect(digestOf(source)).toBe(before)
    expect(receipt).toMatchObject({ notes: [], noteCounts: {} })
    const tree = await store.call("list", { ref: receipt.commit, path: "" })
    expect(tree!.map(({ name }) => name)).toEqual([".git", ".gitignore", "link", "out", "src"])
  })

  it("W13 C8 another store inside the source is left out and said so, whatever else is named layerfs is not", async () => {
    const source = scratch()
    put(source, { "layerfs/readme": "a package", kept: "k" })
    const other = await open(join(source, "state"))
    const store = await open(join(scratch(), "s"))
    const receipt = await importInto(store, source)
    expect(receipt.noteCounts).toEqual({ skippedStore: 1 })
    expect(notesOf(receipt, "skippedStore")).toEqual(["state/layerfs"])
    expect(await store.call("list", { ref: receipt.commit, path: "state/layerfs" })).toEqual([])
    expect(receipt.files).toBe(2)
    await other.close()
  })
})

describe("notes", () => {
  it("W13 C22 secrets, foreign binaries, pointers and links out of the tree are named by path and kind, kept, and never quoted", async () => {
    const source = scratch()
    const secret = "hunter2hunter2"
    put(source, {
      ".env": `TOKEN=${secret}`,
      ".env.production": `TOKEN=${secret}`,
      ".env.example": "TOKEN=",
      ".npmrc": `//registry/:_authToken=${secret}`,
      "sub/.npmrc": "//registry/:_authToken=${NPM_TOKEN}",
      "deploy/key": `-----BEGIN OPENSSH PRIVATE KEY-----\n${secret}\n`,
      "deploy/cert.pem": "-----BEGIN CERTIFICATE-----\nabc\n",
      "deploy/both.pem": `-----BEGIN CERTIFICATE-----\nabc\n-----BEGIN PRIVATE KEY-----\n${secret}\n`,
      "home/.aws/credentials": `aws_secret_access_key=${secret}`,
      "home/.kube/config": `token: ${secret}`,
      "docs/credentials": "how to get some",
      "account.json": `{"type": "service_account", "private_key": "${secret}"}`,
      "node_modules/pkg/.env": `TOKEN=${secret}`,
      "lib/addon.node": elf(process.arch === "x64" ? 183 : 62),
      "lib/win.exe": Buffer.from(`MZ${"\0".repeat(58)}\x40\0\0\0PE\0\0`, "latin1"),
      "lib/MZ.txt": "MZ is how these begin",
      "worktree/.git": "gitdir: /somewhere/.git/worktrees/x\n",
      "module/.git": "gitdir: ../.git/modules/module\n",
      ".git/modules/module/HEAD": "ref: refs/heads/main\n",
      ".git/objects/info/alternates": "/elsewhere/.git/objects\n",
      "venv/pyvenv.cfg": "home = /usr/bin\n",
      "venv/bin/activate": 'VIRTUAL_ENV="/other/venv"\n'
    })
    fs.symlinkSync("../../linked", join(source, "node_modules/linked"))
    fs.symlinkSync("pkg", join(source, "node_modules/inside"))
    fs.symlinkSync(join(source, "docs"), join(source, "own-absolute"))
    fs.symlinkSync("../up", join(source, "up"))
    const outside = scratch()
    fs.writeFileSync(join(outside, "store-file"), "shared")
    fs.linkSync(join(outside, "store-file"), join(source, "lib/hard"))
    const store = await open(join(scratch(), "s"))
    const receipt = await importInto(store, source)
    expect(notesOf(receipt, "likelySecret")).toEqual([
      ".env",
      ".env.production",
      ".npmrc",
      "account.json",
      "deploy/both.pem",
      "deploy/key",
      "home/.aws/credentials",
      "home/.kube/config",
      "node_modules/pkg/.env"
    ])
    expect(notesOf(receipt, "foreignBinary")).toEqual(["lib/addon.node", "lib/win.exe"])
    expect(notesOf(receipt, "gitPointerFile")).toEqual(["worktree/.git"])
    expect(notesOf(receipt, "gitAlternates")).toEqual([".git/objects/info/alternates"])
    expect(notesOf(receipt, "virtualEnvironment")).toEqual(["venv/bin/activate", "venv/pyvenv.cfg"])
    expect(notesOf(receipt, "linkedPackage")).toEqual(["node_modules/linked"])
    expect(notesOf(receipt, "linkLeavesRoot")).toEqual(["up"])
    expect(receipt.noteCounts).toEqual({
      foreignBinary: 2,
      gitAlternates: 1,
      gitPointerFile: 1,
      likelySecret: 9,
      linkLeavesRoot: 1,
      linkedPackage: 1,
      normalised: 1,
      virtualEnvironment: 2
    })
    expect(JSON.stringify(receipt)).not.toContain(secret)
    // Named, and not left out.
    expect(receipt.files).toBe(23)
    const env = await store.call("readAt", { ref: receipt.commit, path: latin("node_modules/pkg/.env") })
    expect(Buffer.from(env).toString()).toBe(`TOKEN=${secret}`)
  })

  it("W13 binaries are known by their first bytes: ELF by processor, C library and Node ABI, Mach-O and PE by their magic", () => {
    expect(signs("a.out", elf(62), 0o755)).toEqual([])
    expect(signs("a.out", elf(183), 0o755)).toEqual([
      "foreignBinary: an ELF binary for arm64; this machine is linux x64"
    ])
    // Not a program: object files and test data of any processor are of no interest.
    expect(signs("a.o", elf(183), 0o644)).toEqual([])
    expect(signs("tool", elf(62, "/lib/ld-musl-x86_64.so.1"), 0o755)).toEqual([
      "nativeAbi: built for musl; this machine has glibc"
    ])
    expect(signs("x.node", elf(62, "libc.so.6 node_register_module_v137"))).toEqual([])
    expect(signs("x.node", elf(62, "node_register_module_v108\0"))).toEqual([
      "nativeAbi: an add-on for Node ABI 108; this Node has 137"
    ])
    expect(signs("x.node", elf(62, "napi_register_module_v1"))).toEqual([])
    const mach = (magic: number, type: number): Buffer => {
      const bytes = Buffer.alloc(64)
      bytes.writeUInt32BE(magic, 0)
      bytes.writeUInt32LE(type, 4)
      return bytes
    }
    expect(signs("x.dylib", mach(0xcffaedfe, 0x0100000c))).toEqual([
      "foreignBinary: a macOS binary for arm64; this machine is linux x64"
    ])
    const mac: Machine = { platform: "darwin", arch: "arm64", nodeAbi: "137", libc: undefined }
    expect(signs("x.dylib", mach(0xcffaedfe, 0x0100000c), 0o644, mac)).toEqual([])
    // A Java class has the magic of a fat binary, and its version where that counts.
    const java = Buffer.from("cafebabe00000041000000000000", "hex")
    expect(signs("Main.class", java, 0o755)).toEqual([])
    for (const short of ["", "\x7fELF", "MZ", "-----BEGIN"])
      expect(signs("x.so", Buffer.from(short, "latin1"))).toEqual([])
  })

  it("W13 of each kind all are counted and the first 500 by path are given, whatever the order they were found in", () => {
    const notes = new ImportNotes()
    for (let i = 1999; i >= 0; i -= 1) notes.add("linkLeavesRoot", `l${String(i).padStart(4, "0")}`, "leaves")
    notes.add("changedWhileRead", "z", "changed")
    const { notes: given, noteCounts } = notes.forReceipt()
    expect(noteCounts).toEqual({ changedWhileRead: 1, linkLeavesRoot: 2000 })
    expect(given.length).toBe(501)
    expect(given[0]).toEqual({ kind: "changedWhileRead", path: { path: "z" }, detail: "changed" })
    expect([given[1]!.path.path, given.at(-1)!.path.path]).toEqual(["l0000", "l0499"])
  })
})
