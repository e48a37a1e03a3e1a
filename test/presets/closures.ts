/**
 * What each entry point of the package loads when it is imported, and what each preset has loaded and touched after its first use.
 * Promise: exact: a room, package, Node module or file that is loaded or touched and does not stand here fails a test, and so does one
 * that stands here and is not. Rules: V1, P1 to P4, P9.
 */
import { isBuiltin } from "node:module"
import { sep } from "node:path"

export interface Closure {
  /** Rooms of src/ and providers/; a file at the top of src/ by its name. */
  readonly rooms: readonly string[]
  readonly packages: readonly string[]
  /** Modules of Node beside node:fs, whose calls are noted one by one. */
  readonly node: readonly string[]
}

const closure = (rooms: string, packages: string, node: string): Closure => {
  const words = (text: string) => text.split(" ").filter((word) => word !== "")
  return { rooms: words(rooms), packages: words(packages), node: words(node).map((name) => `node:${name}`) }
}

const ours = "canonicalize effect uuid"

/** By the name under which the package exports it. */
export const imported: Readonly<Record<string, Closure>> = {
  ".": closure(
    "base evaluator explore governance host index.ts journey session sqlite workspace",
    ours,
    "buffer child_process crypto events fs/promises os path sqlite stream timers/promises"
  ),
  "./minimal": closure("assembly base governance host minimal.ts session workspace", ours, "child_process crypto path"),
  "./standard": closure(
    "assembly base explore governance host session standard.ts workspace",
    ours,
    "child_process crypto path"
  ),
  "./promise": closure(
    "assembly base evaluator explore governance host journey minimal.ts promise promise.ts session sqlite standard.ts workspace",
    ours,
    "buffer child_process crypto events fs/promises os path sqlite stream timers/promises"
  ),
  "./governance": closure("base governance", ours, "child_process crypto"),
  "./session": closure("base governance host session", ours, "child_process crypto fs/promises path stream"),
  "./host": closure("base host", "effect", "child_process crypto fs/promises path stream timers/promises"),
  "./provider-kit": closure(
    "base sqlite workspace",
    ours,
    "buffer child_process crypto events fs/promises net os path perf_hooks sqlite stream stream/promises timers/promises util worker_threads zlib"
  ),
  "./workspace": closure(
    "base workspace",
    "canonicalize effect",
    "buffer child_process crypto events fs/promises os path"
  ),
  "./explore": closure("base explore governance", "effect uuid", "crypto"),
  "./evaluator": closure(
    "base evaluator governance workspace",
    ours,
    "buffer child_process crypto fs/promises os path"
  ),
  "./assembly": closure(
    "assembly base governance host workspace",
    ours,
    "child_process crypto os path stream timers/promises"
  ),
  "./testkit": closure(
    "base governance testkit workspace",
    ours,
    "assert assert/strict buffer child_process crypto events path readline"
  ),
  "./providers/layerfs": closure(
    "base providers/layerfs sqlite workspace",
    ours,
    "buffer child_process crypto events fs/promises net os path perf_hooks sqlite stream stream/promises util worker_threads"
  ),
  "./providers/git-worktree": closure(
    "base providers/git-worktree sqlite workspace",
    ours,
    "buffer child_process crypto events fs/promises net os path perf_hooks sqlite stream stream/promises timers/promises util worker_threads zlib"
  ),
  "./providers/reflink": closure(
    "base providers/reflink sqlite workspace",
    ours,
    "buffer child_process crypto events fs/promises net os path perf_hooks sqlite stream stream/promises timers/promises util worker_threads zlib"
  ),
  "./providers/host-process": closure("base host providers/host-process", "effect", ""),
  "./providers/authority-sqlite": closure(
    "base governance providers/authority-sqlite sqlite",
    ours,
    "child_process crypto path sqlite"
  )
}

/** What a preset has loaded beside its import, after governed work. */
export const governed = closure("providers/authority-sqlite sqlite", "", "sqlite")

/** What the standard preset has loaded beside that, after the first use of a workspace. */
export const workspaceUsed = closure(
  "providers/layerfs",
  "",
  "buffer events fs/promises net os perf_hooks stream stream/promises util worker_threads"
)

export const together = (...closures: readonly Closure[]): Closure => {
  const all = (of: keyof Closure) => [...new Set(closures.flatMap((one) => one[of]))].toSorted()
  return { rooms: all("rooms"), packages: all("packages"), node: all("node") }
}

const roomOf = (file: string): string => {
  const [top = "", second = "", third] = file.split("/")
  if (top === "providers") return `providers/${second}`
  return top === "src" ? second : `${top}/${second}${third === undefined ? "" : `/${third}`}`
}

/** The closure of what was loaded; `files` are those of this repository, relative to its root. */
export const closureOf = (files: readonly string[], modules: readonly string[]): Closure => {
  const sorted = (names: readonly string[]) => [...new Set(names)].toSorted()
  return {
    rooms: sorted(files.filter((file) => !file.includes("node_modules/")).map(roomOf)),
    packages: sorted(modules.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [])),
    node: sorted(modules.filter((url) => isBuiltin(url) && url !== "node:fs"))
  }
}

/** What governed work reads of the machine: which boot this is (G36). The project, by default the working directory, is looked up. */
export const machineFiles = ["/proc/sys/kernel/random/boot_id", "/proc/uptime"]

/** Programs that the first use of a workspace looks for on the PATH, to know what it may run later. */
export const tools = /\/(?:setpriv|unshare|nsenter|mount|perl|sh|env|cat)$/

/** What an opened store reads of its own process, to show others that it lives (LifeSign.ts). */
export const ownIdentity = /^\/proc\/(?:self\/ns\/pid|\d+\/stat)$/

/** Paths that were asked for beside code, the store and its parents, and whatever else is declared. */
export const undeclared = (
  paths: readonly string[],
  place: { readonly root: string; readonly store: string },
  declared: (path: string) => boolean = () => false
): readonly string[] =>
  [...new Set(paths)].filter((path) => {
    const code =
      (path.startsWith(place.root + sep) || path.includes("/node_modules/")) && /\.(?:[cm]?[jt]s|json)$/.test(path)
    const inStore = path.startsWith(place.store + sep) || `${place.store}/`.startsWith(`${path}/`)
    return !code && !inStore && !declared(path)
  })
