/**
 * What a command line of `coppice` asks for.
 * Promise: read without loading or starting anything; what is not understood is a usage error that lists what there is, and
 * nothing is guessed. Rules: P1, V3.
 */
import { parseArgs } from "node:util"

/** What is to be done. */
export type Asked =
  | { readonly do: "help" }
  | { readonly do: "version" }
  | { readonly do: "doctor"; readonly json: boolean; readonly store: string | undefined }
  | {
      readonly do: "history"
      readonly as: "text" | "svg" | "json"
      readonly store: string | undefined
      /** A ref or a project; the only project when absent. */
      readonly ref: string | undefined
      /** Whose store; the only one that lies there when absent. */
      readonly provider: string | undefined
      readonly only: boolean
      readonly limit: number | undefined
    }
  | { readonly do: "usageError"; readonly message: string }

/** Every command, with the line of help that tells what it does. */
const commands = {
  doctor: "what this machine can do, and the remedy for each missing piece",
  history: "the commits of a project and of its branches, as a graph"
} as const

export const usage = `coppice COMMAND

${Object.entries(commands)
  .map(([name, about]) => `  ${name.padEnd(10)} ${about}`)
  .join("\n")}

  coppice doctor [--json] [--store DIR]
    --json       one JSON object
    --store DIR  where the store is or will be; by default where the preset puts the store of this directory
    exit code    0 the default preset works fully, 1 something that it needs is missing, 2 not understood

  coppice history [REF] [--store DIR] [--provider NAME] [--only] [--limit N] [--svg | --json]
    REF          a project, layer, branch or commit; the only project of the store when absent
    --provider   layerfs, git-worktree or reflink, where the store holds workspaces of several
    --only       its own history alone, without the other branches of the project
    --limit N    how many commits, 200 when absent
    --svg        one SVG document for light and dark pages; --json the rows with their lanes
    exit code    0 shown, 1 there is no such store or ref, 2 not understood

  coppice --help, coppice --version`

const known = `There are: ${Object.keys(commands).join(", ")}; and --help, --version.`

export const readCommandLine = (argv: readonly string[]): Asked => {
  let parsed: ReturnType<typeof parse>
  try {
    parsed = parse(argv)
  } catch (error) {
    return { do: "usageError", message: (error as Error).message.split("\n", 1)[0] ?? "" }
  }
  const { values, positionals } = parsed
  const [command, ...more] = positionals
  if (values.help === true) return { do: "help" }
  if (values.version === true) return { do: "version" }
  if (command === undefined) return { do: "usageError", message: `No command was given. ${known}` }
  if (!Object.hasOwn(commands, command)) {
    return { do: "usageError", message: `There is no command called ${JSON.stringify(command)}. ${known}` }
  }
  if (values.store === "") return { do: "usageError", message: "--store takes the path of a directory." }
  const taken: Readonly<Record<string, readonly string[]>> = {
    doctor: ["json", "store"],
    history: ["json", "store", "provider", "svg", "only", "limit"]
  }
  const odd = Object.entries(values).find(
    ([name, value]) => value !== false && value !== undefined && !taken[command]!.includes(name)
  )
  if (odd !== undefined) return { do: "usageError", message: `${command} takes no --${odd[0]}.` }
  if (command === "doctor") {
    if (more.length > 0) return { do: "usageError", message: `doctor takes no ${JSON.stringify(more[0])}.` }
    return { do: "doctor", json: values.json, store: values.store }
  }
  if (more.length > 1) return { do: "usageError", message: `history takes one ref, and no ${JSON.stringify(more[1])}.` }
  if (values.svg && values.json) return { do: "usageError", message: "--svg and --json are two answers: choose one." }
  const limit = values.limit === undefined ? undefined : Number(values.limit)
  if (limit !== undefined && !(Number.isInteger(limit) && limit >= 1 && limit <= 10_000)) {
    return { do: "usageError", message: "--limit takes a whole number from 1 to 10000." }
  }
  const as = values.svg ? "svg" : values.json ? "json" : "text"
  const { store, provider, only } = values
  return { do: "history", as, store, provider, ref: more[0], only, limit }
}

const parse = (argv: readonly string[]) =>
  parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      help: { type: "boolean", short: "h", default: false },
      version: { type: "boolean", short: "v", default: false },
      json: { type: "boolean", default: false },
      store: { type: "string" },
      provider: { type: "string" },
      svg: { type: "boolean", default: false },
      only: { type: "boolean", default: false },
      limit: { type: "string" }
    }
  })
