/**
 * What the first bytes of a file say about it: a secret, a binary for another machine, a pointer to a place outside.
 * Promise: looks at bytes that are in memory anyway; a sign tells a kind and a fixed sentence, never a byte of the content.
 * Rules: W13; ELF: elf(5); Mach-O: <mach-o/loader.h>; PE: Microsoft PE format, "MS-DOS stub"; gitrepository-layout(5).
 */
import { closeSync, openSync, readSync } from "node:fs"
import type { TreePath } from "../../base/PathBytes.ts"
import type { ImportNoteKind } from "../WorkspaceProvider.ts"

export interface Sign {
  readonly kind: ImportNoteKind
  readonly detail: string
}

export interface SignInput {
  /** Path in the tree. */
  readonly path: TreePath
  /** Absolute real path of the tree's root. */
  readonly source: TreePath
  readonly mode: number
  /** The file's first bytes, all of them when it is small. */
  readonly head: Buffer
}

/** What this machine runs. */
export interface Machine {
  readonly platform: string
  readonly arch: string
  readonly nodeAbi: string
  readonly libc: "glibc" | "musl" | undefined
}

/** The C library by the interpreter that Node itself asks for; undefined where that cannot be seen. */
const ownLibc = (): Machine["libc"] => {
  try {
    const fd = openSync(process.execPath, "r")
    const head = Buffer.alloc(4096)
    readSync(fd, head, 0, head.length, 0)
    closeSync(fd)
    return libcOf(head)
  } catch {
    return undefined
  }
}

export const thisMachine = (): Machine => ({
  platform: process.platform,
  arch: process.arch,
  nodeAbi: process.versions.modules,
  libc: process.platform === "linux" ? ownLibc() : undefined
})

/** `e_machine` by the names that Node has for processors. */
const elfMachines: ReadonlyMap<number, string> = new Map([
  [3, "ia32"],
  [8, "mips"],
  [20, "ppc"],
  [21, "ppc64"],
  [22, "s390x"],
  [40, "arm"],
  [62, "x64"],
  [183, "arm64"],
  [243, "riscv64"],
  [258, "loong64"]
])
const machTypes: ReadonlyMap<number, string> = new Map([
  [0x01000007, "x64"],
  [0x0100000c, "arm64"]
])

const libcOf = (bytes: Buffer): Machine["libc"] =>
  bytes.includes("/ld-musl-") || bytes.includes("libc.musl-")
    ? "musl"
    : bytes.includes("/ld-linux") || bytes.includes("libc.so.6")
      ? "glibc"
      : undefined

const isLibrary = /\.(node|so|dylib|dll|exe)(\.[0-9]+)*$/

const elf = (path: TreePath, head: Buffer, machine: Machine): Sign[] => {
  if (head.length < 20) return []
  const number = head[5] === 2 ? head.readUInt16BE(18) : head.readUInt16LE(18)
  const arch = elfMachines.get(number) ?? `processor ${number}`
  if (machine.platform !== "linux" || arch !== machine.arch) {
    return [{ kind: "foreignBinary", detail: `an ELF binary for ${arch}; this machine is ${own(machine)}` }]
  }
  const signs: Sign[] = []
  // A program names its interpreter near its start; a library names what it needs anywhere.
  const libc = libcOf(isLibrary.test(path) ? head : head.subarray(0, 4096))
  if (libc !== undefined && machine.libc !== undefined && libc !== machine.libc) {
    signs.push({ kind: "nativeAbi", detail: `built for ${libc}; this machine has ${machine.libc}` })
  }
  const abi = path.endsWith(".node") ? nodeAbi(head) : undefined
  if (abi !== undefined && abi !== machine.nodeAbi) {
    signs.push({ kind: "nativeAbi", detail: `an add-on for Node ABI ${abi}; this Node has ${machine.nodeAbi}` })
  }
  return signs
}

const own = (machine: Machine): string => `${machine.platform} ${machine.arch}`

