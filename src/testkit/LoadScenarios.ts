/**
 * What the suite asks of sources, neighbours and files that are unlike others: a source that holds the store, a process that is stopped for
 * as long as it likes, mapped files, a disk that a command fills.
 * Promise: see WorkspaceConformance.ts. Rules: K1, K3, W9, W11, W13, W15, W19, L12; C8, C26.
 */
import assert from "node:assert/strict"
import { realpathSync } from "node:fs"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import { refusalOf } from "./AuthorityWorker.ts"
import type { WorkspaceScenario } from "./WorkspaceConformance.ts"
import { secondProcess } from "./WorkspaceNeeds.ts"
import {
  answered,
  committed,
  headOf,
  inside,
  nodeBeside,
  nodeInside,
  textAt,
  type WorkspaceScene
} from "./WorkspaceScene.ts"

const makeDatabase = `
  const { DatabaseSync } = require("node:sqlite")
  const db = new DatabaseSync("data.db")
  db.exec("PRAGMA journal_mode=WAL; CREATE TABLE t (n INTEGER, noise BLOB)")
  const add = db.prepare("INSERT INTO t VALUES (?, randomblob(2000))")
  for (let n = 0; n < 500; n += 1) add.run(n)
  db.close()`

/** One connection maps the file and another one writes; both are open when the process is killed. The index of the log is written by a mapping. */
const workMapped = `
  const { DatabaseSync } = require("node:sqlite")
  const [reader, writer] = [new DatabaseSync("data.db"), new DatabaseSync("data.db")]
  for (const db of [reader, writer]) db.exec("PRAGMA mmap_size=67108864")
  const count = () => reader.prepare("SELECT count(*) AS n, sum(n) AS s FROM t").get()
  const before = count()
  writer.exec("UPDATE t SET n = n + 1000 WHERE n % 2 = 0; DELETE FROM t WHERE n = 1; INSERT INTO t VALUES (7, zeroblob(3000000))")
  const after = count()
  require("node:fs").writeSync(1, [before.n, after.n, after.s].join(" "))
  process.kill(process.pid, "SIGKILL")`

const readMapped = `
  const { DatabaseSync } = require("node:sqlite")
  const db = new DatabaseSync("data.db")
  const { n, s } = db.prepare("SELECT count(*) AS n, sum(n) AS s FROM t").get()
  console.log([n, s, db.prepare("PRAGMA integrity_check").get().integrity_check].join(" "))
  db.close()`

/** Collects what can be collected, where the provider has anything of the kind, and reads everything back. */
const lookAfter = async (scene: WorkspaceScene): Promise<void> => {
  const compacted = await Effect.runPromise(Effect.result(scene.provider.compact()))
  if (compacted._tag === "Failure") assert.equal(refusalOf(compacted.failure).code, "UNSUPPORTED")
  assert.equal((await scene.run(scene.provider.verify())).ok, true)
}

