/**
 * A seeded generator of trees that look like an installed `node_modules`.
 * Promise: one seed and one size give one tree, byte for byte; file sizes, names, symlinks, duplicates and compressibility
 * are those of real packages, so that a store cannot win by a peculiarity of the data. Rules: workspaces.md, "Figures"; W13.
 */
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"

export interface TreeOptions {
  readonly seed: number
  /** Regular files, exactly. */
  readonly files: number
  /** Sum of the file sizes, within a few per cent. */
  readonly bytes: number
}

export interface TreeSummary {
  readonly files: number
  readonly directories: number
  readonly symlinks: number
  readonly bytes: number
}

/** 21,000 files and 400 MB: what the issues' bars are written for. */
export const fullSize: TreeOptions = { seed: 1, files: 21_000, bytes: 400e6 }

/** sfc32 (Chris Doty-Humphrey's small fast counting generator), seeded through splitmix32. */
export class Random {
  private readonly state = new Uint32Array(4)
  constructor(seed: number) {
    let z = seed >>> 0
    for (let i = 0; i < 4; i++) {
      z = (z + 0x9e3779b9) >>> 0
      let x = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
      x = Math.imul(x ^ (x >>> 15), 0x735a2d97)
      this.state[i] = x ^ (x >>> 15)
    }
  }
  next(): number {
    const s = this.state as Uint32Array & [number, number, number, number]
    const t = (s[0] + s[1] + s[3]) >>> 0
    s[3] = s[3] + 1
    s[0] = s[1] ^ (s[1] >>> 9)
    s[1] = s[2] + (s[2] << 3)
    s[2] = ((s[2] << 21) | (s[2] >>> 11)) + t
    return t / 4294967296
  }
  below(n: number): number {
    return Math.floor(this.next() * n)
  }
  /** An index below n that favours small ones, as word frequencies do. */
  skewed(n: number): number {
    return Math.floor(n * this.next() ** 2.5)
  }
  pick<A>(list: readonly A[]): A {
    return list[this.below(list.length)] as A
  }
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next())
  }
}

const stems =
  "get set is has on to from make parse read write file path node value index key item list map state error event option config data type name size count start end next prev first last match token scope stream buffer cache queue task module chunk source target result context handler callback parent child root entry line column offset length version range rule plugin loader schema field query param header body request response client server".split(
    " "
  )

const words = (random: Random, count: number): readonly string[] =>
  Array.from({ length: count }, () => {
    const parts = Array.from({ length: 1 + random.below(3) }, () => random.pick(stems))
    const name = parts.map((part, i) => (i === 0 ? part : part[0]?.toUpperCase() + part.slice(1))).join("")
    return random.next() < 0.3 ? `${name}${random.below(100)}` : name
  })

/** A short name, as a minifier gives them. */
const letters = (n: number): string =>
  String.fromCharCode(97 + (n % 26)) + (n % 7 < 3 ? String.fromCharCode(97 + ((n >> 3) % 26)) : "")