/** The version in the name of the add-on's entry point; undefined for Node-API, which every Node can load. */
const nodeAbi = (bytes: Buffer): string | undefined => {
  const name = "node_register_module_v"
  const at = bytes.indexOf(name)
  if (at < 0) return undefined
  return /^[0-9]+/.exec(bytes.toString("latin1", at + name.length, at + name.length + 8))?.[0]
}

const machO = (head: Buffer, machine: Machine): Sign[] => {
  const magic = head.readUInt32BE(0)
  const foreign = (arch: string): Sign[] => [
    { kind: "foreignBinary", detail: `a macOS binary for ${arch}; this machine is ${own(machine)}` }
  ]
  // A fat binary counts its processors; a Java class, of the same magic, has its version there, which is 45 or more.
  if (magic === 0xcafebabe) {
    return head.readUInt32BE(4) > 30 || machine.platform === "darwin" ? [] : foreign("several processors")
  }
  const type = magic === 0xfeedface || magic === 0xfeedfacf ? head.readUInt32BE(4) : head.readUInt32LE(4)
  const arch = machTypes.get(type) ?? `processor ${type}`
  return machine.platform === "darwin" && arch === machine.arch ? [] : foreign(arch)
}

const machMagics = new Set([0xfeedface, 0xfeedfacf, 0xcefaedfe, 0xcffaedfe, 0xcafebabe])

const binary = (input: SignInput, machine: Machine): Sign[] => {
  const { path, head, mode } = input
  if (head.length < 8 || ((mode & 0o111) === 0 && !isLibrary.test(path))) return []
  const magic = head.readUInt32BE(0)
  if (magic === 0x7f454c46) return elf(path, head, machine)
  if (machMagics.has(magic)) return machO(head, machine)
  if (head[0] !== 0x4d || head[1] !== 0x5a || head.length < 64 || machine.platform === "win32") return []
  const at = head.readUInt32LE(60)
  const isPe = at + 4 <= head.length && head.readUInt32LE(at) === 0x4550
  return isPe ? [{ kind: "foreignBinary", detail: `a Windows binary; this machine is ${own(machine)}` }] : []
}

const secret = (detail: string): Sign[] => [{ kind: "likelySecret", detail: `${detail}; it was imported` }]

/** By the name alone: files whose use is to hold a secret. */
const secretNames: readonly (readonly [RegExp, string])[] = [
  [/^\.env(rc|\.(?!example$|sample$|template$|dist$|defaults$).+)?$/, "named like a file of environment variables"],
  [/^id_(rsa|dsa|ecdsa|ed25519)(_sk)?$/, "named like a private key of SSH"],
  [/^[._]netrc$/, "named like a file of passwords for hosts"],
  [/^\.(pypirc|git-credentials|pgpass|dockercfg)$/, "named like a file of credentials"],
  [/\.(p12|pfx|jks|keystore|ppk)$/, "named like a key store"],
  [/^(kubeconfig|.+\.kubeconfig)$/, "named like the access to a cluster"],
  [/^application_default_credentials\.json$/, "named like credentials for a cloud"]
]
const secretPaths: readonly (readonly [RegExp, string])[] = [
  [/(^|\/)\.aws\/credentials$/, "lies where credentials for a cloud lie"],
  [/(^|\/)\.azure\/[^/]*(token|profile)[^/]*\.json$/i, "lies where credentials for a cloud lie"],
  [/(^|\/)gcloud\/(credentials\.db|access_tokens\.db)$/, "lies where credentials for a cloud lie"],
  [/(^|\/)\.kube\/config$/, "lies where the access to a cluster lies"]
]

const has = (head: Buffer, pattern: RegExp): boolean => pattern.test(head.toString("latin1", 0, 65_536))

