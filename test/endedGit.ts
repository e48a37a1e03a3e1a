/**
 * A git on PATH that is ended from outside in the middle of a command, as by an out-of-memory killer.
 * Promise: everything else is done by the real git; afterwards PATH is as before and nothing is left.
 */
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/**
 * After `bytes` of the output of each command whose words match `when`, a pattern of sh (`*" ls-tree "*`). `how` is a line of sh; once it
 * has made the file `$0.done`, everything is as ever.
 */
export const withGitEnded = async <A>(
  when: string,
  bytes: number,
  work: () => Promise<A>,
  how = "kill -9 $$"
): Promise<A> => {
  const tools = mkdtempSync(join(tmpdir(), "coppice-ended-git-"))
  const real = execFileSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).trim()
  const ending = `[ -e "$0.done" ] || { ${real} "$@" | head -c ${bytes}; ${how}; }`
  const script = `case " $* " in ${when}) ${ending};; esac\nexec ${real} "$@"\n`
  writeFileSync(join(tools, "git"), `#!/bin/sh\n${script}`, { mode: 0o755 })
  const path = process.env["PATH"]
  process.env["PATH"] = `${tools}:${path}`
  try {
    return await work()
  } finally {
    process.env["PATH"] = path
    rmSync(tools, { recursive: true })
  }
}
