/**
 * `npm run real-trees -- [--provider layerfs|git-worktree|reflink] [--only NAME] [--place DIRECTORY] [--json]`: trees that people have, each
 * imported, forked, used, checkpointed, exported and compared with what lies on the disk.
 * Promise: a tree that cannot be made here is told with its reason; the first difference is named; nothing is left. Rules: K1, W6, W13, C22.
 */
import { mkdirSync, mkdtempSync, realpathSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import * as Effect from "effect/Effect"
import { comparedBy, differences, lookAt } from "../src/testkit/TreeLook.ts"
import { removeTree } from "../src/workspace/kit/RemoveTree.ts"
import type { WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { type RealTree, realTrees } from "./real-trees/trees.ts"

const openers = {
  layerfs: async (store: string) => (await import("../providers/layerfs/index.ts")).openLayerFs({ store }),
  "git-worktree": async (store: string) =>
    (await import("../providers/git-worktree/index.ts")).openGitWorktree({ store }),
  reflink: async (store: string) => (await import("../providers/reflink/index.ts")).openReflink({ store })
} as const
type ProviderName = keyof typeof openers

interface Row {
  readonly tree: string
  readonly outcome: "passed" | "failed" | "refused" | "skipped"
  readonly reason: string | null
  readonly files: number | null
  readonly seconds: Readonly<Record<string, number>>
}

const usage =
  "npm run real-trees -- [--provider layerfs|git-worktree|reflink] [--only NAME] [--place DIRECTORY] [--json]"

const fail = (text: string): never => {
  console.error(`${text}\nRemedy: ${usage}`)
  process.exit(2)
}

const given = () => {
  try {
    return parseArgs({
      options: {
        provider: { type: "string", default: "layerfs" },
        only: { type: "string" },
        place: { type: "string", default: "/var/tmp" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", default: false }
      }
    }).values
  } catch (error) {
    return fail((error as Error).message)
  }
}

const clock = () => {
  const seconds: Record<string, number> = {}
  let since = performance.now()
  return {
    seconds,
    lap: (name: string): void => {
      seconds[name] = Number(((performance.now() - since) / 1000).toFixed(2))
      since = performance.now()
    }
  }
}

const expect = (what: string, text: string, says: RegExp, saysNot?: RegExp): void => {
  if (!says.test(text) || saysNot?.test(text) === true) throw new Error(`${what}: ${text.slice(0, 2000)}`)
}

/** What a fork's workspace must hold: the tree as it was made, with the same commands run on it where it lies. */
const attempt = (
  tree: RealTree,
  provider: WorkspaceProvider,
  at: string,
  place: string,
  timer: ReturnType<typeof clock>
) =>
  Effect.gen(function* () {
    const { lap } = timer
    const receipt = yield* provider.importDirectory({ source: at })
    lap("import")
    const manifest = yield* provider.manifest
    const branch = yield* provider.fork(receipt.layer, { name: tree.name })
    lap("fork")
    const passEnv = ["RUSTUP_HOME", "CARGO_HOME"]
    yield* Effect.scoped(
      Effect.gen(function* () {
        const workspace = yield* provider.open(branch.id)
        lap("open")
        const used = yield* workspace.exec(tree.use, { passEnv })
        expect("used", used.stdout.text + used.stderr.text, tree.says)
        lap("use")
        const changed = yield* workspace.exec(tree.change, { passEnv })
        if (changed.exitCode !== 0) throw new Error(`changed: ${changed.stderr.text}`)
        lap("change")
        const outcome = yield* workspace.checkpoint()
        if (outcome.outcome !== "committed") throw new Error(`checkpoint: ${outcome.outcome}`)
        lap("checkpoint")
      })
    )
    lap("close")
    const original = join(place, "original")
    yield* provider.exportDirectory(receipt.layer, original)
    lap("export")
    const own = (path: string): boolean =>
      manifest.provider === "git-worktree" && (path === ".git" || path.startsWith(".git/"))
    const look = (root: string) => new Map([...lookAt(root)].filter(([path]) => !own(path)))
    const unlike = differences(look(at), look(original), comparedBy(manifest, receipt))
    if (unlike.length > 0) throw new Error(`the export differs: ${unlike.slice(0, 5).join("; ")}`)
    lap("compare")
    if (tree.again !== undefined) {
      const second = yield* provider.fork(branch.id, { name: `${tree.name} again` })
      const { use, says, saysNot } = tree.again
      const { result } = yield* provider.execOn(second.id, use, { passEnv })
      expect("used again", result.stdout.text + result.stderr.text, says, saysNot)
      lap("again")
    }
    return receipt.files
  })

const row = async (tree: RealTree, name: ProviderName, parent: string): Promise<Row> => {
  const lack = tree.needs?.() ?? null
  if (lack !== null) return { tree: tree.name, outcome: "skipped", reason: lack, files: null, seconds: {} }
  const place = realpathSync(mkdtempSync(join(parent, "coppice-real-")))
  const timer = clock()
  try {
    const at = join(place, "tree")
    mkdirSync(join(place, "beside"))
    tree.make(at, join(place, "beside"))
    timer.lap("make")
    const open = await openers[name](join(place, "store"))
    const files = await Effect.runPromise(
      Effect.scoped(Effect.flatMap(open, (provider) => attempt(tree, provider, at, place, timer)))
    )
    return { tree: tree.name, outcome: "passed", reason: null, files, seconds: timer.seconds }
  } catch (error) {
    const { message, stderr } = error as Error & { readonly stderr?: string }
    const reason = `${message}${stderr === undefined ? "" : ` ${stderr.slice(-500)}`}`
    const outcome = (error as { readonly _tag?: string })._tag === "ImportRefused" ? "refused" : "failed"
    return { tree: tree.name, outcome, reason, files: null, seconds: timer.seconds }
  } finally {
    await removeTree(place)
  }
}

const { provider, only, place, json, help } = given()
if (help) {
  console.log(`${usage}

  --provider  layerfs when absent
  --only      one tree of ${realTrees.map(({ name }) => name).join(", ")}
  --place     where trees and store are made, and removed again; /var/tmp when absent; on btrfs or XFS for reflink
  --json      one object
  exit code   0 none failed, 1 one failed, 2 not understood`)
  process.exit(0)
}
if (!Object.hasOwn(openers, provider)) fail(`There is no provider ${provider}.`)
const wanted = realTrees.filter(({ name }) => only === undefined || name === only)
if (wanted.length === 0) fail(`There is no tree ${only}: ${realTrees.map(({ name }) => name).join(", ")}.`)
const rows: Row[] = []
for (const tree of wanted) {
  const one = await row(tree, provider as ProviderName, place)
  rows.push(one)
  const laps = Object.entries(one.seconds).map(([name, seconds]) => `${name} ${seconds}`)
  if (!json)
    console.log(
      `${one.outcome} ${one.tree} (${one.files ?? "no"} files) ${laps.join(", ")}${one.reason === null ? "" : `\n  ${one.reason}`}`
    )
}
if (json) console.log(JSON.stringify({ provider, rows }, null, 2))
process.exitCode = rows.some(({ outcome }) => outcome === "failed") ? 1 : 0
