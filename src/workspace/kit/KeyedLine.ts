/** Work that goes one after the other for each key. Promise: a failure ends its own turn and no other. Rules: W11. */
export class KeyedLine {
  readonly #last = new Map<string, Promise<unknown>>()

  run<A>(key: string, work: () => Promise<A>): Promise<A> {
    const before = this.#last.get(key) ?? Promise.resolve()
    const turn = before.then(work, work)
    this.#last.set(key, turn)
    return turn.finally(() => {
      if (this.#last.get(key) === turn) this.#last.delete(key)
    })
  }
}
