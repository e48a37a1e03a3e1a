/**
 * The script of the replay as one would do it with plain git: a worktree a branch, everything committed, ignored files too.
 * Promise: the same steps and the same durability (`core.fsync=all`), the files of the base known to git before; what it ends with is compared like
 * the others. It isolates nothing, and keeps no mtime and no empty directory. Rules: E19, GW1.
 */
import { mkdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import type { WorkspaceProvider } from "../src/workspace/WorkspaceProvider.ts"
import { command } from "./measure.ts"

const settings = [
  "user.name=bench",
  "user.email=bench@localhost",
  "core.fsync=all",
  "gc.auto=0",
  "tar.umask=0022"
].flatMap((setting) => ["-c", setting])

export class ByHand {
  readonly #repository: string
  readonly #scratch: string
  /** `git worktree add` does not like company. */
  #adding: Promise<unknown> = Promise.resolve()
  #next = 0

  constructor(scratch: string) {
    this.#scratch = scratch
    this.#repository = join(scratch, "by-hand")
  }

  #git(at: string, ...args: readonly string[]): Promise<string> {
    return command(["git", "-C", at, ...settings, ...args])
  }

  async prepare(source: string): Promise<void> {
    await command(["cp", "-a", source, this.#repository])
    await command(["git", "init", "-q", this.#repository])
    await this.#git(this.#repository, "add", "-A", "-f")
    await this.#git(this.#repository, "commit", "-q", "-m", "base")
  }

  /** Two rounds of writing, building, testing and committing. Gives the last commit. */
  async attempt(rounds: readonly ReadonlyMap<string, string>[]): Promise<string> {
    const tree = join(this.#scratch, `by-hand-${this.#next++}`)
    const added = this.#adding.then(() => this.#git(this.#repository, "worktree", "add", "-q", "--detach", tree))
    this.#adding = added.catch(() => undefined)
    await added
    for (const writes of rounds) {
      for (const [path, text] of writes) writeFileSync(join(tree, path), text)
      await command(["sh", "work/build.sh"], tree)
      await command(["sh", "work/test.sh"], tree)
      await this.#git(tree, "add", "-A", "-f")
      await this.#git(tree, "commit", "-q", "-m", "round")
    }
    const commit = (await this.#git(tree, "rev-parse", "HEAD")).trim()
    await this.#git(this.#repository, "worktree", "remove", "--force", tree)
    return commit
  }

  /** What a commit holds, taken into another provider for its digest. */
  async end(commit: string, provider: WorkspaceProvider, digest: (ref: string) => Promise<string>): Promise<string> {
    const tree = join(this.#scratch, `by-hand-${this.#next++}`)
    mkdirSync(tree)
    const archive = `${tree}.tar`
    await this.#git(this.#repository, "archive", "-o", archive, commit)
    await command(["tar", "-xpf", archive, "-C", tree])
    const imported = await Effect.runPromise(provider.importDirectory({ source: tree }))
    for (const path of [tree, archive]) rmSync(path, { recursive: true })
    return digest(imported.commit)
  }
}
