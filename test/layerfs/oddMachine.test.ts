/** Machines that lack something: each thing is really taken away from a child process, which then opens workspaces. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { runAsUser } from "./asUser.ts"
import { remedyForNamespaces } from "../../src/workspace/kit/Machine.ts"
import { scratch } from "./projFixture.ts"
import { oneFile } from "../oneFile.ts"

const root = process.getuid?.() === 0

interface Seen {
  readonly probe: { readonly projections: readonly { readonly available: boolean }[] }
  readonly auto: { readonly projection: string; readonly level: string }
  readonly overlay: { readonly _tag?: string; readonly missing?: readonly string[]; readonly remedy?: string }
  readonly lazy: { readonly _tag?: string; readonly missing?: readonly string[]; readonly remedy?: string }
  readonly copy: object
  readonly offline: unknown
  readonly left: readonly unknown[]
  readonly work: readonly string[]
}

/** `script` changes what the child sees of the machine and ends in `exec "$@"`; `$H` is the home of the program. */
const on = async (script: string, at = "", namespaces: readonly string[] = ["unshare", "--mount"]): Promise<Seen> => {
  const home = scratch()
  const program = await oneFile(join(import.meta.dirname, "oddMachineProgram.ts"))
  const argv = [...namespaces, "sh", "-ec", script, "sh", process.execPath, program, join(home, at)]
  const child = spawn(argv[0]!, argv.slice(1), {
    env: { ...process.env, H: home },
    stdio: ["ignore", "pipe", "inherit"]
  })
  let text = ""
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk))
  await once(child, "close")
  return JSON.parse(text) as Seen
}

const works = (projection: string, level: string) => ({
  projection,
  level,
  exitCode: 0,
  outcome: "committed",
  content: "f"
})

/** Everything but `lazy` works, which is refused by the name of what is missing. */
const lacksFuse = (seen: Seen, what: RegExp): void => {
  expect(seen.probe.projections).toMatchObject([
    { projection: "overlay", available: true },
    { projection: "lazy", available: false, missing: [{ what: expect.stringMatching(what) }] },
    { projection: "copy", available: true }
  ])
  expect(seen.lazy).toMatchObject({ _tag: "Unavailable", what: "lazy", missing: [expect.stringMatching(what)] })
  expect(seen.lazy.remedy).toContain("/dev/fuse")
  expect([seen.auto, seen.overlay]).toEqual([works("overlay", "enforced"), works("overlay", "enforced")])
  expect([seen.left, seen.work]).toEqual([[], []])
}

/** `auto` takes the copy and says so, `overlay` is refused by the name of what is missing, and nothing is left behind. */
const lacks = (seen: Seen, what: RegExp, remedy: RegExp, level: string): void => {
  expect(seen.overlay).toMatchObject({ _tag: "Unavailable", missing: [expect.stringMatching(what)] })
  expect(seen.overlay.remedy).toMatch(remedy)
  expect(seen.lazy).toMatchObject({ _tag: "Unavailable", missing: seen.overlay.missing })
  expect(seen.overlay.missing!.join()).not.toMatch(/\/(var|tmp|root)/)
  expect(seen.auto).toEqual(works("copy", level))
  expect(seen.copy).toEqual(works("copy", level))
  expect([seen.left, seen.work]).toEqual([[], []])
}

const whole = (seen: Seen): void => {
  expect(seen.probe.projections.map(({ available }) => available)).toEqual([true, true, true])
  expect(seen.lazy).toEqual(works("lazy", "enforced"))
  expect(seen.auto).toEqual(works("overlay", "enforced"))
  expect(seen.copy).toEqual(works("copy", "enforced"))
  expect([seen.left, seen.work]).toEqual([[], []])
}

