/** Random histories in a workspace against the same operations on a plain directory. */
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { plainInside } from "../../src/workspace/kit/PlainInside.ts"
import { exec } from "../../src/workspace/kit/Exec.ts"
import {
  committed,
  type Files,
  forkOf,
  groundIn,
  processesOf,
  run,
  scratch,
  sharedGround,
  shell,
  using,
  write
} from "./projFixture.ts"

const shared = sharedGround({})
const base = {
  "a/x": "ax",
  "a/y": "ay",
  "a/deep/z": "adz",
  "b/x": "bx",
  top: "top",
  l: { link: "a/x" },
  h1: "pair",
  "b/h2": { hard: "h1" },
  empty: null
} as const

/** Numerical Recipes' generator: small, and the same sequence everywhere for one seed. */
const random = (seed: number) => {
  let state = seed >>> 0
  return (below: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const names = [
  "a",
  "b",
  "top",
  "l",
  "a/x",
  "a/y",
  "a/deep",
  "a/deep/z",
  "b/x",
  "h1",
  "b/h2",
  "empty",
  "n",
  "n/m",
  "a/n"
]

/** One shell line. What fails on the model fails in the workspace just so. */
const step = (next: (below: number) => number, links: boolean): string => {
  const p = names[next(names.length)]!
  const q = names[next(names.length)]!
  const lines = [
    `echo ${next(1000)} > ${p}`,
    `echo ${next(1000)} >> ${p}`,
    `rm -rf ./${p}`,
    `mkdir -p ${p}`,
    `mv -T ${p} ${q}`,
    // Into itself, what cp takes along depends on the order in which the directory lists its names.
    `case "$(realpath -m ${q})/" in "$(realpath -m ${p})"/*) ;; *) cp -r --preserve=links ${p} ${q};; esac`,
    `ln -sfn ${q} ${p}`,
    ...(links ? [`ln -f ${p} ${q}`] : []),
    `chmod ${["600", "644", "755", "4755"][next(4)]} ${p}`,
    `truncate -s ${next(5)} ${p}`,
    `rm -rf ./${p} && mkdir ${p} && echo ${next(1000)} > ${p}/fresh`
  ]
  return `{ ${lines[next(lines.length)]!}; } 2>/dev/null`
}

/** Type, mode, size, target and content by path; umask is the same on both sides. */
const look = `find . -mindepth 1 \\( -type d -printf '%y %m %P\\n' -o -printf '%y %m %s %P %l\\n' \\) | sort; find . -type f | sort | xargs -r md5sum`

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("W7 L15 random edits, checkpoints and reopens leave exactly what a plain directory has", async () => {
    // An overlay splits a hard-linked pair of its base on the first write, as its manifest says: no such pair there.
    const links = projection === "copy"
    const files: Files = links ? base : { ...base, h1: "one", "b/h2": "two" }
    const { provider, commit } = await groundIn(await shared(), files)
    const seed = Number(process.env["COPPICE_SEED"] ?? Date.now() % 1_000_000)
    console.log(`projModel ${projection} seed ${seed}`)
    const next = random(seed)
    const model = join(scratch(), "model")
    fs.mkdirSync(model)
    write(model, files)
    // The kernel keeps a setuid bit through a write only for a process with CAP_FSETID, which nobody has inside.
    const shellOutside = process.getuid?.() === 0 ? ["setpriv", "--bounding-set=-fsetid", "/bin/sh"] : ["/bin/sh"]
    const onModel = (command: string): string =>
      execFileSync(shellOutside[0]!, [...shellOutside.slice(1), "-c", command], {
        cwd: model,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"]
      })
    let branch = await forkOf(provider, commit)
    for (let round = 0; round < 3; round += 1) {
      await using(provider, branch, { projection }, async (workspace) => {
        for (let checkpoint = 0; checkpoint < 2; checkpoint += 1) {
          const lines = Array.from({ length: 8 }, () => step(next, links))
          const script = `${lines.join("\n")}\ntrue`
          onModel(script)
          await shell(workspace, script)
          const history = `seed ${seed}, round ${round}:\n${script}`
          expect(await shell(workspace, look), history).toBe(onModel(look))
          await run(workspace.checkpoint())
        }
      })
      // Every second time by a fork, which stands on the layer that the workspace left behind.
      if (round % 2 === 1) branch = await forkOf(provider, branch)
      await using(provider, branch, { projection }, async (workspace) => {
        expect(await shell(workspace, look), `seed ${seed}, reopened after round ${round}`).toBe(onModel(look))
        expect((await run(workspace.checkpoint())).outcome).toBe("unchanged")
      })
    }
  }, 180_000)
})

