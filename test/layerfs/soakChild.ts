/**
 * A process that works on one branch of a store until it is killed, for `npm run soak -- layerfs` and its short test.
 * Arguments: the store, its branch, a directory to import, a seed, a label for its operation ids, whether it may run commands.
 * Before each call a line says what is asked under which operation id, and after it what was acknowledged.
 */
import * as Effect from "effect/Effect"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import { sha256 } from "../../src/base/Digest.ts"
import type { FileOperation, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { seededRandom } from "../seededRandom.ts"
import type { SoakLine } from "./soakLines.ts"

const [store = "", branch = "", source = "", seed = "1", label = "", commands = "no"] = process.argv.slice(2)
const random = seededRandom(Number(seed))
const run = Effect.runPromise

const say = (line: SoakLine): void => {
  process.stdout.write(`${JSON.stringify(line)}\n`)
}

const bytesOf = (length: number): Buffer => {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at < length; at += 1) bytes[at] = random(256)
  return bytes
}

const text = (): string => Array.from({ length: 1 + random(60) }, () => `line ${random(1000)} of ${label}\n`).join("")

const work = async (fs: WorkspaceProvider): Promise<void> => {
  /** The large file, which splices change: as the branch has it. */
  let large: Buffer | undefined
  const readLarge = async (): Promise<Buffer> =>
    Buffer.from(await run(fs.readAt(branch, "large").pipe(Effect.orElseSucceed(() => new Uint8Array()))))

  const apply = async (operationId: string, operations: readonly FileOperation[], path: string, content: Buffer) => {
    const outcome = await run(fs.applyTo(branch, operations, { operationId, message: label }))
    const recorded = outcome.outcome === "committed" ? { recorded: outcome.commit } : {}
    say({ operationId, commit: outcome.commit, head: outcome.commit, path, digest: sha256(content), ...recorded })
  }
  const write = async (operationId: string): Promise<void> => {
    const path = `part-${random(5)}/file-${random(40)}`
    const content = Buffer.from(text())
    const more: FileOperation[] = random(3) === 0 ? [{ op: "write", path: `other-${random(9)}`, bytes: text() }] : []
    await apply(operationId, [...more, { op: "write", path, bytes: content }], path, content)
  }
  const splice = async (operationId: string): Promise<void> => {
    large ??= await readLarge()
    if (large.length < 700_000) {
      large = bytesOf(900_000)
      return apply(operationId, [{ op: "write", path: "large", bytes: large }], "large", large)
    }
    const offset = random(large.length)
    const deleteCount = Math.min(random(5000), large.length - offset)
    const bytes = bytesOf(random(5000) + 1)
    large = Buffer.concat([large.subarray(0, offset), bytes, large.subarray(offset + deleteCount)])
    await apply(operationId, [{ op: "splice", path: "large", offset, deleteCount, bytes }], "large", large)
  }
  const move = async (operationId: string): Promise<void> => {
    const content = Buffer.from(text())
    const [from, to] = [`moving-${random(1e6)}`, `moved-${random(6)}`]
    await apply(
      operationId,
      [
        { op: "write", path: from, bytes: content },
        { op: "move", from, to }
      ],
      to,
      content
    )
  }
  const fork = async (operationId: string): Promise<void> => {
    const made = await run(fs.fork(branch, { name: label, operationId }))
    say({ operationId, commit: made.head, branch: made.id, recorded: made.head })
  }
  const importAgain = async (operationId: string): Promise<void> => {
    const receipt = await run(fs.importDirectory({ source, operationId }))
    say({ operationId, commit: receipt.commit, root: receipt.root, recorded: receipt.commit })
  }
  const reset = async (operationId: string): Promise<void> => {
    const { commits } = await run(fs.log(branch, { limit: 6 }))
    const to = commits[Math.min(commits.length - 1, 1 + random(4))]!.id
    const moved = await run(fs.reset(branch, { to, expectedHead: commits[0]!.id, operationId }))
    large = undefined
    say({ operationId, head: moved.head, ...(moved.number === null ? {} : { recorded: moved.head }) })
  }
  const exec = async (operationId: string): Promise<void> => {
    const content = Buffer.from(text())
    const command = ["sh", "-c", 'printf %s "$0" > by-command', content.toString()] as const
    const { checkpoint } = await run(fs.execOn(branch, command, { operationId, message: label }))
    const { commit, outcome } = checkpoint
    const recorded = outcome === "committed" ? { recorded: commit } : {}
    say({ operationId, commit, head: commit, path: "by-command", digest: sha256(content), ...recorded })
  }
  const compact = async (operationId: string): Promise<void> => {
    const report = await run(fs.compact({ maxMs: 50 + random(2000) }))
    say({ operationId, compacted: report.objects })
  }

  for (let n = 0; ; n += 1) {
    const operationId = `op_${label}_${n}`
    const at = random(100)
    const call =
      at < 40
        ? write
        : at < 65
          ? splice
          : at < 73
            ? move
            : at < 80
              ? fork
              : at < 84
                ? importAgain
                : at < 90
                  ? reset
                  : at < 96 || commands === "no"
                    ? compact
                    : exec
    say({ starts: call.name, operationId })
    try {
      await call(operationId)
    } catch (error) {
      // Two processes on one store may be in each other's way, which is an answer too.
      if (!isCoppiceError(error)) throw error
      large = undefined
      say({ operationId, error: error.code })
    }
  }
}

await run(
  Effect.scoped(
    Effect.gen(function* () {
      const fs = yield* openLayerFs({ store })
      say({ ready: true })
      yield* Effect.promise(() => work(fs))
    })
  )
)
