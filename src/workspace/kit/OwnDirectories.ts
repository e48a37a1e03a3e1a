/**
 * Source directories that a workspace owns from the start: copied into the upper, so that rename(2) works on them.
 * Promise: the tree is the same before and after, to names, modes, links and times; one that was cut in the middle is known as such: what
 * lies in its upper is nobody's work. Rules: C14, W22, W23, L15; 04 "Projections".
 */
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { isBelow, parent, toBytes, type TreePath } from "../../base/PathBytes.ts"
import { FileSystemFailure } from "../WorkspaceError.ts"
import type { Beneath } from "./Beneath.ts"
import { finished, type Holder } from "./Holder.ts"
import { syncDirectory } from "./StoreDirectory.ts"

const markOf = (work: string): string => path.join(work, "owning")

/**
 * True of a workspace whose process was killed while it took its directories: nobody had it yet, and of a directory there may be less than
 * the base has.
 */
export const isHalfOwned = (work: string): boolean => fs.existsSync(markOf(work))

/** Durable both times: after a power cut, too, a half-owned upper must not pass for work, nor work for a half-owned upper. */
const marked = async (work: string, take: () => Promise<void>): Promise<void> => {
  fs.writeFileSync(markOf(work), "", { mode: 0o600 })
  syncDirectory(work)
  await take()
  fs.rmSync(markOf(work))
  syncDirectory(work)
}

/** The hard-link groups with a name below one of the directories, each with all of its names. */
export type LinksBelow = (directories: readonly TreePath[]) => Promise<readonly (readonly TreePath[])[]>

/** Any bytes as one word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const word = (path: TreePath): string => quoted(`./${path}`)

const above = (path: TreePath): TreePath => (path.includes("/") ? parent(path) : ".")

/** Lines of a script that work in a directory and put its time back. `mark` is a file that bears the time meanwhile. */
const keepingTime = (directory: TreePath, mark: string, lines: readonly string[]): readonly string[] => [
  `touch -r ${word(directory)} ${mark}`,
  ...lines,
  `touch -r ${mark} ${word(directory)}`
]

/** The copy takes the place of the base's directory, which it hides. */
const copying = (directory: TreePath, copy: string, mark: string): readonly string[] =>
  keepingTime(above(directory), mark, [
    `cp -a -- ${word(directory)} ${copy}`,
    `rm -rf -- ${word(directory)}`,
    `mv -- ${copy} ${word(directory)}`
  ])

/** What a copy has as a file of its own and the base has under names elsewhere too becomes one file again. */
const linking = (groups: readonly (readonly TreePath[])[], owned: readonly TreePath[], mark: string) => {
  const byParent = new Map<TreePath, string[]>()
  for (const names of groups) {
    const copy = (name: TreePath): TreePath | undefined => owned.find((directory) => isBelow(name, directory))
    const first = names.find((name) => copy(name) !== undefined)!
    // Names in one copy are one file already.
    for (const name of names) {
      if (name === first || copy(name) === copy(first)) continue
      const lines = byParent.get(above(name)) ?? []
      byParent.set(above(name), lines)
      lines.push(`ln -f -- ${word(first)} ${word(name)}`)
    }
  }
  return [...byParent].flatMap(([directory, lines]) => keepingTime(directory, mark, lines))
}

/**
 * Directories are named relative to the root; a trailing "/**" says the same. What is no directory there is passed over, as
 * a pattern that matches nothing. `id` names no entry of any tree; `work` is
 * the workspace's directory. Rejects with FileSystemFailure,
 * and with the reason of `signal`.
 */
export const ownDirectories = async (
  holder: Holder,
  tree: Beneath,
  directories: readonly string[],
  { id, work }: { readonly id: string; readonly work: string },
  linksBelow: LinksBelow,
  signal: AbortSignal
): Promise<void> => {
  const names = directories.map((pattern) => pattern.replace(/\/\*\*$/, "").replace(/\/+$/, ""))
  const present = names.flatMap((name) => {
    try {
      return tree.resolve(name, false, (place) =>
        place.stat?.isDirectory() === true && place.name !== "" ? [place.path] : []
      )
    } catch (error) {
      if ((error as { _tag?: string })._tag !== "PathError") throw error
      return []
    }
  })
  const owned = [...new Set(present)].filter((path, _, all) => !all.some((other) => isBelow(path, other)))
  if (owned.length === 0) return
  const groups = await linksBelow(owned)
  signal.throwIfAborted()
  const script = takingOver(tree, owned, groups, id)
  await marked(work, () => runInside(holder, script, signal))
}

const takingOver = (
  tree: Beneath,
  owned: readonly TreePath[],
  groups: readonly (readonly TreePath[])[],
  id: string
): readonly string[] => {
  const [copy, mark] = [word(`.coppice-own-${id}`), word(`.coppice-time-${id}`)]
  return [
    "set -e",
    `cd ${quoted(tree.mountPath)}`,
    ...owned.flatMap((directory) => copying(directory, copy, mark)),
    ...linking(groups, owned, mark),
    `rm -f ${mark}`
  ]
}

const runInside = async (holder: Holder, script: readonly string[], signal: AbortSignal): Promise<void> => {
  // Modes keep nobody out there: the user's own entries of mode 000 are copied too.
  const argv = [...holder.asMappedRoot(), "/bin/sh"]
  const child = spawn(argv[0]!, argv.slice(1), {
    stdio: ["pipe", "ignore", "pipe"],
    env: { PATH: "/usr/bin:/bin", LC_ALL: "C" }
  })
  const over = new AbortController()
  let said = ""
  child.stderr.setEncoding("latin1").on("data", (text: string) => {
    if (said.length < 4096) said += text
  })
  child.stdin.on("error", () => undefined)
  child.stdin.end(toBytes(`${script.join("\n")}\n`))
  // Aborted, what goes on inside is the caller's to end, with the workspace.
  const given = new Promise<never>((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true, signal: over.signal })
  })
  const code = await Promise.race([finished(child), given]).finally(() => over.abort())
  if (code === 0) return
  const [line = ""] = said.trim().split("\n")
  const why = line === "" ? `the shell ended with ${code}` : line.replace(/'?\.?\/[^\s':]+'?/g, "…")
  throw new FileSystemFailure({
    message: `A directory of \`ownDirs\` could not be copied: ${why}.`,
    remedy: "Free space on the store's disk, or name smaller directories; the workspace was not opened.",
    syscallCode: /No space left|Disk quota/.test(said) ? "ENOSPC" : "ECANCELED"
  })
}
