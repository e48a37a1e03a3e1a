/**
 * The workspace suite over providers that break their word: each lie is noticed by the scenario that is there for it.
 * Promise: the same scenario passes over the provider that keeps its word (workspaces.test.ts). Rules: K1 to K4, W1.
 */
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { expect, test } from "vitest"
import { type PlaceUnderTest, titleOf, workspaceConformance, type WorkspaceUnderTest } from "../../src/testkit/index.ts"
import type { Workspace, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { type WorkspaceKind, workspacesOf } from "./workspaceKinds.ts"

type Lie = (provider: WorkspaceProvider) => Partial<WorkspaceProvider>

/** A provider of which some calls lie. */
const lying = (kind: WorkspaceKind, lie: Lie, holds: WorkspaceUnderTest["holds"] = {}): WorkspaceUnderTest => {
  const under = workspacesOf(kind, { fuzz: { rounds: 4 } })
  const create = async (): Promise<PlaceUnderTest> => {
    const place = await under.create()
    return { ...place, open: Effect.map(place.open, (provider) => ({ ...provider, ...lie(provider) })) }
  }
  return { ...under, create, holds: { ...under.holds, ...holds } }
}

/** A lie of the workspaces that are opened. */
const inside =
  (lie: (workspace: Workspace) => Partial<Workspace>): Lie =>
  (provider) => ({
    open: (branch, options) =>
      Effect.map(provider.open(branch, options), (workspace) => ({ ...workspace, ...lie(workspace) }))
  })

/** A lie about what is exported. */
const exported =
  (spoil: (target: string) => void): Lie =>
  (provider) => ({
    exportDirectory: (ref, target, options) =>
      Effect.tap(provider.exportDirectory(ref, target, options), () => Effect.sync(() => spoil(target)))
  })

const none: Lie = () => ({})

const noticed: readonly (readonly [what: string, scenario: string, under: WorkspaceUnderTest])[] = [
  [
    "a fork that is its parent",
    "parallel edits of forks stay apart",
    lying("layerfs-copy", (provider) => ({
      fork: (ref, options) => (ref.startsWith("brn_") ? provider.branch(ref) : provider.fork(ref, options))
    }))
  ],
  [
    "a commit of nothing",
    "what changes nothing makes no commit",
    lying(
      "layerfs-copy",
      inside((workspace) => ({ checkpoint: () => workspace.checkpoint({ keepTimes: true }) }))
    )
  ],
  [
    "a mode that is lost",
    "permission bits are kept",
    lying(
      "layerfs-copy",
      exported((target) => fs.existsSync(join(target, "s")) && fs.chmodSync(join(target, "s"), 0o711))
    )
  ],
  [
    "a link that is followed",
    "symbolic links stay links",
    lying(
      "layerfs-copy",
      exported((target) => {
        fs.rmSync(join(target, "l"))
        fs.writeFileSync(join(target, "l"), "g")
      })
    )
  ],
  [
    "a directory that is left out because it is empty",
    "a whole project is imported",
    lying(
      "layerfs-copy",
      exported((target) => fs.rmdirSync(join(target, "empty")))
    )
  ],
  [
    "a digest of something else",
    "a whole project is imported",
    lying("layerfs-copy", (provider) => ({
      candidate: (ref, options) =>
        Effect.map(provider.candidate(ref, options), (found) => ({ ...found, treeDigest: `sha256:${"0".repeat(64)}` }))
    }))
  ],
  [
    "an operation that is forgotten",
    "an operation whose reply was lost",
    lying("layerfs-copy", () => ({ findOperation: () => Effect.succeed({ state: "absent" as const }) }))
  ],
  [
    "work that is dropped at the end",
    "what no checkpoint holds is kept",
    lying("layerfs-copy", () => ({ left: Effect.succeed([]) }))
  ],
  [
    "a verification that looks at nothing",
    "stored bytes that were altered",
    lying("layerfs-copy", (provider) => ({
      verify: (options) => Effect.map(provider.verify(options), (report) => ({ ...report, ok: true }))
    }))
  ],
  [
    "a time limit that is not told",
    "a time limit ends the command",
    lying(
      "layerfs-copy",
      inside((workspace) => ({
        exec: (command, options) =>
          Effect.map(workspace.exec(command, options), (result) => ({ ...result, timedOut: false }))
      }))
    )
  ],
  [
    "a batch that is half done",
    "a batch of which one step is refused",
    lying(
      "layerfs-copy",
      inside((workspace) => ({
        apply: (operations) => Effect.forEach(operations, (one) => workspace.apply([one]), { discard: true })
      }))
    )
  ],
  [
    "a read that follows a link out",
    "an absolute link below the workspace's path is its own",
    lying(
      "layerfs-copy",
      inside((workspace) => ({
        read: (path) => (path === "up/etc/hostname" ? Effect.succeed(Buffer.from("outside")) : workspace.read(path))
      }))
    )
  ],
  [
    "a candidate that is opened whatever its environment",
    "a candidate is its tree and its environment",
    lying("layerfs-copy", (provider) => ({
      open: (branch, options = {}) => {
        const { as, ...others } = options
        return provider.open(branch, as === undefined ? options : others)
      }
    }))
  ],
  [
    "a patch with ignored files left unsaid",
    "the receiver verifies the candidate",
    lying("layerfs-copy", (provider) => ({
      exportPatch: (options) => Effect.map(provider.exportPatch(options), (told) => ({ ...told, ignoredChanges: 0 }))
    }))
  ],
  [
    "a long file that is one byte short",
    "random work, checkpoints, restarts",
    lying(
      "layerfs-copy",
      inside((workspace) => ({
        checkpoint: (options) =>
          Effect.andThen(
            Effect.orDie(workspace.exec("find . -type f -size +1 -exec truncate -s -1 {} +")),
            workspace.checkpoint(options)
          )
      }))
    )
  ],
  [
    "hard links that are split",
    "a group of hard links is one file",
    lying("layerfs-overlay", none, { hardLinks: "preserved" })
  ],
  [
    "an opening that tells nothing",
    "a first opening tells how far",
    lying("layerfs-copy", (provider) => ({
      open: (branch, options = {}) => provider.open(branch, { ...options, onProgress: () => undefined })
    }))
  ],
  ["inodes that change", "a base file keeps its inode", lying("layerfs-overlay", none, { stableInodes: true })],
  [
    "a rename that fails",
    "a directory of the base is moved",
    lying("layerfs-overlay", none, { renameDirectory: "works" })
  ],
  ["attributes that are dropped", "extended attributes are kept", lying("layerfs-copy", none, { xattrs: true })]
]

for (const [what, scenario, under] of noticed) {
  test(`K1 K2 K3 K4 W1 ${what} is noticed`, async (context) => {
    const found = (await workspaceConformance(under)).find(({ name }) => name.startsWith(scenario))!
    if (found.skip !== null) return context.skip(found.skip)
    await expect(found.run(), titleOf(found)).rejects.toMatchObject({ name: "AssertionError" })
  }, 300_000)
}
