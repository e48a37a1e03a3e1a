/** What an attempt cannot reach from inside (W17). Every attempt here is harmless where it would succeed. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as fs from "node:fs"
import { homedir } from "node:os"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import { mountTable, type MountPlan } from "../../src/workspace/kit/MountTable.ts"
import { readBack } from "../../src/workspace/kit/Isolation.ts"
import { writableMounts } from "../../src/workspace/kit/WritableMounts.ts"
import { failure, forkOf, run, sharedGround, shell, using, write } from "./projFixture.ts"

const shared = sharedGround({ f: "f", "dir/g": "g" })
const probe = `coppice-probe-${process.pid}`

describe.each(["overlay", "copy"] as const)("%s", (projection) => {
  it("W17 store, authority file, origin, held-out tests and other workspaces are absent; the level is enforced", async () => {
    const { provider, commit, root, store, origin } = await shared()
    const heldOut = join(root, `held-${projection}`)
    write(heldOut, { "secret.test": "expected answer" })
    fs.writeFileSync(join(store, "authority.db"), "authority")
    const mountPath = join(root, `at-${projection}`)
    fs.mkdirSync(mountPath)
    await using(provider, await forkOf(provider, commit), { projection }, async (other) => {
      await run(other.write("other", "secret"))
      const options = { projection, mountPath, hide: [heldOut] }
      await using(provider, await forkOf(provider, commit), options, async (workspace) => {
        expect(workspace.isolation.level).toBe("enforced")
        expect(workspace.path).toBe(mountPath)
        for (const path of [store, origin, heldOut]) {
          expect(await shell(workspace, `ls -A '${path}'`), path).toBe("")
        }
        for (const path of [join(store, "authority.db"), join(heldOut, "secret.test"), join(origin, "f")]) {
          expect((await run(workspace.exec(["cat", path]))).exitCode, path).not.toBe(0)
        }
        const search = await run(
          workspace.exec(["sh", "-c", `cat /proc/*/root${join(heldOut, "secret.test")} 2>/dev/null`])
        )
        expect(search.stdout.text).toBe("")
      })
      await run(other.discard("test"))
    })
    expect(fs.readFileSync(join(heldOut, "secret.test"), "utf8")).toBe("expected answer")
  })

  it("W17 W23 file systems that come and go on the machine while workspaces open disturb none of them", async (context) => {
    if (process.getuid!() !== 0) return context.skip("only root mounts beside a workspace")
    const { provider, commit, root } = await shared()
    const at = join(root, `mounted-${projection}`)
    fs.mkdirSync(at)
    const going = join(root, `going-${projection}`)
    fs.writeFileSync(going, "")
    // A mount point that is removed takes the mount with it in every namespace, that of a workspace on its way included.
    const script = `while [ -e "$1" ]; do mkdir -p "$0"; mount -t tmpfs x "$0" && umount "$0"; rmdir "$0"; sleep 0.01; done`
    const churn = spawn("sh", ["-c", script, at, going], { stdio: "ignore" })
    try {
      for (let turn = 0; turn < 8; turn += 1) {
        await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
          expect(workspace.isolation.level).toBe("enforced")
          expect((await run(workspace.exec(["touch", join(at, "x")]))).exitCode).not.toBe(0)
        })
      }
      expect(churn.exitCode).toBe(null)
    } finally {
      fs.rmSync(going)
      await once(churn, "exit")
    }
  })

  it("W17 a write by absolute path outside the workspace is refused, the SDK's own code included; /tmp and /dev/shm are private", async () => {
    const { provider, commit, root, origin } = await shared()
    const outside = join(root, "outside")
    fs.mkdirSync(outside, { recursive: true })
    const places = [
      outside,
      homedir(),
      "/var/tmp",
      "/etc",
      "/dev",
      "/sys",
      import.meta.dirname,
      dirname(process.execPath)
    ]
    await using(provider, await forkOf(provider, commit), { projection }, async (workspace) => {
      for (const place of places) {
        const at = join(place, probe)
        const result = await run(workspace.exec(["sh", "-c", `: > "$1"`, "sh", at]))
        const there = fs.existsSync(at)
        if (there) fs.unlinkSync(at)
        expect(there, `${place} was written`).toBe(false)
        expect(result.exitCode, place).not.toBe(0)
      }
      await shell(workspace, `echo x > /tmp/${probe}; echo x > /dev/shm/${probe}; echo x > ~/${probe}`)
      expect(fs.existsSync(`/tmp/${probe}`)).toBe(false)
      expect(fs.existsSync(`/dev/shm/${probe}`)).toBe(false)
      // The origin's path shows the workspace; the origin itself stays as it was.
      await shell(workspace, `echo changed > '${origin}/f'`)
      expect(fs.readFileSync(join(origin, "f"), "utf8")).toBe("f")
      await run(workspace.discard("test"))
    })
  })
})

describe.each([
  ["a launcher of its own", false],
  ["a resident shell", true]
])("from inside, by %s", (_, residentShell) => {
  it("W17 masks cannot be lifted: umount, remount and setns are refused, also after one more unshare", async () => {
    const { provider, commit, root } = await shared()
    const heldOut = join(root, `held-${residentShell}`)
    write(heldOut, { secret: "s" })
    await using(provider, await forkOf(provider, commit), { hide: [heldOut], residentShell }, async (workspace) => {
      const attempts = [
        `umount -l '${heldOut}'`,
        `mount -o remount,bind,rw /`,
        `mount -o remount,rw '${heldOut}'`,
        `nsenter -t 1 -m true`,
        `nsenter -t 1 -U true`,
        `ls /proc/1/root/`,
        `cat /proc/1/environ | grep -q .`
      ]
      for (const attempt of attempts) {
        expect((await run(workspace.exec(attempt))).exitCode, attempt).not.toBe(0)
        const nested = await run(
          workspace.exec(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", attempt])
        )
        expect(nested.exitCode, `unshare: ${attempt}`).not.toBe(0)
      }
      expect(await shell(workspace, `ls -A '${heldOut}'`)).toBe("")
      expect(await shell(workspace, "id -u")).toBe(`${process.getuid!()}\n`)
      await shell(workspace, "tar cf /tmp/t.tar f && tar xf /tmp/t.tar -C /tmp && git init -q /tmp/r")
    })
  })

  it("W17 root inside cannot turn the machine's knobs, open its disks, or change its device nodes", async () => {
    const { provider, commit } = await shared()
    await using(provider, await forkOf(provider, commit), { residentShell }, async (workspace) => {
      // Each of these writes back the value that is there already.
      const same = `v=$(cat /proc/sys/kernel/core_pattern); echo "$v" > /proc/sys/kernel/core_pattern`
      expect((await run(workspace.exec(same))).exitCode).not.toBe(0)
      const nested = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c"] as const
      const fresh = await run(workspace.exec([...nested, `mount -t proc proc /proc && ${same}`]))
      expect(fresh.exitCode).not.toBe(0)
      expect(await shell(workspace, "find /dev -type b | wc -l")).toBe("0\n")
      expect((await run(workspace.exec("chmod 666 /dev/null"))).exitCode).not.toBe(0)
      expect((await run(workspace.exec("mknod node c 1 3"))).exitCode).not.toBe(0)
      await shell(workspace, "echo x > /dev/null; head -c 8 /dev/urandom | wc -c; ls /dev/pts/ptmx")
      expect((await run(workspace.changes)).length).toBe(0)
    })
  })

  it("W17 credential files and sockets of the caller are absent inside", async () => {
    const { provider, commit } = await shared()
    await using(provider, await forkOf(provider, commit), { residentShell }, async (workspace) => {
      for (const name of [".npmrc", ".ssh/id_ed25519", ".netrc", ".docker/config.json", ".aws/credentials"]) {
        const at = join(homedir(), name)
        const result = await run(workspace.exec(["cat", at]))
        expect(result.stdout.text, name).toBe("")
      }
      expect(await shell(workspace, "echo $HOME")).toBe("/tmp/home\n")
      expect((await run(workspace.exec("ls -A /run/docker.sock /run/dbus/system_bus_socket"))).exitCode).not.toBe(0)
    })
  })

  it("W17 shared memory made inside is private and ends with the workspace", async () => {
    const { provider, commit } = await shared()
    const before = fs.readFileSync("/proc/sysvipc/shm", "utf8")
    await using(provider, await forkOf(provider, commit), { residentShell }, async (workspace) => {
      const inside = await shell(workspace, "ipcmk -M 64 > /dev/null; tail -n +2 /proc/sysvipc/shm | wc -l")
      expect(inside).toBe("1\n")
      expect(fs.readFileSync("/proc/sysvipc/shm", "utf8").split("\n").length).toBe(before.split("\n").length)
    })
  })

  it("W17 switched off is named: level none, nothing claimed as protected", async () => {
    const { provider, commit } = await shared()
    await using(provider, await forkOf(provider, commit), { isolation: "off", residentShell }, async (workspace) => {
      expect(workspace.isolation).toMatchObject({ level: "none", protected: [] })
      expect(workspace.isolation.reachable.length).toBeGreaterThan(0)
      expect(await shell(workspace, "cat f")).toBe("f")
    })
  })
})

describe("mount paths", () => {
  it("W17 W23 a path that cannot be made is MountPathUnavailable and nothing is created for it", async () => {
    const { provider, commit, root, store } = await shared()
    const branch = await forkOf(provider, commit)
    const file = join(root, "file")
    fs.writeFileSync(file, "")
    for (const mountPath of [
      "relative",
      "/",
      "/tmp",
      "/proc/x",
      "/dev/x",
      `${store}/in`,
      file,
      join(root, "no/such"),
      "/a/../b"
    ]) {
      const error = await failure(Effect.scoped(provider.open(branch, { mountPath })))
      expect(error, mountPath).toMatchObject({ _tag: "MountPathUnavailable" })
    }
    expect(fs.existsSync(join(root, "no"))).toBe(false)
    expect(fs.readdirSync(join(store, "layerfs", "work"))).toEqual([])
  })

  it("W17 W23 a missing path below /tmp, one in an empty directory, and one below a hidden directory are made inside only", async () => {
    const { provider, commit, root } = await shared()
    const empty = join(root, "empty")
    const hidden = join(root, "hidden")
    write(hidden, { "deep/place/x": "x", secret: "s" })
    fs.mkdirSync(empty, { recursive: true })
    const cases = [`/tmp/${probe}/deep`, join(empty, "made/here"), join(hidden, "deep/place")]
    for (const mountPath of cases) {
      await using(provider, await forkOf(provider, commit), { mountPath, hide: [hidden] }, async (workspace) => {
        expect(await shell(workspace, "pwd; cat f"), mountPath).toBe(`${mountPath}\nf`)
        expect(await shell(workspace, `ls '${hidden}'`)).not.toContain("secret")
        expect(workspace.isolation.level).toBe("enforced")
      })
    }
    expect(fs.readdirSync(empty)).toEqual([])
    expect(fs.existsSync(`/tmp/${probe}`)).toBe(false)
  })

  it("W17 a path in the workspace that is asked to be hidden or read-only is said to be neither", async () => {
    const { provider, commit, root } = await shared()
    const mountPath = join(root, "source")
    write(mountPath, { f: "of the machine" })
    const options = { mountPath, hide: [join(mountPath, "f")], readOnlyPaths: [mountPath] }
    await using(provider, await forkOf(provider, commit), options, async (workspace) => {
      expect(await shell(workspace, "cat f; echo x > f; cat f")).toBe("fx\n")
      for (const said of [/f: the workspace's own copy of it$/, /source: in the workspace, where it can be written$/])
        expect(workspace.isolation.reachable).toContainEqual(expect.stringMatching(said))
    })
  })
})

describe("the plan and the read-back", () => {
  const plan: MountPlan = {
    workspacePath: "/home/u/my project",
    overlayOptions: "userxattr,lowerdir=base/a,upperdir=u,workdir=w",
    bindTree: null,
    stage: "/s/stage",
    privateTmp: true,
    makeBelow: null,
    maskDirectories: ["/home/u/my project/inside", "/secret"],
    maskFiles: ["/home/u/.npmrc"],
    devices: null,
    nodeFlags: ["nosuid"],
    readOnlyMounts: [{ at: "/", flags: ["relatime"] }],
    readOnlyBinds: [],
    keepFromTmp: [],
    reach: []
  }

  it("W17 W22 nothing below the workspace is mounted over, blanks are escaped, and the root is spelled so that it is not passed over", () => {
    const table = mountTable(plan).toString()
    expect(table).not.toContain("inside")
    expect(table).toContain("/home/u/my\\040project overlay X-mount.mkdir,userxattr")
    expect(table).toContain("coppice-remount /. none remount,bind,ro,relatime 0 0")
    expect(table).toContain("/dev/null /home/u/.npmrc none bind,ro,nosuid 0 0")
    expect(table.indexOf("overlay")).toBeLessThan(table.indexOf("/."))
  })

  it("W17 a writable mount that nobody meant, or a mask that is not there, lowers the level and is named", () => {
    const info = [
      "1 0 8:1 / / ro - ext4 /dev/sda rw",
      "2 1 0:2 / /proc rw - proc proc rw",
      "3 1 0:3 / /home/u/my\\040project rw - overlay overlay rw",
      "4 1 0:4 / /tmp rw - tmpfs coppice rw",
      "5 1 0:5 / /secret ro - tmpfs coppice ro"
    ]
    const planned = { level: "enforced", protected: [], reachable: [], network: "host" } as const
    expect(readBack(planned, plan, info.join("\n"))).toEqual({
      ...planned,
      reachable: ["network and abstract sockets"]
    })
    const data = [...info, "6 1 8:2 / /data rw - ext4 /dev/sdb rw"]
    expect(readBack(planned, plan, data.join("\n"))).toMatchObject({
      level: "advisory",
      reachable: ["network and abstract sockets", "/data (writable)"]
    })
    const bare = info.filter((line) => !line.includes("/secret"))
    expect(readBack(planned, plan, bare.join("\n"))).toMatchObject({ level: "advisory" })
  })

  it("W17 a mount hidden below another is not counted as reachable, one beside it is", () => {
    const info = [
      "1 0 8:1 / / ro - ext4 /dev/sda rw",
      "2 1 0:2 / /dev rw - devtmpfs devtmpfs rw",
      "3 2 0:3 / /dev/shm rw - tmpfs tmpfs rw",
      "4 2 8:1 /x /dev ro - ext4 /dev/sda rw",
      "5 4 0:5 / /dev/pts rw - devpts coppice rw",
      "6 1 0:6 / /store/tree/stage rw - tmpfs coppice rw",
      "7 1 0:7 / /store ro - tmpfs coppice ro"
    ]
    expect(writableMounts(info.join("\n")).map(({ at }) => at)).toEqual(["/dev/pts"])
    expect(writableMounts(info.slice(0, 6).join("\n")).map(({ at }) => at)).toEqual(["/dev/pts", "/store/tree/stage"])
  })
})