describe.skipIf(!root)("W2 a machine without", () => {
  it("W2 W1 user namespaces", async () => {
    const off = `echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"`
    const seen = await on(off, "", ["unshare", "--user", "--map-root-user"])
    lacks(seen, /^unprivileged user namespaces/, /max_user_namespaces/, "none")
    // Never silently with less: what was asked for is refused.
    expect(seen.offline).toMatchObject({ _tag: "Unavailable", remedy: expect.stringContaining("max_net_namespaces") })
  })

  it("W2 W17 network namespaces: a workspace without network is refused, everything else works", async () => {
    const off = `echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"`
    const seen = await on(off, "", ["unshare", "--user", "--map-root-user", "--mount"])
    whole(seen)
    expect(seen.offline).toMatchObject({
      _tag: "Unavailable",
      missing: [expect.stringMatching(/^network namespaces/)],
      remedy: expect.stringContaining("max_net_namespaces")
    })
  })

  it("W2 a tool of util-linux", async () => {
    const seen = await on(`mount --bind /dev/null "$(command -v nsenter)"; exec "$@"`)
    lacks(seen, /^the program nsenter$/, /util-linux/, "none")
  })

  it("W2 an unmasked /proc", async () => {
    const seen = await on(`mount -t tmpfs tmpfs /proc/sys/fs; exec "$@"`)
    lacks(seen, /^a private \/proc/, /unmasked/, "none")
  })

  it("W2 a file system that can carry an overlay: isolation stays on with the copy", async () => {
    const script = `mkdir "$H/l" "$H/t" "$H/m"; mount -t tmpfs tmpfs "$H/t"; mkdir "$H/t/u" "$H/t/w"
      mount -t overlay -o "lowerdir=$H/l,upperdir=$H/t/u,workdir=$H/t/w" overlay "$H/m"; exec "$@"`
    lacks(await on(script, "m"), /^overlayfs with userxattr/, /not itself an overlay/, "enforced")
  })

  it("W2 /dev/fuse: nothing is served, and what was asked for is not swapped", async () => {
    lacksFuse(await on(`mount --bind /dev/null /dev/fuse; exec "$@"`), /^a mount of \/dev\/fuse/)
  })

  it("W2 the right to open /dev/fuse", async () => {
    const shut = ["unshare", "--mount", "sh", "-ec", `chmod 600 /dev/fuse; exec "$@"`, "sh"]
    const { code, stdout, stderr } = await runAsUser("oddMachineProgram.ts", [], shut)
    expect([code, stderr]).toEqual([0, ""])
    lacksFuse(JSON.parse(stdout) as Seen, /^a mount of \/dev\/fuse \(.*Permission denied/)
  })

  it("W2 a store that can be written: refused where it is, before anything is opened", async () => {
    const script = `"$@" > "$H/first"; mount --bind "$H/store" "$H/store"; mount -o remount,bind,ro "$H/store"; exec "$@"`
    expect(await on(script)).toMatchObject({
      _tag: "StoreLocation",
      message: expect.stringContaining("EROFS"),
      remedy: expect.stringContaining("read-write")
    })
  })
})

it("W2 each setting that forbids user namespaces has a remedy of its own; AppArmor's is named where it alone forbids", async () => {
  const only = (file: string, value: string) => (asked: string) => (asked.endsWith(file) ? `${value}\n` : undefined)
  const remedies = [
    remedyForNamespaces(only("/max_user_namespaces", "0"), true),
    remedyForNamespaces(only("/unprivileged_userns_clone", "0"), true),
    remedyForNamespaces(only("/apparmor_restrict_unprivileged_userns", "1"), true),
    remedyForNamespaces(() => undefined, true),
    remedyForNamespaces(() => undefined, false)
  ]
  expect(new Set(remedies).size).toBe(5)
  expect(remedies[2]).toMatch(/AppArmor.*apparmor_restrict_unprivileged_userns=0/)
  expect(remedies[3]).toMatch(/container.*seccomp/)
  // A setting that allows says nothing.
  const allowed = remedyForNamespaces((file) => (file.includes("apparmor") ? "0" : "15000"), false)
  expect(allowed).toBe(remedies[4])
})

describe("W2 a machine that is only unusual", () => {
  it.skipIf(!root)("W2 has its store below a setgid directory of a team: it is made private and works", async () => {
    whole(await on(`chown 0:12345 "$H"; chmod 2775 "$H"; exec "$@"`))
  })

  it.skipIf(!root)("W2 W17 hides other users' processes: an ordinary user has everything all the same", async () => {
    const hide = ["unshare", "--mount", "sh", "-ec", `mount -t proc -o hidepid=2 proc /proc; exec "$@"`, "sh"]
    const { code, stdout, stderr } = await runAsUser("oddMachineProgram.ts", [], hide)
    expect([code, stderr]).toEqual([0, ""])
    const seen = JSON.parse(stdout) as Seen
    whole(seen)
    expect(seen.offline).toEqual(["enforced", "none", "1\n"])
  })

  it("W2 W12 takes the store's mode away from an ordinary user: refused by its place, and given back it works on", async () => {
    const { code, stdout, stderr, uid } = await runAsUser("oddStoreProgram.ts")
    expect([code, stderr]).toEqual([0, ""])
    const seen = JSON.parse(stdout) as { readonly refused: object; readonly after: string }
    expect(uid).not.toBe(0)
    expect(seen).toMatchObject({ refused: { _tag: "StoreLocation" }, after: "f" })
  })
})
