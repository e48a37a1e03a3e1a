/** The locks between processes, and what is read of an object. Rules: GW3, W11, L10; C30, C31, C35. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { join } from "node:path"
import { deflateSync } from "node:zlib"
import { expect, it } from "vitest"
import { blobs } from "../../providers/git-worktree/Blobs.ts"
import { Locks } from "../../providers/git-worktree/Locks.ts"
import { oneFile, oneFileEnvironment } from "../oneFile.ts"
import { endedAtEnd, git, scratch } from "./ground.ts"

const holder = await oneFile(join(import.meta.dirname, "programs/holder.ts"))
const start = (...args: readonly string[]) =>
  spawn(process.execPath, [holder, ...args], { env: oneFileEnvironment(), stdio: ["ignore", "pipe", "inherit"] })

it("GW3 W11 C31 what is done alone is done alone, in this process and in others", async () => {
  const directory = scratch()
  const file = join(directory, "number")
  fs.writeFileSync(file, "0")
  const others = [1, 2, 3].map(() => once(start(directory, file, "20"), "close"))
  const locks = new Locks(directory)
  const mine = Array.from({ length: 20 }, () =>
    locks.alone("one", undefined, async () => {
      const number = Number(fs.readFileSync(file, "utf8"))
      await new Promise((resolve) => setImmediate(resolve))
      fs.writeFileSync(file, String(number + 1))
    })
  )
  await Promise.all([...others, ...mine])
  expect(fs.readFileSync(file, "utf8")).toBe("80")
}, 60_000)

it("GW3 C35 a lock goes with the process that held it; one that lives keeps others out, readers too", async () => {
  const directory = scratch()
  const child = endedAtEnd(start(directory, "", "0"))
  await once(child.stdout, "data")
  const locks = new Locks(directory)
  expect(await locks.ifFree("one", async () => "taken")).toBeUndefined()
  const waiting = new AbortController()
  const shared = locks.shared("one", waiting.signal, async () => "shared")
  waiting.abort(new Error("given up"))
  await expect(shared).rejects.toThrow()
  child.kill("SIGKILL")
  await once(child, "close")
  expect(await locks.alone("one", undefined, async () => "taken")).toBe("taken")
  const both = locks.shared("one", undefined, async () => [
    await locks.shared("one", undefined, async () => "beside"),
    await locks.ifFree("one", async () => "alone")
  ])
  expect(await both).toEqual(["beside", undefined])
}, 60_000)

it("L10 GW2 an object that is whole and not what its id says is damaged, and not a byte of it comes out; a large one neither", async () => {
  const repository = scratch()
  git(repository, "init", "-q", "--bare")
  for (const size of [3, 20 << 20]) {
    const id = String(size)
      .padStart(40, "a")
      .replace(/[^0-9a-f]/g, "0")
    fs.mkdirSync(join(repository, "objects", id.slice(0, 2)), { recursive: true })
    const other = Buffer.alloc(size, "x")
    fs.writeFileSync(
      join(repository, "objects", id.slice(0, 2), id.slice(2)),
      deflateSync(Buffer.concat([Buffer.from(`blob ${size}\0`), other]))
    )
    let bytes = 0
    const read = async () => {
      for await (const part of blobs(repository, [id])) bytes += part.bytes.length
    }
    await expect(read()).rejects.toMatchObject({ code: "OBJECT_DAMAGED", object: id })
    expect(bytes).toBe(0)
  }
}, 60_000)
