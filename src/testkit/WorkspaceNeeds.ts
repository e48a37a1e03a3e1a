/** What scenarios of the workspace suite need beside a provider, with the reason that is given where it is missing. Rules: W1, W2. */
import { spawnSync } from "node:child_process"
import type { Manifest } from "../workspace/WorkspaceValues.ts"
import type { WorkspaceNeed } from "./WorkspaceConformance.ts"
import type { PlaceUnderTest } from "./WorkspaceUnderTest.ts"

/** The manifest says so, or says one of these. */
export const declares =
  <K extends keyof Manifest>(capability: K, ...values: readonly Manifest[K][]): WorkspaceNeed =>
  ({ manifest }) =>
    values.includes(manifest[capability])
      ? null
      : `the manifest says ${capability}: ${String(manifest[capability])}, and this is about ${values.join(" or ")}`

/** The place offers it. */
export const offers =
  (what: "worker" | "damage" | "openCapped", reason: string): WorkspaceNeed =>
  ({ place }: { readonly place: PlaceUnderTest }) =>
    place[what] === undefined ? reason : null

export const secondProcess = offers("worker", "no worker program is given")

/** A program of the machine. */
export const tool =
  (command: string, ...args: readonly string[]): WorkspaceNeed =>
  () =>
    spawnSync(command, args, { stdio: "ignore" }).status === 0 ? null : `${command} is not on this machine`

export const git = tool("git", "--version")

export const ordinaryUser: WorkspaceNeed = () =>
  process.getuid?.() === 0 ? "this process runs as root, and this is about an ordinary user" : null
