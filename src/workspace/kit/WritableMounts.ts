/**
 * Reads back from the kernel which file systems can be written inside a workspace, and what stands where.
 * Promise: isolation is claimed from what is mounted, not from what was planned: a writable mount that nobody meant to be
 * one, and a mask that is not there, are found before the first command runs. Rules: W17.
 */
import { isBelow, type TreePath } from "../../base/PathBytes.ts"

interface Mounted {
  readonly id: string
  readonly parent: string
  readonly at: TreePath
  readonly readOnly: boolean
  readonly type: string
  readonly source: string
}

const parse = (text: string): Mounted[] =>
  text.split("\n").flatMap((line) => {
    const fields = line.split(" ")
    const dash = fields.indexOf("-")
    if (fields.length < 6 || dash < 0) return []
    const at = fields[4]!.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)))
    const readOnly = fields[5]!.split(",").includes("ro")
    return [{ id: fields[0]!, parent: fields[1]!, at, readOnly, type: fields[dash + 1]!, source: fields[dash + 2]! }]
  })

/**
 * Mount points that a path walk from `/` can reach and that are not read-only. A mount is out of reach when another one stands
 * on its root, when a later sibling stands on a directory above it, or when its parent is out of reach.
 */
export const writableMounts = (mountinfo: string): readonly { readonly at: TreePath; readonly type: string }[] => {
  const mounts = parse(mountinfo)
  const byId = new Map(mounts.map((mount) => [mount.id, mount]))
  const children = new Map<string, Mounted[]>()
  for (const mount of mounts) children.set(mount.parent, [...(children.get(mount.parent) ?? []), mount])
  const covers = (mount: Mounted): boolean => byId.get(mount.parent)?.at === mount.at
  const hidden = new Map<string, boolean>()
  const isHidden = (mount: Mounted): boolean => {
    const known = hidden.get(mount.id)
    if (known !== undefined) return known
    hidden.set(mount.id, false)
    const below = children.get(mount.id) ?? []
    const siblings = children.get(mount.parent) ?? []
    const parent = byId.get(mount.parent)
    const answer =
      below.some((child) => child !== mount && child.at === mount.at) ||
      siblings.some((other) => other !== mount && isBelow(mount.at, other.at) && !covers(other)) ||
      (parent !== undefined && !covers(mount) && isHidden(parent)) ||
      (parent !== undefined && covers(mount) && isHiddenFromAbove(parent))
    hidden.set(mount.id, answer)
    return answer
  }
  /** What stands on the root of `parent` is reachable where `parent` itself would be, were nothing standing on it. */
  const isHiddenFromAbove = (parent: Mounted): boolean => {
    const above = byId.get(parent.parent)
    const siblings = children.get(parent.parent) ?? []
    if (siblings.some((other) => other !== parent && isBelow(parent.at, other.at) && !covers(other))) return true
    if (above === undefined) return false
    return covers(parent) ? isHiddenFromAbove(above) : isHidden(above)
  }
  return mounts.filter((mount) => !mount.readOnly && !isHidden(mount)).map(({ at, type }) => ({ at, type }))
}

/** The source of the file system that a path walk to `at` ends on, when something is mounted there; the last one counts. */
export const mountedAt = (mountinfo: string, at: TreePath): string | undefined =>
  parse(mountinfo).findLast((mount) => mount.at === at)?.source
