/**
 * What the suite asks of a tree's way through a provider: import, checkpoint, restart, fork, export (K1).
 * Promise: see WorkspaceConformance.ts. Rules: K1, W6, W13, W22, L15; C18, C37.
 */
import assert from "node:assert/strict"
import { execFileSync } from "node:child_process"
import { sha256 } from "../base/Digest.ts"
import { fullProfile } from "../workspace/TreeDigest.ts"
import type { Files } from "./SourceFiles.ts"
import { writeFiles } from "./SourceFiles.ts"
import { comparedBy, differences, digestOf, lookAt, type Tree } from "./TreeLook.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { committed, inside, lookAtRef, lookInside, type WorkspaceScene } from "./WorkspaceScene.ts"

const text = (size: number, seed: number): string =>
  Array.from({ length: size }, (_, line) => `line ${line} of ${(line * seed) % 9973}\n`).join("")

/** Packages linked to each other as pnpm does it: every import goes through two links. */
const packages = (count: number): Files =>
  Object.fromEntries(
    Array.from({ length: count }, (_, number): [string, Files[string]][] => {
      const name = `pkg${number}`
      const stored = `node_modules/.pnpm/${name}@1.0.0/node_modules/${name}`
      const next = (number + 1) % count
      return [
        [`${stored}/package.json`, `{"name":"${name}","version":"1.0.0","main":"index.js"}\n`],
        [`${stored}/index.js`, `exports.name = "${name}"; exports.next = () => require("pkg${next}").name\n`],
        [
          `node_modules/.pnpm/${name}@1.0.0/node_modules/pkg${next}`,
          { link: `../../pkg${next}@1.0.0/node_modules/pkg${next}` }
        ],
        [`node_modules/${name}`, { link: `.pnpm/${name}@1.0.0/node_modules/${name}` }],
        [`node_modules/.bin/${name}`, { link: `../${name}/index.js` }]
      ]
    }).flat()
  )

/** The whole of what a source may have and a provider may lose. */
const project = (scene: WorkspaceScene, source: string): Files => ({
  ".gitignore": "node_modules\ndist\n.env\n*.log\n",
  "package.json": `{"name":"sample","private":true}\n`,
  "src/sum.js": `exports.sum = (a, b) => a + b\n`,
  "src/large.txt": text(4000, 7),
  "test.js": `
const { sum } = require("./src/sum.js"), built = require("./dist/built.js")
const { readFileSync } = require("node:fs")
const names = Array.from({ length: 12 }, (_, i) => require("pkg" + i).next())
console.log(JSON.stringify([sum(2, 3), built, names, readFileSync("src/large.txt").length, readFileSync(".env", "utf8")]))
`,
  ...packages(12),
  "dist/built.js": "module.exports = 42\n",
  ".env": "MODE=test\n",
  "debug.log": "ignored, and kept\n",
  "assets/block.bin": Buffer.alloc(5 * 1024 * 1024, "a block of four mebibytes and more"),
  "assets/none": "",
  "deep/a/b/c/d/e/f/g/h/file": "deep\n",
  "links/relative": { link: "../src/sum.js" },
  "links/dangling": { link: "nothing/here" },
  "links/outside": { link: "/etc/hostname" },
  "links/climbing": { link: "../../../../../../../../etc/hostname" },
  "links/own": { link: `${source}/src/sum.js` },
  "links/circle": { link: "circle" },
  "links/directory": { link: "../src" },
  empty: null,
  "empties/within/another": null,
  ...(scene.manifest.modes
    ? {
        "modes/run.sh": { bytes: "#!/bin/sh\nexit 0\n", mode: 0o755 },
        "modes/private": { bytes: "p", mode: 0o600 },
        "modes/readonly": { bytes: "r", mode: 0o444 },
        "modes/setuid": { bytes: "s", mode: 0o4755 },
        "modes/shared": { directory: 0o1777 },
        "modes/narrow": { directory: 0o700 }
      }
    : {}),
  ...(scene.manifest.hardLinks === "none"
    ? {}
    : {
        "hard/first": "one content, three names",
        "hard/second": { hard: "hard/first" },
        "elsewhere/third": { hard: "hard/first" }
      }),
  ...(scene.manifest.nonUtf8Names
    ? {
        [`bytes/${"n".repeat(255)}`]: "long",
        "bytes/line\nfeed": "newline",
        "bytes/\xfe\xff": "no text",
        "bytes/\xc3\xa9": "composed",
        "bytes/e\xcc\x81": "decomposed",
        "bytes/target": { link: "\xfe\xff/nothing\n" }
      }
    : {})
})

/** That a ref, and a workspace of a branch on it, hold a tree. */
const holds = async (
  scene: WorkspaceScene,
  ref: string,
  want: Tree,
  by = comparedBy(scene.manifest)
): Promise<void> => {
  assert.deepEqual(differences(want, await lookAtRef(scene, ref), by), [], "as it is exported")
  const { id } = await scene.run(scene.provider.fork(ref))
  await scene.using(id, async (workspace) => {
    const seen = differences(want, await lookInside(scene, workspace), { ...by, links: false })
    assert.deepEqual(seen, [], "as a process inside sees it")
  })
}

/** The digest of a ref is that of the tree, where the provider compares all dimensions of it. */
const digests = async (scene: WorkspaceScene, ref: string, want: Tree): Promise<void> => {
  const options = { environment: sha256("here"), parent: null }
  const { profile, treeDigest } = await scene.run(scene.provider.candidate(ref, options))
  if (profile !== fullProfile) return
  assert.equal(treeDigest, digestOf(want), "the tree digest of a walk by Node alone")
}

const runTest = [process.execPath, "test.js"] as const

export const fidelityScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["K1", "W6", "W13", "C18", "C37"],
    name: "a whole project is imported, run, checkpointed, found again after a restart, forked and exported without a difference",
    body: async (scene) => {
      const source = scene.directory("project")
      writeFiles(source, project(scene, source))
      const before = lookAt(source)
      const plain = execFileSync(runTest[0], [runTest[1]], { cwd: source, encoding: "utf8" })
      const { branch, receipt, head } = await scene.branchOn(source)
      const by = comparedBy(scene.manifest, receipt)
      assert.deepEqual(differences(before, lookAt(source), by), [], "the source, after it was imported")
      await digests(scene, head, before)
      await holds(scene, head, before, by)
      const commit = await scene.using(branch, async (workspace) => {
        assert.equal(await inside(scene, workspace, runTest), plain)
        await inside(scene, workspace, "mkdir made && echo new > made/file && ln -s file made/link && chmod 750 made")
        return (await committed(scene, workspace)).commit
      })
      await scene.reopen()
      const { id } = await scene.run(scene.provider.fork(commit))
      const [after, printed] = await scene.using(id, async (workspace) => [
        await lookInside(scene, workspace),
        await inside(scene, workspace, runTest)
      ])
      assert.equal(printed, plain)
      const made = new Map([...after].filter(([path]) => path === "made" || path.startsWith("made/")))
      assert.deepEqual([...made.keys()].toSorted(), ["made", "made/file", "made/link"])
      assert.deepEqual(made.get("made/link")?.target, "file")
      const want: Tree = new Map([...before, ...made])
      await holds(scene, commit, want, by)
      await digests(scene, commit, want)
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  }
]