const secrets = (path: TreePath, name: string, head: Buffer): Sign[] => {
  for (const [pattern, detail] of secretNames) if (pattern.test(name)) return secret(detail)
  if (path.length !== name.length) {
    for (const [pattern, detail] of secretPaths) if (pattern.test(path)) return secret(detail)
  }
  if (head.length < 8) return []
  // A reference to a variable is how a token is kept out of such a file.
  if (name === ".npmrc" && has(head, /(_authToken|_auth|_password)\s*=\s*(?!\$\{|\$[A-Z])\S/)) {
    return secret("holds a token for a package registry")
  }
  if (name === ".yarnrc.yml" && has(head, /(npmAuthToken|npmAuthIdent)\s*:\s*["']?(?!\$\{)[^\s"']/)) {
    return secret("holds a token for a package registry")
  }
  if (name === "config.json" && path.endsWith(".docker/config.json") && has(head, /"auth"\s*:\s*"[^"]/)) {
    return secret("holds a password for a container registry")
  }
  // "-----BEGIN … PRIVATE KEY-----": a first look at four bytes, because every file of the tree comes by here.
  const begins = head[0] === 0x2d && head[1] === 0x2d && head[4] === 0x2d
  if (begins && /^-----BEGIN [A-Z0-9 ]*PRIVATE KEY/.test(head.toString("latin1", 0, 80))) {
    return secret("begins like a private key")
  }
  if (/\.(pem|key)$/.test(name) && head.includes("PRIVATE KEY-----")) return secret("holds a private key")
  if (head[0] === 0x50 && head.toString("latin1", 0, 20) === "PuTTY-User-Key-File-") {
    return secret("begins like a private key")
  }
  if (head[0] === 0x7b && name.endsWith(".json") && has(head, /"type"\s*:\s*"service_account"/)) {
    return secret("is a key of a cloud's service account")
  }
  return []
}

/** Where `target`, as written in a file of `directory` (absolute), leads: undefined outside of the root. */
const isInside = (source: TreePath, directory: TreePath, target: TreePath): boolean => {
  const parts: string[] = []
  for (const part of (target.startsWith("/") ? target : `${directory}/${target}`).split("/")) {
    if (part === "..") parts.pop()
    else if (part !== "" && part !== ".") parts.push(part)
  }
  const path = `/${parts.join("/")}`
  return path === source || path.startsWith(source === "/" ? "/" : `${source}/`)
}

const directoryOf = ({ path, source }: SignInput, levels: number): TreePath =>
  [source, ...path.split("/").slice(0, -levels)].join("/")

const pointers = (input: SignInput, name: string): Sign[] => {
  const { path, source, head } = input
  const text = (): string => head.toString("latin1", 0, 65_536)
  if (name === ".git") {
    const target = /^gitdir: (.*?)\r?\n?$/.exec(text())?.[1]
    if (target === undefined || isInside(source, directoryOf(input, 1), target)) return []
    return [
      {
        kind: "gitPointerFile",
        detail: "points to a git directory outside of the import: git commands in a fork would reach it"
      }
    ]
  }
  if (name === "alternates" && path.endsWith("objects/info/alternates")) {
    const targets = text()
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
    if (targets.every((target) => isInside(source, directoryOf(input, 2), target))) return []
    return [{ kind: "gitAlternates", detail: "some of the repository's objects lie outside of the import" }]
  }
  if (name === "pyvenv.cfg") {
    const home = /^home\s*=\s*(.*?)\s*$/m.exec(text())?.[1]
    const inside = home !== undefined && isInside(source, source, home)
    const whose = inside ? "an interpreter in the import" : "an interpreter outside of the import"
    return [
      {
        kind: "virtualEnvironment",
        detail: `uses ${whose}; its scripts work where the tree has the path it was made at`
      }
    ]
  }
  if (name === "activate" && path.endsWith("bin/activate")) {
    const made = /^\s*(?:export )?VIRTUAL_ENV=['"]?(\/[^'"\n]*)/m.exec(text())?.[1]
    if (made === undefined || made === directoryOf(input, 2)) return []
    return [{ kind: "virtualEnvironment", detail: "was made at another path: its scripts start what lies there" }]
  }
  return []
}

const pointerNames = new Set([".git", "alternates", "pyvenv.cfg", "activate"])

/** Every sign of one file. */
export const signsOf = (input: SignInput, machine: Machine): Sign[] => {
  const name = input.path.slice(input.path.lastIndexOf("/") + 1)
  const found = [...binary(input, machine), ...secrets(input.path, name, input.head)]
  return pointerNames.has(name) ? [...found, ...pointers(input, name)] : found
}