export type Line = (w: () => string, n: () => number) => string
export const scriptLines: readonly Line[] = [
  (w) => `  const ${w()} = ${w()}.${w()}(${w()});\n`,
  (w) => `    if (${w()} === undefined || ${w()}.${w()} === null) {\n      return ${w()};\n    }\n`,
  (w, n) => `  for (let i = 0; i < ${w()}.length; i += ${1 + (n() % 4)}) {\n`,
  () => "  }\n",
  () => "}\n\n",
  (w) => `function ${w()}(${w()}, ${w()}) {\n`,
  (w, n) => `      ${w()}[${n() % 64}] = ${w()} + ${n()};\n`,
  (w) => `  return ${w()}.${w()};\n`,
  (w) => `exports.${w()} = ${w()};\n`,
  (w) => `/**\n * ${w()} the ${w()} of ${w()} when ${w()} is ${w()}.\n */\n`,
  (w) => `  throw new TypeError("${w()} must not be ${w()} in ${w()}");\n`,
  (w, n) => `  0x${(n() * 4294967).toString(16)}, ${n()}.${n()}, "${w()}${n()}", 0x${(n() * 4294967).toString(16)},\n`,
  (w, n) =>
    `"use ${w()}";var ${letters(n())}=${letters(n())}(${n()}),${letters(n())}=${w()}.${letters(n())}||${letters(n())};\n`,
  (w, n) =>
    `!function(${letters(n())},${letters(n())}){${letters(n())}.${w()}=${letters(n())}[${n()}]?${n()}:${letters(n())}(${n()})}(this);\n`,
  (w) => `var ${w()} = require("./${w()}");\n`,
  (w) => `    ${w()}.${w()}(function (${w()}) { return ${w()}(${w()}, this.${w()}); });\n`
]
export const typeLines: readonly Line[] = [
  (w) => `export declare function ${w()}(${w()}: ${w()}, ${w()}?: string): Promise<${w()}>;\n`,
  (w) => `    readonly ${w()}: ${w()} | undefined;\n`,
  (w) => `export interface ${w()} extends ${w()} {\n`,
  () => "}\n",
  (w) => `    /** The ${w()} of the ${w()}. */\n    ${w()}?: ${w()};\n`
]
export const proseLines: readonly Line[] = [
  (w) => `The ${w()} of ${w()} is ${w()} unless ${w()} says so.\n`,
  (w) => `## ${w()} ${w()}\n\n`,
  (w) => `- \`${w()}\`: ${w()} and ${w()} for each ${w()}\n`,
  (w) => "```js\nconst " + w() + " = " + w() + "(" + w() + ");\n```\n"
]

const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

/** Names and content of one package: everything in it shares a vocabulary, which is what makes real packages compress. */
export class PackageText {
  private readonly vocabulary: readonly string[]
  private readonly random: Random
  constructor(random: Random) {
    this.random = random
    this.vocabulary = words(random, 60 + random.below(240))
  }
  lines(kinds: readonly Line[], size: number): string {
    const { random, vocabulary } = this
    const word = () => vocabulary[Math.floor(vocabulary.length * random.next() ** 1.5)] as string
    const number = () => random.below(1000)
    let text = ""
    while (text.length < size) text += random.pick(kinds)(word, number)
    return text.slice(0, size)
  }
  private sourceMap(size: number): string {
    let text = `{"version":3,"file":"index.js","sources":["../src/index.ts"],"names":[],"mappings":"`
    while (text.length < size - 2) {
      const { random } = this
      text += `${base64[random.skewed(64)]}A${base64[random.skewed(40)]}${base64[random.skewed(40)]}${random.next() < 0.2 ? ";" : ","}`
    }
    return `${text.slice(0, Math.max(0, size - 2))}"}`
  }
  private binary(size: number): Buffer {
    const bytes = Buffer.alloc(size)
    for (let i = 0; i < size; i += 4) {
      bytes.writeUInt32LE(this.random.below(4294967296), Math.min(i, Math.max(0, size - 4)))
    }
    return bytes
  }
  content(extension: string, size: number): string | Buffer {
    if (size < 4) return "\n".repeat(size)
    if (extension === "map") return this.sourceMap(size)
    if (extension === "wasm" || extension === "png") return this.binary(size)
    if (extension === "md" || extension === "txt") return this.lines(proseLines, size)
    return this.lines(extension === "d.ts" ? typeLines : scriptLines, size)
  }
}

const extensions: readonly (readonly [extension: string, share: number])[] = [
  ["js", 0.46],
  ["d.ts", 0.2],
  ["map", 0.12],
  ["json", 0.06],
  ["mjs", 0.06],
  ["md", 0.05],
  ["txt", 0.035],
  ["wasm", 0.005],
  ["png", 0.01]
]
const extensionFor = (random: Random): string => {
  let rest = random.next()
  for (const [extension, share] of extensions) if ((rest -= share) < 0) return extension
  return "js"
}

const manifest = (name: string, version: number): string =>
  `{\n  "name": "${name}",\n  "version": "1.${version}.0",\n  "main": "dist/index.js",\n  "license": "MIT"\n}\n`

