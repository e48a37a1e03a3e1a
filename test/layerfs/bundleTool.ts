/**
 * Writes bundles that no Coppice would write: the records of a real one edited, with every length and the checksum right again, so that
 * what is refused is what they say. Promise: knows the format by its description, not by the code that is tested. Rules: L13, L10.
 */
import { createHash } from "node:crypto"
import { readFileSync, writeFileSync } from "node:fs"
import { zstdDecompressSync } from "node:zlib"

/** A commit as the manifest has it. */
export type Commit = Record<string, unknown> & { id: string; parent: string | null }

/** A manifest that may be edited to anything. */
export type Manifest = Record<string, unknown> & { head: string; history: unknown; commits: Commit[]; edges?: unknown }

/** An object of a bundle: its kind as a number (0 blob, 1 tree, 2 times, 3 list, 4 chunk) and its bytes. */
export interface Loose {
  kind: number
  bytes: Buffer
}

const idOf = (bytes: Buffer): Buffer => createHash("sha256").update(bytes).digest()
export const hexOf = (bytes: Buffer): string => idOf(bytes).toString("hex")

/** What a whole bundle says and holds. */
export const readBundle = (path: string): { manifest: Manifest; objects: Loose[] } => {
  const whole = readFileSync(path)
  let manifest: Manifest | undefined
  const objects: Loose[] = []
  for (let at = 16; at < whole.length; ) {
    const [type, length] = [whole.readUInt8(at), whole.readUInt32LE(at + 1)]
    const payload = whole.subarray(at + 5, at + 5 + length)
    at += 5 + length
    if (type === 1) manifest = JSON.parse(payload.toString()) as Manifest
    if (type !== 2) continue
    const count = payload.readUInt32LE(0)
    const frame = payload.subarray(4 + 37 * count)
    const raw = frame[0] === 0 ? frame.subarray(5) : zstdDecompressSync(frame.subarray(5))
    let offset = 0
    for (let n = 0; n < count; n += 1) {
      const head = 4 + 37 * n
      const size = payload.readUInt32LE(head + 33)
      objects.push({ kind: payload.readUInt8(head), bytes: Buffer.from(raw.subarray(offset, offset + size)) })
      offset += size
    }
  }
  return { manifest: manifest!, objects }
}

/** A bundle with exactly this content, and a right checksum. */
export const writeBundle = (path: string, manifest: unknown, objects: readonly Loose[]): void => {
  const header = Buffer.alloc(16)
  header.write("COPBNDL\n", 0, "latin1")
  header.writeUInt32LE(1, 8)
  const block = (type: number, payload: Buffer): Buffer => {
    const head = Buffer.alloc(5)
    head.writeUInt8(type, 0)
    head.writeUInt32LE(payload.length, 1)
    return Buffer.concat([head, payload])
  }
  const list = Buffer.alloc(4 + 37 * objects.length)
  list.writeUInt32LE(objects.length, 0)
  for (const [n, { kind, bytes }] of objects.entries()) {
    list.writeUInt8(kind, 4 + 37 * n)
    list.set(idOf(bytes), 5 + 37 * n)
    list.writeUInt32LE(bytes.length, 37 + 37 * n)
  }
  const raw = Buffer.concat(objects.map(({ bytes }) => bytes))
  const frame = Buffer.alloc(5)
  frame.writeUInt32LE(raw.length, 1)
  const body = Buffer.concat([
    header,
    block(1, Buffer.from(JSON.stringify(manifest))),
    block(2, Buffer.concat([list, frame, raw]))
  ])
  writeFileSync(path, Buffer.concat([body, block(3, idOf(body))]))
}
