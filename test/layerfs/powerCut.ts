/**
 * A power cut, as near as a machine without device-mapper comes to one: the store lies on an ext4 file system in a loop image; its
 * writer is stopped, the image is copied as it stands, and the copy is mounted and opened. What the writer never flushed lies in
 * the page cache of the inner file system and not in the image, so the copy has lost it, as after a power cut.
 * Promise: every mount and loop device is taken away again. Limits: the copy keeps whatever reached the image, so a disk that
 * loses or reorders flushed writes is not simulated. Rules: L8.
 */
import { type ChildProcess, execFileSync } from "node:child_process"
import { copyFileSync, mkdirSync, truncateSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterRound, child, killGround, type KillGround } from "./storeKills.ts"

const megabytes = 96

/** commit=600: the inner file system writes nothing back by itself while a round runs; only fsync does. */
const mount = (image: string, at: string): (() => void) => {
  mkdirSync(at, { recursive: true })
  execFileSync("mount", ["-o", "loop,commit=600", image, at], { stdio: ["ignore", "ignore", "pipe"] })
  // A lazy unmount, because a killed writer's files may still be closing.
  return () => execFileSync("umount", ["-l", at])
}

/** False where images cannot be made or mounted: an ordinary user, or a container without loop devices. */
export const canCutPower = (place: string): boolean => {
  try {
    const image = join(place, "probe.img")
    writeFileSync(image, "")
    truncateSync(image, 4 * 1024 * 1024)
    execFileSync("mkfs.ext4", ["-q", "-F", image], { stdio: "ignore" })
    mount(image, join(place, "probe"))()
    return true
  } catch {
    return false
  }
}

/** One cut after so many answers and a moment more. Gives what was told by then, and every fault. */
export const cutPower = async (
  place: string,
  at: { readonly answers: number; readonly moreMs: number },
  variables: Readonly<Record<string, string>> = {}
): Promise<{ readonly told: number; readonly faults: readonly string[] }> => {
  const image = join(place, "store.img")
  const after = join(place, "after.img")
  const source = join(place, "source")
  mkdirSync(source, { recursive: true })
  writeFileSync(image, "")
  truncateSync(image, megabytes * 1024 * 1024)
  execFileSync("mkfs.ext4", ["-q", "-F", image])
  let unmount = mount(image, join(place, "before"))
  let ground: KillGround
  try {
    ground = await killGround(join(place, "before", "store"), source, 1)
    const [branch] = ground.branches
    let writer: ChildProcess | undefined
    const { said } = await child(
      [ground.directory, "commit", branch!.id, "100000", "p"],
      variables,
      (lines) => (lines.length < at.answers ? undefined : at.moreMs),
      (running) => {
        running.kill("SIGSTOP")
        copyFileSync(image, after)
        running.kill("SIGKILL")
        writer = running
      }
    )
    if (writer === undefined) throw new Error("the writer ended before the power was cut")
    branch!.told.push(...said.flatMap((line) => line.commit ?? []))
  } finally {
    unmount()
  }
  unmount = mount(after, join(place, "after"))
  try {
    const found = { ...ground, directory: join(place, "after", "store") }
    return { told: ground.branches[0]!.told.length, faults: await afterRound(found, true) }
  } finally {
    unmount()
  }
}
