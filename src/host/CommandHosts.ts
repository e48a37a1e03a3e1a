/**
 * The port under which a preset offers hosts for plain commands.
 * Promise: the provider behind it is loaded when the first command is wrapped, and not before (P4, P9). Rules: S50, P9.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Host } from "./Host.ts"

/** A line for `sh -c`, or an argv that no shell sees. */
export type CommandLine = string | readonly [string, ...string[]]

export interface CommandPrice {
  /** What one run costs, in US dollars; absent means unknown, and the reservation is held. */
  readonly usd?: number
  /** Variables beside the allow-listed ones. */
  readonly env?: Readonly<Record<string, string>>
}

/** Wraps a command that speaks no protocol: exit code 0 claims that the work is done, any other that it failed. */
export class CommandHosts extends Context.Service<
  CommandHosts,
  { readonly make: (command: CommandLine, options?: CommandPrice) => Effect.Effect<Host> }
>()("coppice/CommandHosts") {}
