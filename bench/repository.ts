/**
 * A seeded generator of a repository's states, one after the other, as real work makes them; and the same of a real repository.
 * Promise: one seed gives one history, byte for byte; several languages, many small files, edits of a few lines, new and removed
 * files, renames, a lock file that grows, now and then an edit everywhere. Rules: 04 "Numbers" (history of 150 states).
 */
import { command } from "./measure.ts"
import { type Line, PackageText, proseLines, Random, scriptLines, typeLines } from "./tree.ts"

/** What leads from one state to the next. A moved file keeps its bytes unless it is written too. */
export interface Step {
  readonly moves: readonly { readonly from: string; readonly to: string }[]
  readonly removes: readonly string[]
  readonly writes: ReadonlyMap<string, Buffer>
  readonly message: string
}

const pythonLines: readonly Line[] = [
  (w) => `def ${w()}(${w()}, ${w()}=None):\n`,
  (w) => `    ${w()} = self.${w()}(${w()})\n`,
  (w) => `    if ${w()} is None:\n        return ${w()}.${w()}\n`,
  (w, n) => `    for ${w()} in range(${n()}):\n        ${w()}.append(${w()})\n`,
  (w) => `    """The ${w()} of ${w()}."""\n`,
  (w) => `import ${w()}\nfrom ${w()} import ${w()}\n`,
  (w) => `\n\nclass ${w()}(${w()}):\n`
]
const goLines: readonly Line[] = [
  (w) => `func (${w()} *${w()}) ${w()}(ctx context.Context) error {\n`,
  (w) => `\t${w()}, err := ${w()}.${w()}(ctx, ${w()})\n\tif err != nil {\n\t\treturn err\n\t}\n`,
  (w) => `\treturn ${w()}.${w()}(${w()})\n}\n\n`,
  (w) => `type ${w()} struct {\n\t${w()} string\n\t${w()} int64\n}\n\n`,
  (w) => `// ${w()} is the ${w()} of ${w()}.\n`
]
const styleLines: readonly Line[] = [
  (w) => `.${w()} .${w()} {\n`,
  (w, n) => `  margin: ${n() % 40}px;\n  color: #${(n() * 16777).toString(16).padStart(6, "0").slice(0, 6)};\n`,
  (w, n) => `  --${w()}: ${n()}px;\n`,
  () => "}\n\n"
]

interface Language {
  readonly folder: string
  readonly extension: string
  readonly lines: readonly Line[]
  readonly share: number
}
const languages: readonly Language[] = [
  { folder: "src", extension: "ts", lines: [...scriptLines, ...typeLines], share: 0.5 },
  { folder: "service", extension: "go", lines: goLines, share: 0.15 },
  { folder: "tools", extension: "py", lines: pythonLines, share: 0.12 },
  { folder: "web", extension: "css", lines: styleLines, share: 0.08 },
  { folder: "docs", extension: "md", lines: proseLines, share: 0.15 }
]

const lock = "package-lock.json"

class Work {
  readonly files = new Map<string, Buffer>()
  readonly #random: Random
  readonly #texts: readonly PackageText[]
  #made = 0

  constructor(seed: number) {
    this.#random = new Random(seed)
    this.#texts = Array.from({ length: 12 }, () => new PackageText(this.#random))
  }

