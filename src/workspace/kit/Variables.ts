/**
 * The environment variables of a command inside a workspace.
 * Promise: an allow-list, never the host's whole environment; more is passed by name only, and the names are recorded.
 * Rules: W4.
 *
 * HOME is a private, empty directory where `/tmp` is private: tools may write their caches, and nobody else's are
 * harmed. The caller's own git configuration (identity, aliases) is named to git, and toolchains in his HOME to their version
 * managers, read-only; credentials stay masked.
 * `passEnv: ["HOME"]` gives the caller's HOME instead.
 */
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { machinePath } from "../../base/MachinePath.ts"
import { privateHome } from "./MountTable.ts"

const allowed = ["PATH", "LANG", "LANGUAGE", "TERM", "TZ", "USER", "LOGNAME", "SHELL"]

/** Where version managers keep toolchains in the caller's HOME: their shims on the PATH look there, and read only. */
const toolchains: Readonly<Record<string, string>> = {
  RUSTUP_HOME: ".rustup",
  PYENV_ROOT: ".pyenv",
  RBENV_ROOT: ".rbenv",
  VOLTA_HOME: ".volta",
  ASDF_DATA_DIR: ".asdf"
}

/** Quiet and quick `git status` in a fork, whose inodes and ctimes are new. */
const gitQuiet = {
  GIT_OPTIONAL_LOCKS: "0",
  GIT_CONFIG_COUNT: "2",
  GIT_CONFIG_KEY_0: "core.checkStat",
  GIT_CONFIG_VALUE_0: "minimal",
  GIT_CONFIG_KEY_1: "core.trustctime",
  GIT_CONFIG_VALUE_1: "false"
}

export interface Variables {
  readonly variables: Readonly<Record<string, string>>
  readonly passed: readonly string[]
}

export const variablesFor = (options: {
  readonly privateTmp: boolean
  readonly passEnv?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly gitDefaults?: boolean
}): Variables => {
  const variables: Record<string, string> = {}
  for (const [name, value] of Object.entries(process.env)) {
    if (value !== undefined && (allowed.includes(name) || name.startsWith("LC_"))) variables[name] = value
  }
  variables["PATH"] = machinePath() ?? "/usr/local/bin:/usr/bin:/bin"
  variables["TMPDIR"] = "/tmp"
  variables["HOME"] = options.privateTmp ? privateHome : os.homedir()
  if (options.privateTmp) {
    for (const [name, directory] of Object.entries(toolchains)) {
      const at = process.env[name] ?? path.join(os.homedir(), directory)
      if (fs.existsSync(at)) variables[name] = at
    }
  }
  if (options.gitDefaults !== false) {
    Object.assign(variables, gitQuiet)
    const config = path.join(os.homedir(), ".gitconfig")
    if (options.privateTmp && fs.existsSync(config)) variables["GIT_CONFIG_GLOBAL"] = config
  }
  const passed: string[] = []
  for (const name of options.passEnv ?? []) {
    const value = process.env[name]
    if (value === undefined) continue
    variables[name] = value
    passed.push(name)
  }
  return { variables: { ...variables, ...options.env }, passed }
}
