/**
 * Random histories beside git: the same commits in both, and the same answers from log, diff and blame, in the smallest pages.
 * Rules: L3, W3, W8.
 */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it, vi } from "vitest"
import type { Change, FileOperation, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { seededRandom } from "../seededRandom.ts"
import { scratch } from "./storeFixture.ts"
import { provider, run } from "./storeProvider.ts"

vi.setConfig({ testTimeout: 120_000 })

const names = ["a", "b", "d/a", "d/b", "e"]
const linesOf = (text: string): string[] => text.split("\n").filter((line) => line !== "")

/** One change of a file that is or is not there, made in git's tree and returned for the store. */
const change = (root: string, random: (below: number) => number, serial: () => number): FileOperation => {
  const path = names[random(names.length)]!
  const at = join(root, path)
  const what = random(10)
  if (what === 1 && fs.existsSync(at)) {
    fs.rmSync(at)
    return { op: "remove", path }
  }
  if (what === 2 && fs.existsSync(at)) {
    const mode = (fs.statSync(at).mode & 0o100) === 0 ? 0o755 : 0o644
    fs.chmodSync(at, mode)
    return { op: "write", path, bytes: fs.readFileSync(at), mode }
  }
  let bytes: string
  if (!fs.existsSync(at) || what === 0) {
    const end = random(4) === 0 ? "\r\n" : "\n"
    bytes = Array.from({ length: random(12) }, () => `line ${serial()}${end}`).join("")
    if (random(3) === 0) bytes += `no feed ${serial()}`
  } else {
    const lines = fs.readFileSync(at, "latin1").split(/(?<=\n)/)
    const place = random(lines.length + 1)
    const how = random(3)
    lines.splice(place, how === 0 ? 0 : 1 + random(2), ...(how === 1 ? [] : [`new ${serial()}\n`]))
    bytes = lines.join("")
  }
  fs.mkdirSync(join(at, ".."), { recursive: true })
  fs.writeFileSync(at, bytes)
  return { op: "write", path, bytes }
}

const isDirectory = ({ before, after }: Change): boolean => (before ?? after)!.type === "directory"
const statusOf = ({ kind, path }: Change): string =>
  `${kind === "added" ? "A" : kind === "removed" ? "D" : "M"}\t${path}`

/** All pages of a question. */
const all = async <P extends { readonly next: string | null }, A>(
  ask: (after: { readonly after?: string }) => Promise<P>,
  items: (page: P) => readonly A[]
): Promise<A[]> => {
  const found: A[] = []
  for (let after: string | null | undefined; after !== null; ) {
    const page = await ask(after === undefined ? {} : { after })
    found.push(...items(page))
    after = page.next
  }
  return found
}

const blamed = (store: WorkspaceProvider, ref: string, path: string): Promise<string[]> =>
  all(
    (after) => run(store.blame(ref, path, { limit: 3, ...after })),
    (page) => page.lines.map(({ commit, original, text }) => `${commit} ${original.path}:${original.line} ${text}`)
  )

it.each([1, 2])(
  "L3 W3 W8 log, diff and blame answer as git does, whatever is written, removed and comes again (seed %i)",
  async (seed) => {
    const random = seededRandom(seed)
    let count = 0
    const root = scratch()
    const git = (...args: string[]): string =>
      execFileSync("git", ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.autocrlf=false", ...args], {
        cwd: root,
        encoding: "latin1"
      })
    git("init", "-q")
    const store = await provider(join(scratch(), "s"))
    const receipt = await run(store.importDirectory({ source: scratch(), name: "empty" }))
    const branch = (await run(store.fork(receipt.layer, { name: "work" }))).id
    const commits: { readonly ours: string; readonly theirs: string }[] = []
    for (let n = 0; n < 40; n += 1) {
      const operations = Array.from({ length: 1 + random(2) }, () => change(root, random, () => (count += 1)))
      const made = await run(store.applyTo(branch, operations))
      git("add", "-A")
      const same = git("status", "--porcelain") === ""
      expect([n, made.outcome]).toEqual([n, same ? "unchanged" : "committed"])
      if (same) continue
      git("commit", "-qm", `${n}`)
      commits.push({ ours: made.commit, theirs: git("rev-parse", "HEAD").trim() })
    }
    const ours = new Map(commits.map((one) => [one.theirs, one.ours]))
    const any = () => commits[random(commits.length)]!

    for (let n = 0; n < 20; n += 1) {
      const [from, to] = [any(), any()]
      const changes = await all(
        (after) => run(store.diff(from.ours, to.ours, { limit: 1, ...after })),
        (page) => page.changes
      )
      const told = linesOf(git("diff", "--name-status", "--no-renames", from.theirs, to.theirs))
      expect(changes.filter((one) => !isDirectory(one)).map(statusOf)).toEqual(told)
    }
    for (const path of [...names, "d"]) {
      const log = await all(
        (after) => run(store.log(branch, { path, limit: 1, ...after })),
        (page) => page.commits.map((commit) => commit.id)
      )
      const told = linesOf(git("log", "--format=%H", "--", path)).map((id) => ours.get(id))
      expect([path, log.filter((id) => id !== receipt.commit)]).toEqual([path, told])
    }
    for (let n = 0; n < 8; n += 1) {
      const at = any()
      for (const path of linesOf(git("ls-tree", "-r", "--name-only", at.theirs))) {
        const told: string[] = []
        let [id, line, file] = ["", "", ""]
        for (const text of git("blame", "--line-porcelain", at.theirs, "--", path).split("\n")) {
          if (/^[0-9a-f]{40} \d+ \d+/.test(text)) [id, line] = text.split(" ") as [string, string]
          else if (text.startsWith("filename ")) file = text.slice(9)
          else if (text.startsWith("\t")) told.push(`${ours.get(id)} ${file}:${line} ${text.slice(1)}`)
        }
        expect(await blamed(store, at.ours, path)).toEqual(told)
      }
    }
  }
)
