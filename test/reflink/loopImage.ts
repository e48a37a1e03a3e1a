/**
 * A real file system of a wished kind: made in a file, mounted through a loop device, gone after the test.
 * Promise: nothing but its own image and mount is touched; where it cannot be had, `lackOf` says why.
 */
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import { join } from "node:path"

export type ImageKind = "btrfs" | "xfs" | "ext4"

const makers: Readonly<Record<ImageKind, readonly string[]>> = {
  btrfs: ["mkfs.btrfs", "-q"],
  xfs: ["mkfs.xfs", "-q"],
  ext4: ["mkfs.ext4", "-q", "-F"]
}

/** XFS cannot be smaller. */
const imageBytes = 300 * 2 ** 20

export interface LoopImage {
  /** Anybody may make directories there. */
  readonly path: string
  readonly image: string
  /** `lazily`: with what is still open on it, for a process that ends. */
  readonly remove: (how?: { readonly lazily: boolean }) => void
}

export const loopImage = (
  kind: ImageKind,
  {
    bytes = imageBytes,
    options = "",
    from
  }: {
    readonly bytes?: number
    readonly options?: string
    /** An image to mount a copy of, as it stands. Its own must be unmounted by then: two of one id cannot be mounted. */
    readonly from?: string
  } = {}
): LoopImage => {
  const root = fs.mkdtempSync("/var/tmp/coppice-image-")
  const image = join(root, "image")
  const path = join(root, "disk")
  try {
    fs.chmodSync(root, 0o755)
    fs.mkdirSync(path)
    if (from === undefined) {
      fs.writeFileSync(image, "")
      fs.truncateSync(image, bytes)
      const [program, ...args] = makers[kind]
      execFileSync(program!, [...args, image], { stdio: ["ignore", "ignore", "pipe"] })
    } else {
      execFileSync("cp", ["--sparse=always", from, image])
    }
    execFileSync("mount", ["-o", `loop${options === "" ? "" : `,${options}`}`, image, path], { stdio: "pipe" })
    fs.chmodSync(path, 0o1777)
  } catch (error) {
    fs.rmSync(root, { recursive: true, force: true })
    throw error
  }
  return {
    path,
    image,
    remove: ({ lazily } = { lazily: false }) => {
      execFileSync("umount", [...(lazily ? ["-l"] : []), path])
      fs.rmSync(root, { recursive: true, force: true })
    }
  }
}

/** Undoes what a test did, the last first, all of it: one that fails leaves no mount of another. */
export const endAll = async (ends: (() => unknown)[]): Promise<void> => {
  const errors: unknown[] = []
  for (const end of ends.splice(0).toReversed()) {
    try {
      await end()
    } catch (error) {
      errors.push(error)
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, String(errors[0]))
}

const lacks = new Map<ImageKind, string | null>()

const findLack = (kind: ImageKind): string | null => {
  if (process.getuid?.() !== 0) return "only root mounts images"
  const [program] = makers[kind]
  if (spawnSync(program!, ["-V"]).error !== undefined) return `${program} is not installed`
  try {
    loopImage(kind).remove()
    return null
  } catch (error) {
    return `no ${kind} image can be mounted here: ${String((error as { stderr?: unknown }).stderr ?? error).trim()}`
  }
}

/** Why there is no such image on this machine; null where there is. */
export const lackOf = (kind: ImageKind): string | null => {
  const known = lacks.get(kind)
  if (known !== undefined) return known
  const lack = findLack(kind)
  lacks.set(kind, lack)
  return lack
}
