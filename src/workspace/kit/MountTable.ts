/**
 * The mounts of one workspace as one table for `mount -a -T`, and the plan of what is hidden or read-only inside.
 * Promise: the order is such that no later line uncovers or hides what an earlier one made; nothing below the workspace's
 * own path is ever mounted over (a harvest would take it for a removal). Rules: W17, W23; 04 "Projections".
 *
 * Overlay layers are named relative to the cache directory, so they resolve below any mask. Private `/tmp` is built on a
 * stage and bound to its place at the end, so that things kept from the real `/tmp` can be bound into it first.
 */
import { isBelow, toBytes, type TreePath } from "../../base/PathBytes.ts"

/** All paths absolute, real and as byte strings. */
export interface MountPlan {
  readonly workspacePath: TreePath
  readonly overlayOptions: string | null
  /** Bound at the workspace path instead of an overlay: the copy projection. */
  readonly bindTree: TreePath | null
  /** An empty directory in the store, on which the private `/tmp` is built. */
  readonly stage: TreePath
  readonly privateTmp: boolean
  /** An empty directory that must become a tmpfs so that the workspace path can be made in it; null when it exists. */
  readonly makeBelow: TreePath | null
  readonly maskDirectories: readonly TreePath[]
  readonly maskFiles: readonly TreePath[]
  /** The directory that becomes `/dev`, with the nodes to bind into it; null leaves the real one. */
  readonly devices: { readonly directory: Flagged; readonly nodes: readonly string[] } | null
  /** Flags of the real `/dev`: a bound node is read-only, so that root cannot chmod the machine's own. */
  readonly nodeFlags: readonly string[]
  readonly readOnlyMounts: readonly Flagged[]
  readonly readOnlyBinds: readonly Flagged[]
  /** Paths below the real `/tmp` that stay visible, read-only. */
  readonly keepFromTmp: readonly Flagged[]
  /** Directories that stay reachable whatever masks lie above them. */
  readonly reach: readonly (Flagged & { readonly access: "read" | "write" })[]
}

/** A path with the flags of its mount. A user namespace may add flags and never clear one, so each is repeated. */
export interface Flagged {
  readonly at: TreePath
  readonly flags: readonly string[]
}

const isAtOrBelow = (path: TreePath, ancestor: TreePath): boolean => path === ancestor || isBelow(path, ancestor)

/**
 * The source by which our own file systems are known in mountinfo. A name of its own is needed: `mount -a` passes in silence
 * over a line whose source and target are mounted already, and a tmpfs on `/run/user/UID` is one.
 */
export const ours = "coppice"

/** For the same reason: a remount has no source, but a tmpfs of the machine may well be called `none`. */
const remounted = "coppice-remount"

/** A second name for a workspace below a masked directory. */
export const waitingPlace = "/tmp/.workspace"

/** A second name for what commands reach beside the workspace. */
export const reachPlace = (index: number): TreePath => `/tmp/.reach-${index}`

/** Where private directories lie; HOME inside. */
export const privateHome = "/tmp/home"

