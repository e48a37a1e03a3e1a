/**
 * Opens a preset and offers its services as plain async functions.
 * Promise: what the preset loads, this loads, and nothing else; closing ends every call, then every workspace, then the
 * store, and leaves nothing running. Rules: P3, P4, V2, W12.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { Assembly, type AssemblyError } from "../assembly/index.ts"
import { lazyWorkspaces } from "../assembly/LazyWorkspaces.ts"
import { minimal } from "../minimal.ts"
import { standard } from "../standard.ts"
import { Unavailable } from "../workspace/WorkspaceError.ts"
import { Workspaces } from "../workspace/WorkspaceProvider.ts"
import { makeCalls, type Services } from "./Calls.ts"
import type { Coppice, OpenOptions } from "./Coppice.ts"
import { badArgument } from "./Failure.ts"
import { governanceCalls } from "./GovernanceCalls.ts"
import { repairCalls } from "./RepairCalls.ts"
import { type Closing, workspaceCalls } from "./WorkspaceCalls.ts"

/** The minimal preset has no workspaces: every call says so. */
const noWorkspaces = Layer.effect(
  Workspaces,
  lazyWorkspaces(
    Effect.fail(
      new Unavailable({
        what: "workspaces",
        missing: ["a workspace provider"],
        message: "The minimal preset has no workspaces.",
        remedy: 'Open with `preset: "standard"`.'
      })
    )
  )
)

const layerOf = ({
  preset = "standard",
  ...options
}: Omit<OpenOptions, "signal">): Layer.Layer<Services, AssemblyError> => {
  switch (preset) {
    case "minimal":
      return Layer.merge(minimal(options), noWorkspaces)
    case "standard":
      return standard(options)
    default:
      throw badArgument("preset", "There is no preset of this name.", "Use one of minimal, standard.")
  }
}

export const openCoppice = async (given: OpenOptions): Promise<Coppice> => {
  if (typeof given !== "object" || given === null) {
    throw badArgument("options", "The options are no object.", "Give one, or nothing at all.")
  }
  const { signal, ...options } = given
  const runtime = ManagedRuntime.make(layerOf(options))
  const calls = makeCalls("store", runtime)
  const open = new Set<Closing>()
  const end = async (): Promise<void> => {
    await calls.close()
    await Promise.all([...open].map((close) => close()))
    await runtime.dispose()
  }
  let ending: Promise<void> | undefined
  const close = (): Promise<void> => (ending ??= end())
  let assembly: Assembly["Service"]
  try {
    // Opens the authority: what is wrong with the store is thrown here, and not by the first call.
    assembly = await calls.run(
      Effect.map(Assembly, (service) => service),
      signal === undefined ? {} : { signal }
    )
  } catch (error) {
    await close()
    throw error
  }
  return {
    ...governanceCalls(calls),
    workspaces: workspaceCalls(calls, () => makeCalls("workspace", runtime), open),
    ...repairCalls(calls),
    assembly: () => assembly.read(),
    close,
    [Symbol.asyncDispose]: close
  }
}
