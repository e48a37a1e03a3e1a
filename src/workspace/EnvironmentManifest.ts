/**
 * What a candidate ran in: operating system or runtime image, architecture, libc, toolchain versions, declared lockfiles, and the places
 * outside the workspace that its steps are declared to write.
 * Promise: the digest changes when any of these changes and with nothing else; what cannot be read is null, never guessed.
 * Rules: W5, W20.
 */
import { readFile } from "node:fs/promises"
import { arch, platform, release } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { run } from "../base/Command.ts"
import { type Digest, digestJson, sha256 } from "../base/Digest.ts"

export interface EnvironmentManifest {
  /** `ID` and `VERSION_ID` of /etc/os-release, or the platform's name and release. */
  readonly os: string
  readonly arch: string
  /** For example `glibc 2.36`; null where it cannot be told. */
  readonly libc: string | null
  /** First line of `TOOL --version`, by tool; null when the tool is not there. */
  readonly toolchain: { readonly [tool: string]: string | null }
  /** Digest of each declared lockfile, by its path in the tree; null when it is not there. */
  readonly lockfiles: { readonly [path: string]: Digest | null }
  /** Digest of the image that the work runs in; null when it runs on the machine itself. */
  readonly runtimeImage: Digest | null
  /** What the work writes outside its workspace, as declared, sorted: a state that the candidate needs and does not hold. */
  readonly writesOutside: readonly string[]
}

/** What a caller declares about an environment; nothing of it is found out by looking. */
export interface DeclaredEnvironment {
  readonly tools?: readonly string[]
  readonly lockfiles?: readonly string[]
  readonly runtimeImage?: Digest
  readonly writesOutside?: readonly string[]
}

const osIdentity = async (): Promise<string> => {
  try {
    const text = await readFile("/etc/os-release", "utf8")
    const field = (name: string) => new RegExp(`^${name}="?([^"\n]*)"?$`, "m").exec(text)?.[1] ?? ""
    return `${field("ID")} ${field("VERSION_ID")}`.trim()
  } catch {
    return `${platform()} ${release()}`
  }
}

const libcVersion = (): string | null => {
  const header = (process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined)?.header
  return header?.glibcVersionRuntime === undefined ? null : `glibc ${header.glibcVersionRuntime}`
}

/** Reads the manifest of this machine for a tree at `directory`. Tools and lockfiles are the caller's to declare. */
export const readEnvironment = (
  directory: string,
  declared: DeclaredEnvironment = {}
): Effect.Effect<EnvironmentManifest> =>
  Effect.gen(function* () {
    const toolchain: Record<string, string | null> = {}
    for (const tool of declared.tools ?? []) {
      const result = yield* Effect.result(run([tool, "--version"], { cwd: directory }))
      toolchain[tool] =
        result._tag === "Success" && result.success.code === 0
          ? (result.success.stdout.toString("utf8").split("\n")[0] ?? "")
          : null
    }
    const lockfiles: Record<string, Digest | null> = {}
    for (const path of declared.lockfiles ?? []) {
      const bytes = yield* Effect.promise(() => readFile(join(directory, path)).catch(() => null))
      lockfiles[path] = bytes === null ? null : sha256(bytes)
    }
    return {
      os: yield* Effect.promise(osIdentity),
      arch: arch(),
      libc: libcVersion(),
      toolchain,
      lockfiles,
      runtimeImage: declared.runtimeImage ?? null,
      writesOutside: [...new Set(declared.writesOutside ?? [])].sort()
    }
  })

/** The digest that stands in a candidate's identity. */
export const environmentDigest = (manifest: EnvironmentManifest): Digest => digestJson({ ...manifest })
