/**
 * Where a workspace is mounted: the path of the imported source, so that absolute links inside it work, or a chosen one.
 * Promise: nothing is created outside the namespace for it; a path that cannot be made is refused with a remedy.
 * Rules: W21, W23; 04 "Projections".
 */
import * as fs from "node:fs"
import { isBelow, show, toBytes, type TreePath } from "../../base/PathBytes.ts"
import { MountPathUnavailable } from "../WorkspaceError.ts"

/** For a project that was not imported from anywhere. */
export const defaultMountPath = "/tmp/workspace"

export interface MountPlace {
  /** The real path, as every process inside sees it. */
  readonly path: TreePath
  /** An empty directory outside that a tmpfs must cover so that the rest of the path can be made in it. */
  readonly makeBelow: TreePath | null
}

export const refuse = (wanted: TreePath, why: string, remedy: string): MountPathUnavailable =>
  new MountPathUnavailable({
    message: `The workspace cannot be mounted there: ${why}.`,
    remedy,
    path: show(wanted).path
  })

/** Has other contents inside of the namespaces. */
const isSystems = (path: TreePath): boolean => /^\/(proc|sys|dev)(\/|$)/.test(path)

/** Of a tree that works only where it was made. Throws MountPathUnavailable. */
export const placeAsItLies = (path: TreePath, isolated: boolean): MountPlace => {
  if (!isolated || !isSystems(path)) return { path, makeBelow: null }
  throw refuse(
    path,
    "the system needs that path",
    "Put the store elsewhere: this provider's trees work only where they were made."
  )
}

const choose = "Give a `mountPath`: an existing directory, or any path below /tmp."

/** Throws MountPathUnavailable. `privateTmp`: whatever lies below `/tmp` can be made. */
export const mountPlace = (wanted: TreePath, store: TreePath, privateTmp: boolean): MountPlace => {
  const parts = wanted.split("/")
  if (!wanted.startsWith("/") || wanted.includes("\0") || parts.includes("..") || parts.includes(".")) {
    throw refuse(wanted, "it is not a plain absolute path", choose)
  }
  const clean = `/${parts.filter((part) => part !== "").join("/")}`
  if (["/", "/tmp"].includes(clean) || isSystems(clean)) throw refuse(wanted, "the system needs that path", choose)
  const path = realOrMissing(clean)
  if (path.real === store || isBelow(path.real, store)) throw refuse(wanted, "it lies inside the store", choose)
  if (path.missing === "") {
    if (!fs.statSync(toBytes(path.real)).isDirectory()) throw refuse(wanted, "it is not a directory", choose)
    return { path: path.real, makeBelow: null }
  }
  const whole = `${path.real === "/" ? "" : path.real}/${path.missing}`
  if (privateTmp && isBelow(whole, "/tmp")) return { path: whole, makeBelow: null }
  if (path.real === "/" || !isEmpty(path.real)) {
    throw refuse(wanted, "it does not exist, and nothing is created outside the workspace for it", choose)
  }
  return { path: whole, makeBelow: path.real }
}

/** The real path of the part that exists, and the rest. */
const realOrMissing = (clean: TreePath): { readonly real: TreePath; readonly missing: TreePath } => {
  const missing: TreePath[] = []
  for (let at = clean; ; at = at.slice(0, at.lastIndexOf("/"))) {
    try {
      const real: TreePath = fs.realpathSync(toBytes(at === "" ? "/" : at), { encoding: "latin1" })
      return { real, missing: missing.toReversed().join("/") }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === "EACCES") throw refuse(clean, "this user may not reach it", choose)
      if (code !== "ENOENT" && code !== "ENOTDIR") throw error
      missing.push(at.slice(at.lastIndexOf("/") + 1))
    }
  }
}

const isEmpty = (path: TreePath): boolean => {
  try {
    return fs.readdirSync(toBytes(path)).length === 0
  } catch {
    return false
  }
}
