/**
 * The two ways in which a holder makes its mounts: mount(2) from Perl, and mount(8) where there is none.
 * Promise: real namespaces; what the kernel shows afterwards is compared line by line. Rules: W2, W17, W23; 04 "Holder".
 */
import * as fs from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { fromInput } from "../../src/base/PathBytes.ts"
import { Holder, HolderFailed, type Network } from "../../src/workspace/kit/Holder.ts"
import { planIsolation } from "../../src/workspace/kit/Isolation.ts"
import { findTools, type Tools } from "../../src/workspace/kit/Machine.ts"
import { mountTable } from "../../src/workspace/kit/MountTable.ts"
import { atEnd, scratch } from "./projFixture.ts"

const hasIp = ["/sbin/ip", "/usr/sbin/ip", "/bin/ip", "/usr/bin/ip"].some((at) => fs.existsSync(at))
const found = findTools().tools!
const { perl: _, ...plain } = found
const ways: Readonly<Record<"perl" | "mount", Tools>> = { perl: found, mount: plain }

const held = async (tools: Tools, directory: string, table: string, network: Network = "host"): Promise<Holder> => {
  const holder = await Holder.start(tools, directory, table, network)
  atEnd(() => holder.end())
  await holder.unshared()
  return holder
}

/** A place for an overlay at a path with a blank in it, below a masked directory, with what is read-only and hidden beside. */
const ground = () => {
  const root = scratch()
  const store = join(root, "store")
  for (const name of ["lower", "upper", "work", "stage", "devices"])
    fs.mkdirSync(join(store, name), { recursive: true })
  fs.writeFileSync(join(store, "lower", "f"), "f")
  for (const name of ["kept", "hidden"]) fs.mkdirSync(join(root, name))
  fs.writeFileSync(join(root, "hidden", "secret"), "s")
  return { root, store, at: fromInput(join(root, "hidden", "a b#c")) }
}

const tableOf = ({ root, store, at }: ReturnType<typeof ground>, mountinfo: string): Buffer => {
  const { plan } = planIsolation({
    workspacePath: at,
    store: fromInput(store),
    origin: null,
    hide: [join(root, "hidden")],
    readOnlyPaths: [join(root, "kept")],
    reach: [],
    uid: process.getuid!(),
    deviceParent: store,
    mountinfo
  })
  return mountTable({
    ...plan,
    workspacePath: at,
    overlayOptions: "userxattr,lowerdir=lower,upperdir=upper,workdir=work",
    bindTree: null,
    stage: fromInput(join(store, "stage")),
    makeBelow: null
  })
}

/** Without the numbers that each mount gets anew, and what else differs from one run to the next. */
const shape = (mountinfo: string, root: string): string[] =>
  mountinfo
    .replaceAll(root, "ROOT")
    .trimEnd()
    .split("\n")
    .map((line) => line.replace(/^\d+ \d+ \d+:\d+ /, "").replaceAll(/(?:shared|master|propagate_from):\d+ ?/g, ""))

it("W17 W23 what mount(2) from Perl makes is what mount(8) makes of the same table", async () => {
  const seen: Record<string, string[]> = {}
  for (const [way, tools] of Object.entries(ways)) {
    const place = ground()
    const table = join(place.store, "table")
    const holder = await held(tools, place.store, table)
    fs.writeFileSync(table, tableOf(place, holder.mountinfo()))
    await holder.mount()
    seen[way] = shape(holder.mountinfo(), place.root)
    const inside = `/proc/${holder.innerPid}/root`
    expect(fs.readFileSync(Buffer.from(`${inside}${place.at}/f`, "latin1"), "utf8")).toBe("f")
    expect(fs.existsSync(`${inside}${place.root}/hidden/secret`)).toBe(false)
    await holder.end()
  }
  expect(seen["perl"]!.length).toBeGreaterThan(10)
  expect(seen["perl"]!.join("\n")).toContain("a\\040b#c")
  expect(seen["perl"]).toEqual(seen["mount"])
})

it("W2 W12 what cannot be mounted is told in the same words by both, and the holder is gone", async () => {
  const broken: readonly [table: (root: string) => string, says: RegExp][] = [
    [(root) => `coppice ${root}/none tmpfs mode=755 0 0\n`, /^mount: ROOT\/none: mount point does not exist\.$/m],
    [(root) => `x ${root} none remount,bind,ro 0 0\n`, /^mount: ROOT: mount point not mounted or bad option\.$/m],
    [
      (root) => `coppice ${root} no-such-type mode=755 0 0\n`,
      /^mount: ROOT: unknown filesystem type|^mount: ROOT: No such device/m
    ],
    [(root) => `${root}/none ${root} none bind 0 0\n`, /^mount: ROOT: /m]
  ]
  for (const [table, says] of broken) {
    for (const tools of Object.values(ways)) {
      const root = scratch()
      const at = join(root, "table")
      fs.writeFileSync(at, table(root))
      const holder = await held(tools, root, at)
      const failure = await holder.mount().then(
        () => undefined,
        (error: unknown) => error
      )
      expect(failure).toBeInstanceOf(HolderFailed)
      expect((failure as HolderFailed).stderr.replaceAll(root, "ROOT")).toMatch(says)
      await holder.gone
      expect(holder.alive).toBe(false)
    }
  }
})

it("W17 a namespace without network has its loopback up by either way, as far as there is a program for it", async () => {
  for (const [way, tools] of Object.entries(ways)) {
    const root = scratch()
    const at = join(root, "table")
    fs.writeFileSync(at, `coppice ${root} tmpfs mode=755 0 0\n`)
    const holder = await held(tools, root, at, "none")
    await holder.mount()
    const { kind, loopback } = holder.network()
    expect(kind).toBe("none")
    expect(loopback, way).toBe(way === "perl" || hasIp)
    await holder.end()
  }
})
