/**
 * What this process knows of the layers it uses: each is looked at as a whole once, to notice that somebody else has changed it.
 * Promise: a layer of at most a thousand entries is looked at before it is first handed out, a larger one in a thread beside that; what
 * was taken away or made anew meanwhile is not taken for changed. After its look only the sample tells, until `again` (LayerSample.ts).
 * Rules: L10, W7; decision 064.
 */
import type { LayerFiles, Mark } from "./LayerFiles.ts"
import type { LayerLeases } from "./LayerLeases.ts"
import { few, isSampled, type WholeLook, wholeLook } from "./LayerSample.ts"
import type { LookThread } from "./LookThread.ts"

interface Looked {
  /** The mark's, by which a layer that was made anew is told from the one that was looked at. */
  readonly made: string
  /** Absent while the look goes on. */
  changed?: boolean
  /** Rejects with what kept from looking. */
  readonly ended: Promise<void>
}

const madeAs = ({ sample, all }: Mark): string => JSON.stringify([sample?.[0], all])

export class LayerLooks {
  readonly #files: LayerFiles
  readonly #leases: LayerLeases
  readonly #thread: LookThread
  readonly #looked = new Map<string, Looked>()

  constructor(files: LayerFiles, leases: LayerLeases, thread: LookThread) {
    this.#files = files
    this.#leases = leases
    this.#thread = thread
  }

  /** Begins the looks that were not begun. */
  begin(names: readonly string[]): void {
    for (const name of names) this.#begin(name)
  }

  /** Resolves when all of them were looked at. Rejects with `FileSystemFailure`. */
  async ended(names: readonly string[]): Promise<void> {
    for (const name of names) await this.#begin(name)?.ended
  }

  /** Looks anew, as a process does that has not seen the layer. */
  async again(name: string): Promise<void> {
    this.#looked.delete(name)
    await this.ended([name])
  }

  /** False while nothing is known. */
  isChanged(name: string): boolean {
    const mark = this.#files.mark(name)
    if (mark?.all === undefined) return false
    const looked = mark.all.entries <= few ? this.#begin(name, mark) : this.#looked.get(name)
    return looked?.made === madeAs(mark) && looked.changed === true
  }

  #begin(name: string, mark = this.#files.mark(name)): Looked | undefined {
    // One that was adopted with few entries is looked at whenever somebody asks (`isAsMade`).
    if (mark === undefined || mark.whole !== undefined) return undefined
    const made = madeAs(mark)
    const known = this.#looked.get(name)
    // Marks of empty layers may be alike: a small one that was changed is looked at again, in case that it was made anew.
    const isSmall = mark.all !== undefined && mark.all.entries <= few
    if (known?.made === made && !(isSmall && known.changed === true)) return known
    const looked = this.#first(name, mark, made)
    this.#looked.set(name, looked)
    return looked
  }

  #first(name: string, mark: Mark, made: string): Looked {
    const { all } = mark
    if (all !== undefined && all.entries <= few) {
      const changed = this.#differs(name, mark, wholeLook(this.#files.at(name)))
      return { made, changed, ended: Promise.resolve() }
    }
    const look = all === undefined ? this.#complete(name, mark) : this.#compare(name, mark)
    const ended = look.then(
      (changed) => void (looked.changed = changed),
      (error) => {
        if (this.#looked.get(name) === looked) this.#looked.delete(name)
        throw error
      }
    )
    const looked: Looked = { made, ended }
    // Nobody may wait for it.
    ended.catch(() => undefined)
    return looked
  }

  async #compare(name: string, mark: Mark): Promise<boolean> {
    return this.#differs(name, mark, await this.#thread.lookAside(this.#files.at(name)))
  }

  /** Of a layer that an older version marked nothing is claimed, and from now on something is. */
  async #complete(name: string, mark: Mark): Promise<boolean> {
    const release = await this.#leases.hold([name])
    try {
      await this.#files.addLook(name, mark, await this.#thread.look(this.#files.at(name)))
      return false
    } finally {
      release()
    }
  }

  #differs(name: string, mark: Mark, look: WholeLook | undefined): boolean {
    if (look?.digest === mark.all?.digest) return false
    const now = this.#files.mark(name)
    return now !== undefined && madeAs(now) === madeAs(mark) && isSampled(this.#files.at(name), mark.sample ?? [])
  }
}