export const loadScenarios: readonly WorkspaceScenario[] = [
  {
    rules: ["C8", "W13"],
    name: "a directory above the store is refused by the import, or comes without the store: it never copies itself",
    once: true,
    body: async (scene) => {
      const { head } = await scene.branchOn({ f: "f" })
      const source = dirname(realpathSync(scene.place.directory))
      const names: number[] = []
      for (const _ of [1, 2]) {
        const end = await Effect.runPromise(Effect.result(scene.provider.importDirectory({ source })))
        if (end._tag === "Failure") {
          const refusal = refusalOf(end.failure)
          assert.equal(refusal.code, "IMPORT_REFUSED")
          assert.match(String(refusal["remedy"]), /\S/)
        } else names.push((await scene.run(scene.provider.globAt(end.success.layer, "**"))).paths.length)
      }
      assert.equal(names[0], names[1], "the second import holds more than the first: what that one stored")
      assert.equal(await textAt(scene, head, "f"), "f")
      assert.equal((await scene.run(scene.provider.verify())).ok, true)
    }
  },
  {
    rules: ["W19", "K1"],
    name: "a database that is mapped by a process and written by another connection is whole in the checkpoint after the process is killed, and goes on",
    once: true,
    body: async (scene) => {
      const source = scene.directory("source")
      nodeBeside(source, makeDatabase)
      const { branch } = await scene.branchOn(source)
      const printed = await scene.using(branch, async (workspace) => {
        const { stdout, exitCode } = await scene.run(workspace.exec([process.execPath, "-e", workMapped]))
        assert.notEqual(exitCode, 0, "the process was to be killed")
        await committed(scene, workspace)
        return stdout.text
      })
      const sum = 124_750 + 250 * 1000 - 1 + 7
      assert.equal(printed, `500 500 ${sum}`)
      const target = scene.directory("export")
      await scene.run(scene.provider.exportDirectory(branch, target))
      assert.equal(nodeBeside(target, readMapped), `500 ${sum} ok\n`)
      await scene.using(branch, async (workspace) =>
        assert.equal(await nodeInside(scene, workspace, readMapped), `500 ${sum} ok\n`)
      )
    }
  },
  {
    rules: ["C26", "L12", "W11"],
    name: "eight workspaces commit beside a compaction where there is one, one of them in a process that is stopped meanwhile and has not committed: nothing of any is lost",
    needs: [secondProcess],
    once: true,
    body: async (scene) => {
      const { branch, head } = await scene.branchOn({ f: "f", "d/g": "g".repeat(10_000) })
      const forkOf = async () => (await scene.run(scene.provider.fork(branch))).id
      const stopped = await forkOf()
      const worker = await scene.worker()
      const { id } = answered(await worker.call("open", stopped, scene.options)) as { readonly id: string }
      answered(await worker.inside(id, "write", "first", "first"))
      answered(await worker.inside(id, "checkpoint", {}))
      answered(await worker.inside(id, "write", "second", "second"))
      worker.signal("SIGSTOP")
      const told: (readonly [commit: string, text: string])[] = []
      const work = async (n: number): Promise<void> => {
        const mine = await forkOf()
        for (const round of [1, 2]) {
          const text = `${n}.${round}\n`.repeat(5000)
          await scene.using(mine, async (workspace) => {
            await scene.run(workspace.write("f", text))
            told.push([(await committed(scene, workspace)).commit, text])
          })
        }
      }
      const working = Promise.all(Array.from({ length: 7 }, (_, n) => work(n)))
      await lookAfter(scene)
      await working
      // Whoever opens the store now finds the stopped one alive.
      await scene.reopen()
      assert.deepEqual(await scene.run(scene.provider.left), [])
      await lookAfter(scene)
      worker.signal("SIGCONT")
      answered(await worker.inside(id, "checkpoint", {}))
      await worker.end()
      await lookAfter(scene)
      assert.equal(told.length, 14)
      for (const [commit, text] of told) assert.equal(await textAt(scene, commit, "f"), text)
      for (const name of ["first", "second"]) assert.equal(await textAt(scene, stopped, name), name)
      assert.equal(await headOf(scene, branch), head)
    }
  },
  {
    rules: ["K3", "W15", "W9"],
    name: "a command that fills the disk sees it and nothing else does: what it removes makes room again, and the workspace goes on",
    small: true,
    once: true,
    body: async (scene) => {
      const { branch } = await scene.branchOn({ f: "f" })
      await scene.using(branch, async (workspace) => {
        await scene.run(workspace.write("before", "before"))
        await committed(scene, workspace)
        scene.place.leaveFree!(3 * 2 ** 20)
        const filling = await scene.run(
          workspace.exec("head -c 20000000 /dev/urandom > big; echo $?; rm big; echo after > after")
        )
        assert.deepEqual([filling.exitCode, filling.stdout.text], [0, "1\n"], filling.stderr.text)
        assert.match(filling.stderr.text, /No space left/)
        assert.equal(await inside(scene, workspace, "cat f before after"), "fbeforeafter\n")
        scene.place.leaveFree!(16 * 2 ** 20)
        await committed(scene, workspace)
      })
      assert.equal(await textAt(scene, branch, "after"), "after\n")
      assert.deepEqual(await scene.run(scene.provider.left), [])
    }
  }
]
