/**
 * A process that works on one branch of a store until it is killed, for `npm run soak -- layerfs` and its short test.
 * Arguments: the store, its branch, a directory to import, a directory for what it exports, a seed, a label for its operation ids,
 * whether it may run commands (`yes`), and the call that it makes half of the time.
 * Before each call a line says what is asked under which operation id, and after it what was acknowledged.
 */
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { openLayerFs } from "../../providers/layerfs/index.ts"
import { isCoppiceError } from "../../src/base/CoppiceError.ts"
import { sha256 } from "../../src/base/Digest.ts"
import type { FileOperation, WorkspaceProvider } from "../../src/workspace/WorkspaceProvider.ts"
import { seededRandom } from "../seededRandom.ts"
import type { SoakLine } from "./soakLines.ts"

const [store = "", branch = "", source = "", out = "", seed = "1", label = "", commands = "no", favoured = ""] =
  process.argv.slice(2)
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
    if (large.length < 200_000) {
      // Above what is kept whole, so that it is a list of chunks.
      large = bytesOf(300_000)
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
  const pin = async (operationId: string): Promise<void> => {
    await run(fs.pin(`pin-${random(5)}`, branch))
    say({ operationId })
  }
  const patch = async (operationId: string): Promise<void> => {
    const { commits } = await run(fs.log(branch, { limit: 2 }))
    await run(fs.exportPatch({ from: commits.at(-1)!.id, to: commits[0]!.id }))
    say({ operationId })
  }
  const bundle = async (operationId: string): Promise<void> => {
    const target = join(out, operationId)
    const { commit } = await run(fs.exportBundle({ ref: branch, target, history: false }))
    await run(fs.importBundle({ source: target }))
    say({ operationId, commit })
  }
  const exportDirectory = async (operationId: string): Promise<void> => {
    await run(fs.exportDirectory(branch, join(out, operationId)))
    say({ operationId })
  }
  /** Changes of a killed process, to a branch of their own. */
  const recover = async (operationId: string): Promise<void> => {
    const [left] = await run(fs.left)
    if (left === undefined) return say({ operationId })
    const { branch: made, checkpoint } = await run(fs.recover(left.id, { operationId }))
    const { commit, outcome } = checkpoint
    say({ operationId, commit, recovered: made, ...(outcome === "committed" ? { recorded: commit } : {}) })
  }

  // Named here: a built program has other function names.
  const calls: readonly (readonly [name: string, weight: number, call: (operationId: string) => Promise<void>])[] = [
    ["write", 30, write],
    ["splice", 22, splice],
    ["move", 7, move],
    ["fork", 6, fork],
    ["importAgain", 4, importAgain],
    ["reset", 6, reset],
    ["compact", 5, compact],
    ["pin", 3, pin],
    ["patch", 2, patch],
    ["bundle", 3, bundle],
    ["exportDirectory", 2, exportDirectory],
    ["exec", commands === "yes" ? 7 : 0, exec],
    ["recover", commands === "yes" ? 3 : 0, recover]
  ]
  const favourite = calls.find(([name]) => name === favoured)
  const sum = calls.reduce((total, [, weight]) => total + weight, 0)
  const choose = () => {
    if (favourite !== undefined && random(2) === 0) return favourite
    let at = random(sum)
    return calls.find(([, weight]) => (at -= weight) < 0)!
  }

  for (let n = 0; ; n += 1) {
    const operationId = `op_${label}_${n}`
    const [name, , call] = choose()
    say({ starts: name, operationId })
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
