/**
 * The configuration of a user's repository, as that of a git directory of ours.
 * Promise: what the user's own commands see in the repository, includes resolved, without what ties it to that place.
 * Rules: GW1, GW2; git-config(1).
 */
import { git } from "./Git.ts"

/** About where the repository lies, how it is stored, or what runs beside it. */
const ofThePlace =
  /^(?:core\.(?:worktree|bare|repositoryformatversion|fsmonitor|untrackedcache|splitindex|sharedrepository)|index\.sparse|extensions\..*|include\..*|includeif\..*)$/

const quotedValue = (value: string): string =>
  `"${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\t", "\\t")}"`

/** One setting a section: order and repetition keep their meaning. */
const line = (key: string, value: string | undefined): string => {
  const first = key.indexOf(".")
  const last = key.lastIndexOf(".")
  const section =
    first === last
      ? key.slice(0, first)
      : `${key.slice(0, first)} "${key
          .slice(first + 1, last)
          .replaceAll("\\", "\\\\")
          .replaceAll('"', '\\"')}"`
  const name = key.slice(last + 1)
  return `[${section}]\n\t${name}${value === undefined ? "" : ` = ${quotedValue(value)}`}\n`
}

/** Of the repository at `gitDir`; a byte string. */
export const configOf = async (gitDir: string, algorithm: "sha1" | "sha256", signal: AbortSignal): Promise<Buffer> => {
  const text = (await git(["config", "--list", "-z", "--show-scope"], { gitDir, signal })).toString("latin1")
  const parts = text.split("\0")
  let config =
    algorithm === "sha1"
      ? "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
      : "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n"
  for (let at = 0; at + 1 < parts.length; at += 2) {
    if (parts[at] !== "local" && parts[at] !== "worktree") continue
    const setting = parts[at + 1]!
    const end = setting.indexOf("\n")
    const key = end < 0 ? setting : setting.slice(0, end)
    if (!ofThePlace.test(key)) config += line(key, end < 0 ? undefined : setting.slice(end + 1))
  }
  return Buffer.from(config, "latin1")
}
