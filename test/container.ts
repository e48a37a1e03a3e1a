/**
 * What a program is started behind to run in a pid namespace of its own, as in a container. Its first process is a shell: one that is first
 * could not kill itself.
 */
const user = process.getuid!() === 0 ? [] : ["--user", "--map-root-user"]

export const container: readonly string[] = [
  "unshare",
  ...user,
  "--pid",
  "--fork",
  "--kill-child",
  "--mount-proc",
  "sh",
  "-c",
  '"$@"; exit $?',
  "sh"
]
