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
  | { readonly do: "usageError"; readonly message: string }

/** Every command, with the line of help that tells what it does. */
const commands = {
  doctor: "what this machine can do, and the remedy for each missing piece"
} as const

export const usage = `coppice COMMAND

${Object.entries(commands)
  .map(([name, about]) => `  ${name.padEnd(10)} ${about}`)
  .join("\n")}

  coppice doctor [--json] [--store DIR]
    --json       one JSON object
    --store DIR  where the store is or will be; by default where the preset puts the store of this directory
    exit code    0 the default preset works fully, 1 something that it needs is missing, 2 not understood

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
  if (more.length > 0) return { do: "usageError", message: `doctor takes no ${JSON.stringify(more[0])}.` }
  if (values.store === "") return { do: "usageError", message: "--store takes the path of a directory." }
  return { do: "doctor", json: values.json, store: values.store }
}

const parse = (argv: readonly string[]) =>
  parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      help: { type: "boolean", short: "h", default: false },
      version: { type: "boolean", short: "v", default: false },
      json: { type: "boolean", default: false },
      store: { type: "string" }
    }
  })
