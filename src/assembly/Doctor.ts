/**
 * The doctor: what this machine can do for the default preset, and the remedy for each missing piece.
 * Promise: everything is tried or read here and now, in a scratch directory on the store's disk that is gone afterwards; no
 * store is made or opened; a piece that could not be looked at is `unknown` and never `ok`. Rules: W2, A6; C14; 01 "On disk".
 */
import type { Projection } from "../workspace/WorkspaceValues.ts"
import { existsSync, mkdtempSync, rmSync, statfsSync, statSync } from "node:fs"
import { dirname, join } from "node:path"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as machine from "./MachineChecks.ts"
import type { Check } from "./MachineChecks.ts"
import { coppiceVersion } from "./Preset.ts"
import { makeRegistry } from "./Registry.ts"
import { storeDirectory } from "./StoreDefault.ts"

export type { Check, CheckState } from "./MachineChecks.ts"

export interface DoctorReport {
  /** The default preset works fully here: no check is `missing`. */
  readonly ok: boolean
  readonly coppice: string
  readonly node: string
  readonly platform: string
  /** Where the store would lie; null when there is no place for it. */
  readonly store: string | null
  /** What `projection: "auto"` takes, and why; null when it could not be found out. */
  readonly projection: { readonly auto: Projection; readonly why: string } | null
  /** Whether rename(2) of a directory of the base works in that projection (C14); null when unknown. */
  readonly renameDirectory: "works" | "copyOnly" | null
  readonly checks: readonly Check[]
}

const fileSystems: Readonly<Record<number, string>> = {
  0xef53: "ext4",
  0x58465342: "xfs",
  0x9123683e: "btrfs",
  0xca451a4e: "bcachefs",
  0x2fc12fc1: "zfs",
  0xf2f52010: "f2fs",
  0x01021994: "tmpfs",
  0x858458f6: "ramfs",
  0x794c7630: "overlayfs",
  0x65735546: "fuse"
}

/** Room below which an import of an ordinary tree with its dependencies may not fit. */
const scarceBytes = 1024 ** 3

const nearestExisting = (path: string): string => (existsSync(path) ? path : nearestExisting(dirname(path)))

/** A directory on the store's disk to try things in: in the store, or where the store would be made. */
const scratchNear = (directory: string): Effect.Effect<string, { readonly why: string }, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.try({
      try: () => mkdtempSync(join(directory, ".coppice-doctor-")),
      catch: (error) => ({ why: (error as NodeJS.ErrnoException).code ?? "unknown" })
    }),
    (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
  )

/** Whose the directory is, and what a new one below it inherits. */
const ownership = (directory: string): Check => {
  const setgid = (statSync(directory).mode & 0o2000) !== 0
  return {
    id: "setgid",
    state: "ok",
    found: setgid ? "new directories inherit the group; the store takes bit and group back" : "not inherited",
    remedy: null
  }
}

const disk = (directory: string, network: string | null): readonly Check[] => {
  const { type, bavail, bsize } = statfsSync(directory)
  const name = network ?? fileSystems[Number(type) >>> 0] ?? `type 0x${(Number(type) >>> 0).toString(16)}`
  const free = Number(bavail) * Number(bsize)
  const shown = `${(free / 1024 ** 3).toFixed(1)} GiB free`
  return [
    network === null
      ? { id: "file-system", state: "ok", found: name, remedy: null }
      : {
          id: "file-system",
          state: "missing",
          found: `${name}, a network file system`,
          remedy: "Give a store on a local disk: --store DIR."
        },
    free >= scarceBytes
      ? { id: "free-space", state: "ok", found: shown, remedy: null }
      : {
          id: "free-space",
          state: "limited",
          found: shown,
          remedy: "Free some, or give a store on a larger disk: --store DIR."
        }
  ]
}

const notTried = (id: string): Check => ({
  id,
  state: "unknown",
  found: "not tried: there is no place for the store",
  remedy: "See `store`."
})

