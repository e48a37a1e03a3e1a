/**
 * The environment variables that a child process starts with.
 * Promise: an allow-list. Nothing of the host application's environment (keys, tokens, sockets) reaches a child unless
 * it is on the list or the caller passes it by name; the names passed can be read back. Rules: W4, W17.
 */

import { machinePath } from "./MachinePath.ts"

const allowed = new Set(["PATH", "HOME", "LANG", "TERM", "TZ", "USER", "LOGNAME", "SHELL", "TMPDIR"])

const isAllowed = (name: string): boolean => allowed.has(name) || name.startsWith("LC_")

/** A read-only status must never rewrite the index of a repository it looks at. */
const gitDefaults: Readonly<Record<string, string>> = { GIT_OPTIONAL_LOCKS: "0" }

/**
 * Names that say how this machine reaches the network: proxies and certificate authorities. They are not on the list (a
 * proxy's address may hold a password); pass them by name to what must download, such as `npm ci` in a clean checkout.
 */
export const networkVariables: readonly string[] = (
  "HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy " +
  "NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA SSL_CERT_FILE SSL_CERT_DIR GIT_SSL_CAINFO"
).split(" ")

/**
 * The allow-listed variables of `source`, those named in `passEnv`, and then `added`, which wins. PATH is the machine's (see
 * MachinePath.ts), unless `passEnv` names it.
 * A name in `passEnv` that `source` does not have is left out.
 */
export const childEnvironment = (
  source: Readonly<Record<string, string | undefined>>,
  passEnv: readonly string[] = [],
  added: Readonly<Record<string, string>> = {}
): Record<string, string> => {
  const environment: Record<string, string> = { ...gitDefaults }
  for (const [name, value] of Object.entries(source)) {
    if (value !== undefined && (isAllowed(name) || passEnv.includes(name))) environment[name] = value
  }
  const path = passEnv.includes("PATH") ? source["PATH"] : machinePath(source)
  if (path !== undefined) environment["PATH"] = path
  return Object.assign(environment, added)
}
