/**
 * The arrows between rooms, read from the import specifiers of the sources.
 * Promise: every import, export-from, import() and type import in src/ and providers/ is held against one table, and there is no
 * list of exceptions. Rules: 01-architecture.md, "Arrows"; P4, P9.
 */
import { existsSync, readFileSync, readdirSync } from "node:fs"
import { stripTypeScriptTypes } from "node:module"
import { dirname, join, relative, sep } from "node:path"
import { lineOf, literalAt, scanSource } from "../../scripts/source-text.ts"

const ground = ["base", "sqlite"]
const rooms = ["governance", "session", "host", "workspace", "explore", "evaluator"]

/** What each place may import of ours, beside itself. A place that is not in the table may not exist. */
const arrows: Readonly<Record<string, readonly string[]>> = {
  base: [],
  sqlite: ["base"],
  governance: ground,
  host: ground,
  workspace: ground,
  session: [...ground, "governance", "host"],
  explore: [...ground, "governance", "workspace"],
  evaluator: [...ground, "governance", "workspace", "host"],
  // Composed journeys: above the rooms, below the entry points, with no rule of its own (docs/decisions/002).
  journey: [...ground, ...rooms],
  assembly: [...ground, ...rooms],
  testkit: [...ground, ...rooms],
  // Files at the top of src/: the index, the presets, the promise entry.
  // The same services as promises (docs/decisions/024); its entry is src/promise.ts.
  promise: [...ground, ...rooms, "assembly", "journey", "entry"],
  entry: [...ground, ...rooms, "assembly", "journey", "promise"],
  cli: [...ground, ...rooms, "assembly", "journey", "entry"]
}

/** Contracts that a provider may import, by the first part of its name. */
const contracts: readonly (readonly [prefix: string, contract: readonly string[]])[] = [
  ["authority-", ["governance"]],
  // The broker of attached sessions is the contract that this one offers to a host.
  ["host-mcp", ["session", "host"]],
  ["host-", ["host"]],
  ["layerfs", ["workspace"]],
  ["git-worktree", ["workspace"]],
  ["reflink", ["workspace"]]
]

export interface Import {
  readonly specifier: string
  /** An `import()` expression; its specifier is "" when it is not a literal. */
  readonly dynamic: boolean
  readonly line: number
}

/** Every import of a source text. */
export const importsOf = (source: string): readonly Import[] => {
  const text = scanSource(source)
  const found: Import[] = []
  const add = (quoteAt: number, at: number, dynamic: boolean): void => {
    found.push({ specifier: literalAt(text, quoteAt)?.text ?? "", dynamic, line: lineOf(source, at) })
  }
  // `import x from "y"`, `export * from "y"`, `import "y"`: up to the quote there is no other quote and no semicolon.
  for (const match of text.code.matchAll(
    /(?<![.\w$])(?:import|export)\b(?!\s*[.(])(?:[^"'`;=()]*?\bfrom\s*|\s*)(["'])/g
  )) {
    add(match.index + match[0].length - 1, match.index, false)
  }
  const calls = [...text.code.matchAll(/(?<![.\w$])(?:import|require)\s*\(\s*/g)]
  // A type such as `import("./A.ts").B` is gone once types are stripped (to blanks, so that positions stay): an import, not dynamic.
  const stripped = calls.length === 0 ? source : stripTypeScriptTypes(source)
  for (const match of calls) {
    add(match.index + match[0].length, match.index, stripped.startsWith(match[0].trimEnd(), match.index))
  }
  return found.sort((a, b) => a.line - b.line)
}

/** Where a file belongs: a room, `entry` for a file at the top of src/, or `providers/NAME`. */
const placeOf = (file: string): string => {
  const [top = "", second = "", third] = file.split("/")
  if (top === "providers") return third === undefined ? "providers" : `providers/${second}`
  return third === undefined ? "entry" : second
}

const allowed = (place: string): readonly string[] | undefined => {
  if (!place.startsWith("providers/")) return arrows[place]
  const contract = contracts.find(([prefix]) => place.slice("providers/".length).startsWith(prefix))
  return contract === undefined ? undefined : [...ground, ...contract[1]]
}

/** The file that a specifier names, relative to the root; undefined for a package or a Node module. */
const targetOf = (root: string, file: string, specifier: string): string | undefined => {
  if (specifier.startsWith("."))
    return relative(root, join(root, dirname(file), specifier))
      .split(sep)
      .join("/")
  const own = /^coppice(?:\/(.*))?$/.exec(specifier)
  if (own === null) return undefined
  const entry = own[1] ?? "index"
  if (entry.startsWith("providers/")) return `${entry}/index.ts`
  return existsSync(join(root, "src", entry)) ? `src/${entry}/index.ts` : `src/${entry}.ts`
}

const complaintsAbout = (root: string, file: string, item: Import): readonly string[] => {
  const place = placeOf(file)
  const found: string[] = []
  if (item.dynamic) {
    // Late loading of another place is assembly's; a provider may load a module of its own late (a worker thread's role).
    const ownModule = place.startsWith("providers/") && item.specifier.startsWith("./")
    if (place !== "assembly" && !ownModule) found.push("import() belongs to assembly alone")
    if (item.specifier === "" || item.specifier.includes("…")) found.push("import() needs a literal specifier")
  }
  if (item.specifier === "effect") found.push("the index of effect is slow to load: import its submodule")
  if (item.specifier === "@effect/platform-node") found.push("the index of @effect/platform-node: import its submodule")
  if (/^(?:node:)?child_process$/.test(item.specifier) && (place === "host" || place.startsWith("providers/host-"))) {
    found.push("a host is started through TurnEnvironment.spawn, never through child_process")
  }
  const target = targetOf(root, file, item.specifier)
  if (target === undefined) return found
  const other = placeOf(target)
  const outside = !/^(?:src|providers)\//.test(target)
  if (outside) found.push("reaches out of src/ and providers/")
  else if (other !== place) {
    const loadsProvider = place === "assembly" && item.dynamic && other.startsWith("providers/")
    if (!loadsProvider && !(allowed(place) ?? []).includes(other)) found.push(`${place} may not import ${other}`)
  }
  return found
}

const sourcesBelow = (root: string, directory: string): readonly string[] =>
  !existsSync(join(root, directory))
    ? []
    : readdirSync(join(root, directory), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && /\.[cm]?[jt]sx?$/.test(entry.name))
        .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join("/"))

/** Every breach of the arrows below `root`, as `file:line specifier: why`, and how many imports were looked at. */
export const checkImports = (root: string): { readonly breaches: readonly string[]; readonly imports: number } => {
  const breaches: string[] = []
  let imports = 0
  for (const file of [...sourcesBelow(root, "src"), ...sourcesBelow(root, "providers")].sort()) {
    if (allowed(placeOf(file)) === undefined) breaches.push(`${file}: ${placeOf(file)} is not in the table of arrows`)
    for (const item of importsOf(readFileSync(join(root, file), "utf8"))) {
      imports++
      for (const why of complaintsAbout(root, file, item))
        breaches.push(`${file}:${item.line} ${item.specifier}: ${why}`)
    }
  }
  return { breaches, imports }
}