/** What needs the store's disk. */
const onDisk = (store: string) =>
  Effect.gen(function* () {
    const near = nearestExisting(store)
    const scratch = yield* scratchNear(near)
    const provider = yield* makeRegistry(new Map()).load("layerfs", "asked by the doctor")
    const { probe, network, declares } = yield* provider.probeDirectory(scratch)
    const overlay = probe.projections.find(({ projection }) => projection === "overlay")
    const available = overlay?.available === true
    const what = overlay?.missing.map((piece) => piece.what).join("; ") ?? ""
    const why = available ? "an overlay was mounted on the store's disk" : `without ${what}`
    const checks: readonly Check[] = [
      { id: "store", state: "ok", found: existsSync(store) ? "there" : "can be made", remedy: null },
      ...disk(near, network),
      ownership(near),
      available
        ? { id: "overlay", state: "ok", found: why, remedy: null }
        : {
            id: "overlay",
            state: "missing",
            found: why,
            remedy: overlay?.missing.map(({ remedy }) => remedy).join(" ") ?? null
          },
      available
        ? { id: "projection", state: "ok", found: "auto takes the overlay", remedy: null }
        : {
            id: "projection",
            state: "limited",
            found: "auto takes a copy: each workspace copies the whole tree",
            remedy: "See `overlay`."
          },
      available && declares.renameDirectory === "copyOnly"
        ? {
            id: "rename",
            state: "limited",
            found: "copyOnly: rename(2) of a directory of the base is EXDEV; mv and the SDK's move copy",
            remedy: 'Where tools rename directories, open with `ownDirs: ["src"]`.'
          }
        : { id: "rename", state: "ok", found: "directories can be renamed", remedy: null },
      yield* machine.clock(scratch),
      yield* machine.reflink(scratch)
    ]
    return {
      checks,
      projection: { auto: available ? ("overlay" as const) : ("copy" as const), why },
      renameDirectory: available ? declares.renameDirectory : ("works" as const)
    }
  }).pipe(Effect.scoped)

type OnDisk =
  | Effect.Success<ReturnType<typeof onDisk>>
  | { checks: readonly Check[]; projection: null; renameDirectory: null }

const nowhere = (found: string, remedy: string): OnDisk => ({
  checks: [
    { id: "store", state: "missing", found, remedy },
    ...["file-system", "overlay", "projection", "clock", "reflink"].map(notTried)
  ],
  projection: null,
  renameDirectory: null
})

const isDirectory = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/**
 * Looks at everything. Never fails: what is wrong is in the report. `store` and `project` as the preset takes them; a relative
 * `store` is resolved against the working directory.
 */
export const diagnose = (options: {
  readonly store?: string | undefined
  readonly project?: string | undefined
}): Effect.Effect<DoctorReport> =>
  Effect.gen(function* () {
    const place = yield* Effect.result(storeDirectory(options))
    const store = place._tag === "Success" ? place.success : null
    let found: OnDisk
    if (place._tag === "Failure") found = nowhere(place.failure.message, place.failure.remedy)
    else if (!isDirectory(nearestExisting(place.success))) {
      found = nowhere("there is a file where a directory must be", "Give another place: --store DIR.")
    } else {
      found = yield* onDisk(place.success).pipe(
        Effect.catch(({ why }) =>
          Effect.succeed(nowhere(`cannot be written (${why})`, "Give a directory of your own: --store DIR."))
        )
      )
    }
    const checks = [
      machine.node,
      machine.git,
      machine.tar,
      machine.tools,
      machine.namespaces,
      machine.processTrees,
      machine.proc
    ]
    const first = yield* Effect.forEach(checks, (check) => check)
    const last = yield* Effect.forEach([machine.limits, machine.fuse, machine.container], (check) => check)
    const all = [...first, ...found.checks, ...last]
    return {
      ok: all.every(({ state }) => state !== "missing"),
      coppice: coppiceVersion,
      node: process.versions.node,
      platform: process.platform,
      store,
      projection: found.projection,
      renameDirectory: found.renameDirectory,
      checks: all
    }
  }).pipe(Effect.withSpan("Doctor.diagnose"))