  first(files: number): Step {
    const writes = new Map<string, Buffer>()
    for (let n = 0; n < files; n++) writes.set(...this.#newFile())
    writes.set(lock, Buffer.from(Array.from({ length: 600 }, () => this.#dependency()).join("")))
    return this.#done({ moves: [], removes: [], writes, message: "first" })
  }

  next(n: number): Step {
    const random = this.#random
    const paths = [...this.files.keys()].filter((path) => path !== lock).sort()
    const writes = new Map<string, Buffer>()
    const moves: { from: string; to: string }[] = []
    const removes: string[] = []
    // Work goes on where it was: most edits of one commit lie near each other.
    const focus = random.below(paths.length)
    const many = random.next() < 0.01 ? 80 : 1 + Math.floor(Math.exp(Math.abs(random.normal()) * 1.2 + 0.5))
    for (let i = 0; i < many; i++) {
      const near = random.next() < 0.7 ? focus + random.below(12) : random.below(paths.length)
      const path = paths[near % paths.length] as string
      if (!removes.includes(path)) writes.set(path, this.#edited(writes.get(path) ?? (this.files.get(path) as Buffer)))
    }
    if (random.next() < 0.35) writes.set(...this.#newFile())
    if (random.next() < 0.03) {
      const bytes = Buffer.alloc(2000 + random.below(20_000))
      for (let at = 0; at + 4 <= bytes.length; at += 4) bytes.writeUInt32LE(random.below(4294967296), at)
      writes.set(`web/images/picture-${n}.png`, bytes)
    }
    if (random.next() < 0.06) {
      const path = random.pick(paths)
      if (!writes.has(path)) removes.push(path)
    }
    if (random.next() < 0.1) {
      const from = random.pick(paths)
      const to = from.replace(/[^/]+$/, (name) => `renamed-${n}-${name}`)
      if (!removes.includes(from)) {
        moves.push({ from, to })
        const edited = writes.get(from)
        writes.delete(from)
        if (edited !== undefined) writes.set(to, edited)
      }
    }
    if (random.next() < 0.1) writes.set(lock, this.#newLock())
    return this.#done({ moves, removes, writes, message: `step ${n}` })
  }

  #done(step: Step): Step {
    for (const { from, to } of step.moves) {
      this.files.set(to, this.files.get(from) as Buffer)
      this.files.delete(from)
    }
    for (const path of step.removes) this.files.delete(path)
    for (const [path, bytes] of step.writes) this.files.set(path, bytes)
    return step
  }

  #language(): Language {
    let rest = this.#random.next()
    return languages.find(({ share }) => (rest -= share) < 0) ?? (languages[0] as Language)
  }

  #newFile(): [string, Buffer] {
    const random = this.#random
    const { folder, extension, lines } = this.#language()
    const part = random.skewed(this.#texts.length)
    const size = Math.min(60_000, Math.round(Math.exp(random.normal() * 1.1 + 8)))
    const path = `${folder}/part-${part}/file-${this.#made++}.${extension}`
    return [path, Buffer.from((this.#texts[part] as PackageText).lines(lines, size))]
  }

  /** A few lines changed, added or removed, in one to three places. */
  #edited(before: Buffer): Buffer {
    const random = this.#random
    const lines = before.toString("utf8").split("\n")
    const places = 1 + random.below(3)
    for (let i = 0; i < places; i++) {
      const at = random.below(lines.length)
      const removed = random.below(4)
      const added = random.pick(this.#texts).lines(random.pick(languages).lines, 30 + random.below(200))
      lines.splice(at, removed, ...added.split("\n"))
    }
    return Buffer.from(lines.join("\n"))
  }

  #dependency(): string {
    const random = this.#random
    const hash = Array.from({ length: 86 }, () => "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789+/"[random.below(48)])
    return `    "node_modules/dependency-${random.below(1e6)}": {\n      "version": "${random.below(9)}.${random.below(40)}.${random.below(20)}",\n      "integrity": "sha512-${hash.join("")}=="\n    },\n`
  }

  #newLock(): Buffer {
    const random = this.#random
    const entries = (this.files.get(lock) as Buffer).toString("utf8").split(/(?<=\},\n)/)
    for (let i = 0; i <= random.below(4); i++)
      entries.splice(random.below(entries.length), random.below(2), this.#dependency())
    return Buffer.from(entries.join(""))
  }
}

/** `states` steps; the first one fills an empty tree with `files` files. */
export function* generatedSteps(seed: number, states: number, files: number): Generator<Step> {
  const work = new Work(seed)
  yield work.first(files)
  for (let n = 1; n < states; n++) yield work.next(n)
}

/** The last `states` states along the first parents of a real repository's HEAD. Links and submodules are left out. */
export async function* repositorySteps(repository: string, states: number): AsyncGenerator<Step> {
  const git = (...args: readonly string[]) => command(["git", "-C", repository, ...args])
  const log = await git("log", "--first-parent", `--max-count=${states}`, "--format=%H", "--reverse", "HEAD")
  const commits = log.trim().split("\n")
  // The empty tree, by the name that every git gives it.
  let before = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
  for (const commit of commits) {
    const fields = (await git("diff-tree", "-r", "-z", "--no-renames", before, commit)).split("\0")
    const removes: string[] = []
    const writes = new Map<string, Buffer>()
    for (let n = 0; n + 1 < fields.length; n += 2) {
      const [, mode = "", , id = "", kind = ""] = (fields[n] as string).split(" ")
      const path = fields[n + 1] as string
      if (kind === "D" || !mode.startsWith("100")) removes.push(path)
      else writes.set(path, await blob(repository, id))
    }
    yield { moves: [], removes, writes, message: commit }
    before = commit
  }
}

const blob = async (repository: string, id: string): Promise<Buffer> =>
  Buffer.from(await command(["git", "-C", repository, "cat-file", "blob", id], undefined, "latin1"), "latin1")
