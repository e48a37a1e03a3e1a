/**
 * What was used last, up to a number of bytes.
 * Promise: never holds more than its bound beside the one entry put last. Rules: 01 (bounded memory).
 */
export class ByteCache<V> {
  readonly #bound: number
  readonly #entries = new Map<string, { readonly value: V; readonly bytes: number }>()
  #bytes = 0

  /** `bound` in bytes. */
  constructor(bound: number) {
    this.#bound = bound
  }

  get(key: string): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  put(key: string, value: V, bytes: number): void {
    this.#drop(key)
    this.#entries.set(key, { value, bytes })
    this.#bytes += bytes
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#bound || oldest === key) break
      this.#drop(oldest)
    }
  }

  dropWhere(matches: (key: string) => boolean): void {
    for (const key of this.#entries.keys()) if (matches(key)) this.#drop(key)
  }

  clear(): void {
    this.#entries.clear()
    this.#bytes = 0
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key)
    if (entry === undefined) return
    this.#entries.delete(key)
    this.#bytes -= entry.bytes
  }
}
