/**
 * The authorities of this repository under the conformance suite: the bare SQLite store, and the authority of each preset.
 * Promise: a worker program opens the very same kind of store. Rules: V2.
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { openAuthority } from "../../providers/authority-sqlite/index.ts"
import { Authority } from "../../src/governance/index.ts"
import { minimal } from "../../src/minimal.ts"
import { standard } from "../../src/standard.ts"
import type { AuthorityUnderTest, OpenedAuthority, OpenUnderTest } from "../../src/testkit/index.ts"

export const kinds = ["sqlite", "minimal", "standard"] as const
export type AuthorityKind = (typeof kinds)[number]

const openBare = async (directory: string, { now, modules }: OpenUnderTest): Promise<OpenedAuthority> => {
  const store = await openAuthority({
    directory,
    durability: "normal",
    ...(now === undefined ? {} : { now }),
    ...(modules === undefined ? {} : { modules })
  })
  return { authority: Authority.make(store), close: () => store.close() }
}

/** Effect's own clock with another reading of the time; its methods may live on a prototype, so it stays the prototype. */
const clockOf = (now: () => number): Clock.Clock => {
  const system = Effect.runSync(Clock.clockWith((clock) => Effect.succeed(clock)))
  return Object.assign(Object.create(system) as Clock.Clock, {
    currentTimeMillisUnsafe: now,
    currentTimeMillis: Effect.sync(now)
  })
}

const openPreset = async (
  preset: "minimal" | "standard",
  store: string,
  { now }: OpenUnderTest
): Promise<OpenedAuthority> => {
  const layer: Layer.Layer<Authority, unknown> = preset === "minimal" ? minimal({ store }) : standard({ store })
  const timed = now === undefined ? layer : Layer.provide(layer, Layer.succeed(Clock.Clock, clockOf(now)))
  const runtime = ManagedRuntime.make(timed)
  try {
    const authority = await runtime.runPromise(Effect.map(Authority, (service) => service))
    return { authority, close: () => runtime.dispose() }
  } catch (error) {
    await runtime.dispose()
    throw error
  }
}

export const openAs = (
  kind: AuthorityKind,
  directory: string,
  options: OpenUnderTest = {}
): Promise<OpenedAuthority> => (kind === "sqlite" ? openBare(directory, options) : openPreset(kind, directory, options))

const worker = join(import.meta.dirname, "programs", "worker.ts")

const tamper = (directory: string, seq: number): void => {
  const db = new DatabaseSync(join(directory, "authority.db"))
  try {
    db.prepare("UPDATE journal SET data = '{\"altered\":true}' WHERE seq = ?").run(seq)
  } finally {
    db.close()
  }
}

/** Every file below the store that is not the authority's, and the workspace store where there is none yet. */
const ruinOthers = (directory: string): void => {
  mkdirSync(join(directory, "layerfs"), { recursive: true })
  writeFileSync(join(directory, "layerfs", "index.db"), "rubbish")
  for (const name of readdirSync(directory, { recursive: true, encoding: "utf8" })) {
    const path = join(directory, name)
    if (!name.startsWith("authority.db") && statSync(path).isFile()) writeFileSync(path, "rubbish")
  }
}

export const authorityOf = (kind: AuthorityKind): AuthorityUnderTest => ({
  takesModules: kind === "sqlite",
  create: async () => {
    const place = mkdtempSync(join(tmpdir(), `coppice-testkit-${kind}-`))
    const directory = join(place, "store")
    return {
      open: (options = {}) => openAs(kind, directory, options),
      worker: [process.execPath, worker, kind, directory],
      tamper: async (seq) => tamper(directory, seq),
      ruinOthers: async () => ruinOthers(directory),
      remove: async () => rmSync(place, { recursive: true, force: true })
    }
  }
})