describe("both", () => {
  it("W7 L14 the same edits by overlay and by copy give the same root", async () => {
    const { provider, commit } = await groundIn(await shared(), base)
    const roots: string[] = []
    for (const projection of ["overlay", "copy"] as const) {
      await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
        await shell(workspace, "rm -r b; echo x > a/x; chmod 700 a; ln top t2; ln -s t2 t3; mkdir e2; mv a/deep d2")
        const made = await committed(workspace)
        roots.push((await run(provider.commit(made))).root)
      })
    }
    expect(roots[1]).toBe(roots[0])
  })

  it("W11 eight workspaces at once fork, edit and checkpoint without a lost byte", async () => {
    const { provider, commit, root } = await groundIn(await shared(), base)
    const one = (i: number) =>
      Effect.gen(function* () {
        const branch = (yield* provider.fork(commit)).id
        const { result, checkpoint } = yield* provider.execOn(
          branch,
          `echo ${i} > top; mkdir w${i}; echo ${i} > w${i}/f`
        )
        expect([result.exitCode, checkpoint.outcome]).toEqual([0, "committed"])
        const bytes = yield* provider.readAt(branch, `w${i}/f`)
        expect(Buffer.from(bytes).toString()).toBe(`${i}\n`)
        return yield* provider.listAt(branch, "")
      })
    const all = await run(
      Effect.all(
        Array.from({ length: 8 }, (_, i) => one(i)),
        { concurrency: "unbounded" }
      )
    )
    expect(all.map((entries) => entries.length)).toEqual(all.map(() => 7))
    expect(processesOf(root)).toEqual([])
    expect((await run(provider.verify())).ok).toBe(true)
  })

  it("W1 L15 the manifest declares what an overlay does to hard links, inodes and directory renames", async () => {
    const { provider } = await shared()
    expect(await run(provider.manifest)).toMatchObject({
      hardLinks: "splitOnWrite",
      stableInodes: false,
      renameDirectory: "copyOnly",
      mountAtChosenPath: true,
      unprivileged: true
    })
  })

  it("C9 open, hard-link, write: no ENOENT, and the inode is stable or declared unstable", async () => {
    const { provider, commit } = await groundIn(await shared(), base)
    const script = `
import os
fd = os.open("top", os.O_RDONLY); before = os.fstat(fd).st_ino
os.link("top", "second")
with open("top", "ab") as f: f.write(b"more")
after = os.stat("top").st_ino
assert open("second").read() == "topmore"
print(before == after)`
    for (const projection of ["overlay", "copy"] as const) {
      await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
        const result = await run(workspace.exec(["python3", "-c", script]))
        expect(result.stderr.text).toBe("")
        // The manifest speaks for the overlay; a copy is a plain directory.
        if (projection === "copy") expect(result.stdout.text).toBe("True\n")
        else expect((await run(provider.manifest)).stableInodes).toBe(false)
        await run(workspace.discard("test"))
      })
    }
  })
})

describe("without namespaces", () => {
  it("W4 W9 W17 a plain directory runs commands, ends what it knows of at a time limit, and claims no more than that", async () => {
    const tree = join(scratch(), "tree")
    write(tree, { f: "f" })
    const inside = plainInside("wsp_test", tree)
    const never = new AbortController().signal
    const result = await exec(inside, "cat f; echo made > g; exit 3", {}, tree, never)
    expect([result.exitCode, result.stdout.text]).toEqual([3, "f"])
    expect(fs.readFileSync(join(tree, "g"), "utf8")).toBe("made\n")
    const limited = await exec(inside, "(setsid sleep 1000 &) ; sleep 1000", { timeLimitMs: 200 }, tree, never)
    expect(limited.timedOut).toBe(true)
    expect(inside.processes()).toEqual([])
    expect(inside.guarantee).toEqual({ diesWithParent: false, wholeTree: false, isolation: "none" })
    await exec(inside, "sleep 1000 >/dev/null 2>&1 &", {}, tree, never)
    expect(inside.processes().map((found) => found.command)).toEqual(["sleep"])
    await inside.end()
    expect(inside.quiet()).toBe(true)
  })
})