/** fstab(5): blanks, tabs, newlines and backslashes as octal; `#` would open a comment at the start of a line. */
export const escapeField = (field: TreePath): TreePath =>
  field.replace(/[\s\\#]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, "0")}`)

const line = (source: TreePath, target: TreePath, type: string, options: string): TreePath =>
  `${escapeField(source)} ${escapeField(target)} ${type} ${options} 0 0\n`

/** The bytes of the table. */
export const mountTable = (plan: MountPlan): Buffer => {
  const w = plan.workspacePath
  const inTmp = (path: TreePath): boolean => plan.privateTmp && isAtOrBelow(path, "/tmp")
  const staged = (path: TreePath): TreePath => (inTmp(path) ? plan.stage + path.slice("/tmp".length) : path)
  // What lies at or below the workspace path is covered by the workspace itself.
  const outside = (path: TreePath): boolean => !isAtOrBelow(path, w) && !inTmp(path)
  const lines: TreePath[] = []
  const nodeBind = ["bind", "ro", ...plan.nodeFlags].join(",")
  // A mask above the workspace comes after it, so the workspace waits below the private /tmp and is bound at the end; so does what
  // commands reach beside it.
  const masked = plan.maskDirectories.some((path) => isBelow(w, path))
  const places = plan.privateTmp ? [...plan.reach.entries()].filter(([, { at }]) => !isAtOrBelow(at, w)) : []
  const reached = places.filter(([, { at }]) => outside(at))
  const waiting = staged(waitingPlace)

  if (plan.privateTmp) {
    lines.push(line(ours, plan.stage, "tmpfs", "mode=1777,nosuid,nodev"))
    lines.push(line(ours, staged(privateHome), "tmpfs", "X-mount.mkdir,mode=700,nosuid,nodev"))
    for (const { at, flags } of plan.keepFromTmp) {
      if (!isAtOrBelow(at, w)) {
        lines.push(line(at, staged(at), "none", ["bind", "ro", ...flags, "X-mount.mkdir"].join(",")))
      }
    }
  }
  if (plan.makeBelow !== null && !inTmp(plan.makeBelow)) {
    lines.push(line(ours, plan.makeBelow, "tmpfs", "size=64k,mode=755"))
  }
  // Before anything turns read-only: an overlay takes over the flags that its upper's mount has at that moment.
  const at = masked ? waiting : staged(w)
  if (plan.bindTree !== null) lines.push(line(plan.bindTree, at, "none", "bind,X-mount.mkdir"))
  else lines.push(line("overlay", at, "overlay", `X-mount.mkdir,${plan.overlayOptions ?? ""}`))
  for (const [index, { at, flags, access }] of places) {
    const bind = access === "read" ? ["bind", "ro", ...flags] : ["bind"]
    // Below the private /tmp nothing lies above it that would hide it.
    const place = inTmp(at) ? at : reachPlace(index)
    lines.push(line(at, staged(place), "none", [...bind, "X-mount.mkdir"].join(",")))
  }
  for (const { at, flags } of plan.readOnlyMounts) {
    // `mount -a` passes over a target spelled "/".
    if (at === "/" || outside(at)) {
      lines.push(line(remounted, at === "/" ? "/." : at, "none", ["remount", "bind", "ro", ...flags].join(",")))
    }
  }
  for (const { at, flags } of plan.readOnlyBinds) {
    if (outside(at)) lines.push(line(at, at, "none", ["bind", "ro", ...flags].join(",")))
  }
  if (plan.devices !== null) {
    const { directory, nodes } = plan.devices
    for (const name of nodes) lines.push(line(`/dev/${name}`, `${directory.at}/${name}`, "none", nodeBind))
    const terminals = "newinstance,ptmxmode=0666,mode=0620,nosuid,noexec"
    lines.push(line(ours, `${directory.at}/pts`, "devpts", terminals))
    lines.push(line(ours, `${directory.at}/shm`, "tmpfs", "mode=1777,nosuid,nodev"))
    lines.push(line(directory.at, "/dev", "none", "rbind"))
    lines.push(line(remounted, "/dev", "none", ["remount", "bind", "ro", ...directory.flags].join(",")))
  }
  if (plan.privateTmp) lines.push(line(plan.stage, "/tmp", "none", "rbind"))
  // A mask above the workspace must let its mount point be made.
  const holds = (path: TreePath): boolean => isBelow(w, path) || reached.some(([, { at }]) => isBelow(at, path))
  for (const path of plan.maskDirectories) {
    const options = holds(path) ? "size=64k,mode=755" : "size=4k,mode=000,ro"
    if (outside(path)) lines.push(line(ours, path, "tmpfs", options))
  }
  for (const path of plan.maskFiles) if (outside(path)) lines.push(line("/dev/null", path, "none", nodeBind))
  // A bind of a read-only mount is read-only.
  for (const [index, { at }] of reached) lines.push(line(reachPlace(index), at, "none", "bind,X-mount.mkdir"))
  if (masked) lines.push(line(waitingPlace, w, "none", "bind,X-mount.mkdir"))
  // What is written to a masked place is refused there too, and not lost at the end.
  for (const path of plan.maskDirectories) {
    if (outside(path) && holds(path)) lines.push(line("none", path, "none", "remount,bind,ro"))
  }
  return toBytes(lines.join(""))
}
