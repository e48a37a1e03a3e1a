/** Adds one to the number in FILE, TIMES times, alone under the lock NAME of DIRECTORY; with TIMES 0 it takes the lock, says so, and waits to be killed. */
import { readFileSync, writeFileSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { Locks } from "../../../providers/git-worktree/Locks.ts"

const [, , directory, file, times] = process.argv
const locks = new Locks(directory!)
if (times === "0") {
  await locks.alone("one", undefined, async () => {
    console.log("held")
    await sleep(3_600_000)
  })
}
for (let at = 0; at < Number(times); at += 1) {
  await locks.alone("one", undefined, async () => {
    const number = Number(readFileSync(file!, "utf8"))
    await sleep(Math.random())
    writeFileSync(file!, String(number + 1))
  })
}