const licence =
  `Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to use it.\n`.repeat(
    10
  )

/**
 * Relative sizes of installed files are close to log-normal with a median near 2.5 KB and a mean near 19 KB, cut
 * at 12 MB (the largest single script of a compiler). Each file takes its part of the bytes that are left, so that the sum is met.
 */
const sizesFor = (random: Random, { files, bytes }: TreeOptions): ((left: number) => number) => {
  const raw = Array.from({ length: files }, () => Math.exp(random.normal() * 1.9))
  const cap = Math.min(12e6, bytes / 4)
  let index = 0
  let rest = raw.reduce((sum, size) => sum + size, 0)
  return (left) => {
    const share = raw[index++] ?? 1
    const size = Math.round((share * left) / Math.max(rest, share))
    rest -= share
    return Math.max(1, Math.min(size, cap))
  }
}

/** Writes the tree into `target`, which must not exist yet. */
export const generateTree = (target: string, options: TreeOptions): TreeSummary => {
  const random = new Random(options.seed)
  const nextSize = sizesFor(random, options)
  const made = new Set<string>()
  const duplicates: (string | Buffer)[] = []
  let symlinks = 0
  let files = 0
  let bytes = 0
  const directory = (path: string): void => {
    if (made.has(path)) return
    if (path !== target) directory(dirname(path))
    mkdirSync(path, { mode: 0o755 })
    made.add(path)
  }
  const write = (path: string, content: string | Buffer): void => {
    directory(dirname(path))
    writeFileSync(path, content, { mode: 0o644, flag: "wx" })
    files++
    bytes += Buffer.byteLength(content)
  }

  directory(target)
  for (let number = 0; files < options.files; number++) {
    const scope = random.next() < 0.25 ? `@${random.pick(stems)}/` : ""
    const name = `${scope}${random.pick(stems)}-${random.pick(stems)}-${number}`
    // Now and then a package brings its own copy of a dependency, as npm does for conflicting versions.
    const nested = random.next() < 0.08 ? join(`${random.pick(stems)}-${number}`, "node_modules") : ""
    const home = join(target, "node_modules", nested, name)
    const text = new PackageText(random)
    const folders = ["", ...Array.from({ length: random.below(4) }, () => random.pick(stems))]
    const count = Math.min(options.files - files, 2 + Math.floor(Math.exp(random.normal() * 1.1 + 2.8)))
    let script = ""
    for (let i = 0; i < count; i++) {
      const size = nextSize(options.bytes - bytes)
      const file = `${random.pick(stems)}-${i}`
      if (i === 0) {
        write(join(home, "package.json"), manifest(name, number))
      } else if (i === 1) {
        write(join(home, "LICENSE"), licence)
      } else if (duplicates.length > 0 && random.next() < 0.06) {
        write(join(home, "vendor", `${file}.js`), random.pick(duplicates))
      } else if (script !== "" && random.next() < 0.2) {
        // The same module for the other module system: alike, and not equal.
        write(join(home, "esm", `${file}.mjs`), script.replaceAll("exports.", "export let ").replaceAll("var ", "let "))
        script = ""
      } else {
        const extension = extensionFor(random)
        const content = text.content(extension, size)
        if (extension === "js" && typeof content === "string") script = content
        if (duplicates.length < 500 && content.length < 50_000) duplicates.push(content)
        write(join(home, "dist", random.pick(folders), `${file}.${extension}`), content)
      }
    }
    if (random.next() < 0.15 && files < options.files) {
      nextSize(0)
      write(join(home, "cli.js"), `#!/usr/bin/env node\nrequire("./dist");\n`)
      chmodSync(join(home, "cli.js"), 0o755)
      directory(join(target, "node_modules", ".bin"))
      symlinkSync(join("..", nested, name, "cli.js"), join(target, "node_modules", ".bin", `run-${number}`))
      symlinks++
    }
  }
  return { files, directories: made.size, symlinks, bytes }
}
