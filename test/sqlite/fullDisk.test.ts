/** What SQLite's failures on a full disk come to. Rules: L8, W15, G3. */
import { join } from "node:path"
import { afterEach, expect, it } from "vitest"
import { Database } from "../../src/sqlite/Database.ts"
import { mayMount, smallDisk } from "../layerfs/smallDisk.ts"

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const clean of cleanups.splice(0).toReversed()) clean()
})

it.skipIf(!mayMount)(
  "W15 L8 G3 an I/O error of SQLite's on a full disk says that the disk is full, and the same call goes through when there is room",
  async () => {
    const disk = smallDisk(8 * 2 ** 20)
    cleanups.push(disk.remove)
    const path = join(disk.path, "a.db")
    const made = Database.open(path)
    made.transact(() => made.raw.exec("CREATE TABLE t (bytes)"))
    made.close()
    disk.leave(0)
    // The memory that connections share has no room: SQLite calls that an I/O error.
    const opened = Database.openWithRetry(path)
    await expect(opened).rejects.toMatchObject({ _tag: "StorageFailure", remedy: expect.stringMatching(/free space/) })
    const { errcode, message } = (await opened.catch((error: unknown) => error)) as {
      readonly errcode: number
      readonly message: string
    }
    expect([errcode & 0xff, message]).toEqual([10, expect.stringMatching(/full disk/)])
    disk.leave(2 ** 20)
    const db = await Database.openWithRetry(path)
    cleanups.push(() => db.close())
    db.transact(() => db.run("INSERT INTO t VALUES (1)"))
    const write = db.transactWithRetry(() => db.run("INSERT INTO t VALUES (?)", new Uint8Array(2 ** 21)))
    await expect(write).rejects.toMatchObject({ _tag: "StorageFailure", remedy: expect.stringMatching(/free space/) })
    expect(db.get("SELECT count(*) AS n FROM t")).toEqual({ n: 1 })
  }
)
