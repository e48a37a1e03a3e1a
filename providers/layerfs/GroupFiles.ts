/**
 * Opens whole groups one after the other, for who goes through all of a store.
 * Promise: what is given was just read from the pack, not from a cache, and is checked by nobody yet; memory is that of one
 * group, freed before the next and not when the collector comes: 3 MiB at a time it would come all the time. Rules: L10.
 */
import { closeSync, openSync } from "node:fs"
import { join } from "node:path"
import { openFrame, parseFrame } from "./Frame.ts"
import { free, openGroup } from "./Group.ts"
import type { Place } from "./ObjectStore.ts"
import { hasPackHeader, packName, readAt } from "./PackFile.ts"

/** Where a group lies. */
export type Group = Pick<Place, "pack" | "groupOffset" | "groupLength" | "framed">

/** The object at a place of the open group, until the next one is taken; undefined where it cannot be had, or not without another. */
export type Take = (offset: number, length: number) => Buffer | undefined

export const nothing: Take = () => undefined

export class GroupFiles {
  readonly #directory: string
  readonly #files = new Map<number, number | undefined>()
  #stored: Buffer | undefined
  #raw: Buffer | undefined

  constructor(directory: string) {
    this.#directory = directory
  }

  open({ pack, groupOffset, groupLength, framed }: Group): Take {
    this.#forget()
    const fd = this.#file(pack)
    if (fd === undefined) return nothing
    const stored = readAt(fd, groupOffset, groupLength)
    this.#stored = stored
    if (stored.length !== groupLength) return nothing
    if (framed) return (offset) => this.#frame(stored, offset)
    const raw = openGroup(stored)
    this.#raw = raw
    return raw === undefined ? nothing : (offset, length) => raw.subarray(offset, offset + length)
  }

  #frame(stored: Buffer, at: number): Buffer | undefined {
    const frame = parseFrame(stored, at)
    if (frame === undefined || frame.base !== undefined) return undefined
    const raw = openFrame(frame, undefined)
    if (this.#raw?.buffer !== stored.buffer) free(this.#raw)
    this.#raw = raw
    return raw
  }

  #forget(): void {
    if (this.#raw?.buffer !== this.#stored?.buffer) free(this.#raw)
    free(this.#stored)
    this.#raw = undefined
    this.#stored = undefined
  }

  #file(pack: number): number | undefined {
    if (this.#files.has(pack)) return this.#files.get(pack)
    let fd: number | undefined
    try {
      fd = openSync(join(this.#directory, packName(pack)), "r")
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error
    }
    if (fd !== undefined && !hasPackHeader(fd)) {
      closeSync(fd)
      fd = undefined
    }
    this.#files.set(pack, fd)
    return fd
  }

  close(): void {
    this.#forget()
    for (const fd of this.#files.values()) if (fd !== undefined) closeSync(fd)
    this.#files.clear()
  }
}
